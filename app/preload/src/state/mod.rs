//! Everything that this library knows, behind one lock: the process' queue, its sockets, its epoll sets, and
//! the threads that sleep.
//!
//! ```text
//!  queue ── pump ──► File: received data ──► the sets and the sleeping threads that wait for it
//!    ▲                                                        │ an eventfd each
//!    └── arm, before the lock is given back while threads sleep┘
//! ```
//!
//! Whichever thread holds the lock takes what has arrived, for all of them; so the one that leaves sees to it
//! that the stack wakes somebody for what comes next.

mod events;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::ManuallyDrop;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libc::c_int;
use weever_app_ring::NumberHasher;
use weever_app_sockets::{AppQueue, Credential, Error, Handle, Process};

use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind, Phase, Stream};
use crate::numbers::{self, Meaning};
use crate::set::Set;
use crate::slab::Slab;
use crate::wait::Moment;
use crate::ways::Way;
use crate::{deferred, log};

/// How long a thread with the stack inside polls before it sleeps: twice as long as waking up takes.
const LINGER: Duration = Duration::from_micros(50);

/// Octets that a program has read before the stack is told in the middle of its work.
const TELL_AFTER: usize = 32 * 1024;
/// The same when there are no more to read: a window that opens by less than a segment is not announced either
/// (RFC 9293 §3.8.6.2.2).
const WORTH_TELLING: usize = 1448;
/// Datagrams that a program has read before their frames are lent to the stack again: it may read for long and neither send
/// nor wait.
const RETURN_AFTER: usize = 256;

/// The events for which a thread sleeps.
pub(crate) enum Watch {
    /// An epoll set.
    Set(u32),
    /// Sockets, each with the events of interest, and epoll sets.
    List { files: Vec<(u32, u32)>, sets: Vec<u32> },
}

pub(crate) struct Sleeper {
    /// An eventfd that wakes it.
    pub(crate) kick: c_int,
    pub(crate) watch: Watch,
}

pub(crate) struct State {
    pub(crate) queue: Option<&'static AppQueue>,
    /// A connection to the stack that was made before the program changed its user.
    pub(crate) reserved: Option<Process>,
    /// Shows the next stack which user the program was before it changed it.
    pub(crate) credential: Option<Credential>,
    /// The stack could not be reached: the program stays on the kernel.
    pub(crate) refused: bool,
    /// When opening a queue failed last, if it did for a reason that may pass.
    pub(crate) failed: Option<Moment>,
    /// The stack has ended, and there is no other yet.
    pub(crate) lost: bool,
    /// The stack is inside this process.
    pub(crate) inside: bool,
    /// Sends that may wait for others before a stack inside takes its turn: it is handed them all at once.
    owed: usize,
    /// Octets of streams that were read since the stack was told of such.
    untold: usize,
    /// Datagrams that were read since the stack was told of such.
    unreturned: usize,
    /// Looks for more on sockets that may find nothing before such a stack takes its turn for them.
    unlooked: usize,
    /// The stack was inside the parent of this process, which has none.
    pub(crate) orphaned: bool,
    pub(crate) files: Slab<File>,
    /// How many files were made.
    made: u64,
    pub(crate) sets: Slab<Set>,
    /// Listeners in epoll sets that rest until this process waits again.
    pub(crate) resting: Vec<u32>,
    /// Sockets of the kernel's that were [duplicated](crate::twins), by their inodes.
    pub(crate) twins: Vec<u64>,
    places: Option<HashMap<Handle, u32, BuildHasherDefault<NumberHasher>>>,
    pub(crate) ways: Option<HashMap<IpAddr, Way>>,
    pub(crate) sleepers: Vec<Sleeper>,
    /// The epoll set for which the thread that holds the lock is about to look.
    pub(crate) looks: Option<u32>,
    /// Eventfds of threads that slept.
    pub(crate) kicks: Vec<c_int>,
    /// The stack will write to the queue's descriptor when something comes.
    armed: bool,
    /// Something has happened that a sleeping thread may wait for.
    changed: bool,
}

// SAFETY: buffers and the queue that they belong to are in the state together, which one thread at a time
// has, the holder of the lock.
unsafe impl Send for State {}

static STATE: Mutex<State> = Mutex::new(State {
    queue: None,
    reserved: None,
    credential: None,
    refused: false,
    failed: None,
    lost: false,
    inside: false,
    owed: 0,
    untold: 0,
    unreturned: 0,
    unlooked: 0,
    orphaned: false,
    files: Slab::new(),
    made: 0,
    sets: Slab::new(),
    resting: Vec::new(),
    twins: Vec::new(),
    places: None,
    ways: None,
    sleepers: Vec::new(),
    looks: None,
    kicks: Vec::new(),
    armed: false,
    changed: false,
});

/// The state, for as long as this value lives.
pub(crate) struct Held(ManuallyDrop<MutexGuard<'static, State>>);

/// Waits for the lock, which nobody keeps while it sleeps.
pub(crate) fn lock() -> Held {
    deferred::begin();
    Held(ManuallyDrop::new(STATE.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Held {
    /// The lock without the care for sleeping threads, for a process that is about to fork.
    pub(crate) fn into_guard(self) -> MutexGuard<'static, State> {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: taken once; `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut held.0) }
    }

    /// The reverse.
    pub(crate) fn from_guard(guard: MutexGuard<'static, State>) -> Held {
        Held(ManuallyDrop::new(guard))
    }
}

impl Deref for Held {
    type Target = State;
    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle();
        // SAFETY: taken once, here.
        drop(unsafe { ManuallyDrop::take(&mut self.0) });
        deferred::end();
    }
}

impl State {
    pub(crate) fn add(&mut self, file: File) -> u32 {
        self.made += 1;
        self.files.insert(File { serial: self.made, ..file })
    }

    /// The socket of a handle is at this place from now on.
    pub(crate) fn name(&mut self, handle: Handle, place: u32) {
        self.places.get_or_insert_default().insert(handle, place);
    }

    pub(crate) fn forget(&mut self, handle: Handle) {
        self.places.get_or_insert_default().remove(&handle);
    }

    /// The socket of a descriptor.
    pub(crate) fn of(&mut self, fd: c_int) -> Answer<(u32, &mut File)> {
        let place = numbers::file(fd).ok_or(Failure::Kernel)?;
        let file = self.files.get_mut(place).ok_or(Failure::Kernel)?;
        Ok((place, file))
    }

    /// The connection of a descriptor.
    pub(crate) fn stream(&mut self, fd: c_int) -> Option<&mut Stream> {
        match self.of(fd).ok()?.1 {
            File { kind: Kind::Stream(stream), .. } => Some(stream),
            _ => None,
        }
    }

    /// Hands written octets to the stack.
    pub(crate) fn commit(&mut self) {
        (self.owed, self.untold, self.unreturned) = (0, 0, 0);
        self.tell_stack(AppQueue::commit);
    }

    /// The program is about to be told that so many sockets are ready. It will probably send on each: a stack inside takes
    /// its turn with the last of them, a stack elsewhere works meanwhile.
    pub(crate) fn tell(&mut self, sockets: usize) {
        if self.inside && sockets > 0 {
            self.publish();
            (self.owed, self.unlooked) = (sockets - 1, sockets - 1);
        } else {
            self.commit();
        }
    }

    /// As [`commit`](Self::commit), unless more is to be expected soon.
    pub(crate) fn commit_soon(&mut self) {
        if self.owed == 0 {
            return self.commit();
        }
        self.owed -= 1;
        self.publish();
    }

    /// Octets of a stream were read, perhaps all that are there. If the peer may be waiting for it, the stack is told at once,
    /// else a worker that sleeps hears of it with what the program sends next, or when the program waits or ends.
    pub(crate) fn note_read(&mut self, octets: usize, all: bool) {
        self.untold += octets;
        if self.untold >= if all { WORTH_TELLING } else { TELL_AFTER } {
            return self.commit_read();
        }
        // A stack inside ends with its program.
        if !self.inside {
            self.tell_stack(AppQueue::publish_read);
        }
    }

    /// So many datagrams were read.
    #[inline]
    pub(crate) fn note_datagrams(&mut self, count: usize) {
        self.unreturned += count;
        if self.unreturned >= RETURN_AFTER {
            self.publish();
        }
    }

    /// As [`commit`](Self::commit), after a read. A stack inside hears of it at its next turn.
    pub(crate) fn commit_read(&mut self) {
        if self.inside { self.publish() } else { self.commit() }
    }

    /// A call that does not wait has found nothing: whether it says so before a stack inside takes its turn. It does so as often as
    /// sockets were ready: programs read each of them until there is nothing more.
    pub(crate) fn turns_later(&mut self) -> bool {
        let later = self.unlooked > 0;
        self.unlooked = self.unlooked.saturating_sub(1);
        later
    }

    fn publish(&mut self) {
        (self.untold, self.unreturned) = (0, 0);
        self.tell_stack(AppQueue::publish);
    }

    /// Has the queue hand something to the stack, which is lost if that fails.
    fn tell_stack(&mut self, how: impl FnOnce(&AppQueue) -> Result<(), Error>) {
        if let Some(queue) = self.queue
            && let Err(error) = how(queue)
        {
            self.lose(&error.to_string());
        }
    }

    /// With the stack inside, looks for what comes a little longer before the thread sleeps: waking takes longer. True
    /// if something has come. Threads that sleep already are not kept waiting for it.
    pub(crate) fn linger(&mut self) -> bool {
        if !self.inside || !self.sleepers.is_empty() {
            return false;
        }
        let start = Instant::now();
        while start.elapsed() < LINGER {
            if self.pump() {
                return true;
            }
        }
        false
    }

    /// Waits up to a millisecond for the stack's answer, with the lock held.
    pub(crate) fn wait_for_stack(&mut self) {
        let Some(queue) = self.queue else { return };
        if let Err(error) = queue.wait(Some(Duration::from_millis(1))) {
            self.lose(&error.to_string());
        }
        // The descriptor was acknowledged: threads that sleep need it armed again.
        self.armed = false;
    }

    /// The queue, if there is one.
    pub(crate) fn opened(&self) -> Answer<&'static AppQueue> {
        match self.queue {
            Some(queue) => Ok(queue),
            None => fail(libc::ENETDOWN),
        }
    }

    /// The stack has ended: connections are reset, everything else waits until it is there again.
    pub(crate) fn lose(&mut self, why: &str) {
        log::note(format_args!("the stack is gone: {why}"));
        self.lost = true;
        self.drop_queue();
        self.forget_left();
        let mut touched = Vec::new();
        for (place, file) in self.files.iter_mut() {
            touched.push(place);
            match &mut file.kind {
                Kind::Udp(udp) => udp.socket = None,
                Kind::Listening(listening) => listening.listener = None,
                Kind::Stream(stream) => {
                    stream.stream = None;
                    if stream.phase != Phase::Over {
                        (stream.phase, file.error) = (Phase::Over, libc::ECONNRESET);
                    }
                }
            }
        }
        touched.into_iter().for_each(|place| self.touch(place));
    }

    /// Forgets connections that the program has left: there is no stack that could take their unread
    /// octets.
    pub(crate) fn forget_left(&mut self) {
        let left = self.files.iter_mut().filter(|(_, file)| file.left);
        let left: Vec<u32> = left.map(|(place, _)| place).collect();
        for place in left {
            self.files.remove(place);
        }
    }

    /// Gives the queue up, with all buffers; handles name nothing any more.
    pub(crate) fn drop_queue(&mut self) {
        for (_, file) in self.files.iter_mut() {
            match &mut file.kind {
                Kind::Udp(udp) => udp.received.clear(),
                Kind::Stream(stream) => {
                    (stream.offset, _) = (0, stream.received.clear());
                }
                Kind::Listening(_) => {}
            }
        }
        let Some(queue) = self.forget_queue() else { return };
        // SAFETY: it was made by `Box::leak`, and no buffer of it is left: they were all in `files`.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(queue).cast_mut()) });
    }

    /// There is no queue any more, and nothing of it has a meaning.
    pub(crate) fn forget_queue(&mut self) -> Option<&'static AppQueue> {
        self.places = None;
        self.ways = None;
        self.armed = false;
        for (_, set) in self.sets.iter_mut() {
            set.wake = false;
        }
        let queue = self.queue.take()?;
        queue.descriptors().into_iter().for_each(|fd| _ = numbers::set(fd, None));
        Some(queue)
    }

    /// Arms the queue; false when there is something already.
    pub(crate) fn arm(&mut self) -> bool {
        let Some(queue) = self.queue else { return true };
        match queue.arm() {
            Ok(nothing) => {
                self.armed = nothing;
                nothing
            }
            Err(error) => {
                self.lose(&error.to_string());
                false
            }
        }
    }

    /// The queue's descriptor was readable, or nobody sleeps any more.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(queue) = self.queue {
            queue.acknowledge();
        }
        self.armed = false;
    }

    /// The descriptor by which the stack wakes this process.
    pub(crate) fn wake(&self) -> Option<c_int> {
        self.queue.map(|queue| queue.as_fd().as_raw_fd())
    }

    /// Before the lock is given back: threads that sleep are woken for what has come, and will be for what
    /// comes.
    fn settle(&mut self) {
        if self.sleepers.is_empty() {
            self.changed = false;
            return;
        }
        while !self.armed && self.queue.is_some() {
            self.pump();
            if self.arm() {
                break;
            }
        }
        if !std::mem::take(&mut self.changed) {
            return;
        }
        for sleeper in &self.sleepers {
            if self.is_ready(&sleeper.watch) {
                ring(sleeper.kick);
            }
        }
    }

    fn is_ready(&self, watch: &Watch) -> bool {
        match watch {
            Watch::Set(set) => self.may_be_ready(*set),
            Watch::List { files, sets } => {
                files.iter().any(|(place, events)| {
                    self.files.get(*place).is_some_and(|file| file.readiness() & events != 0)
                }) || sets.iter().any(|set| self.may_be_ready(*set))
            }
        }
    }
}

/// Wakes a thread by its eventfd.
pub(crate) fn ring(kick: c_int) {
    let one = 1u64;
    // SAFETY: eight readable bytes. It fails only when the counter is full, and then it is readable.
    unsafe { libc::syscall(libc::SYS_write, kick, &raw const one, 8) };
}

/// An eventfd of this library's own, or the error number.
pub(crate) fn eventfd() -> Answer<c_int> {
    // SAFETY: it has no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return fail(crate::real::errno());
    }
    let fd = numbers::raise(fd);
    numbers::set(fd, Some(Meaning::Internal));
    Ok(fd)
}
