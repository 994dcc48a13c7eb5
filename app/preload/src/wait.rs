//! Waiting: for one socket in a blocking call, and for any of a list in `poll` and `select`.

use std::time::Duration;

use libc::{POLLIN, c_int, nfds_t, pollfd, sigset_t, timespec};
use weever_app_sockets::AppQueue;

use crate::collect::LOOK;
use crate::failure::{Answer, Failure, fail};
use crate::file::File;
use crate::numbers::{self, Meaning};
use crate::signals::Watching;
use crate::state::{Held, Sleeper, Watch, eventfd, lock};
use crate::{log, real};

/// The time between looks at the other descriptors in a process that may wait for only one.
const GLANCE: Duration = Duration::from_millis(20);

/// A moment of the monotonic clock, as the system has it and not the C library: another preloaded library may give the
/// program a time of its own (libfaketime), even one that stands still, and a wait is to end all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Moment {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place for the time. This clock is always there.
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Moment(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default()))
    }

    /// The time since this moment.
    pub(crate) fn elapsed(self) -> Duration {
        Moment::now().0.saturating_sub(self.0)
    }
}

/// Whether a blocking call waits to receive or to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

impl Direction {
    fn events(self) -> u32 {
        match self {
            Direction::Receive => crate::file::IN | crate::file::RDHUP,
            Direction::Send => crate::file::OUT,
        }
    }

    fn timeout(self, file: &File) -> Option<Duration> {
        match self {
            Direction::Receive => file.options.receive_timeout,
            Direction::Send => file.options.send_timeout,
        }
    }
}

/// Tries until there is a result; without blocking, `EAGAIN` says that there is none yet.
pub(crate) fn until<T>(
    fd: c_int,
    dont_wait: bool,
    direction: Direction,
    mut attempt: impl FnMut(&mut Held, u32) -> Answer<Option<T>>,
) -> Answer<T> {
    loop {
        let done = until_signal(fd, dont_wait, direction, &mut attempt);
        if !matches!(done, Err(Failure::Errno(libc::ERESTART))) {
            return done;
        }
    }
}

/// As [`until`]; `ERESTART` says that a handler with `SA_RESTART` has run: a call that has done nothing yet goes on,
/// others return their result so far.
#[inline]
pub(crate) fn until_signal<T>(
    fd: c_int,
    dont_wait: bool,
    direction: Direction,
    mut attempt: impl FnMut(&mut Held, u32) -> Answer<Option<T>>,
) -> Answer<T> {
    let mut held = lock();
    match once(&mut held, fd, &mut attempt)? {
        Some(done) => Ok(done),
        None => until_there(held, fd, (dont_wait, direction), &mut attempt),
    }
}

/// Tries once, at the socket of a descriptor.
#[inline]
fn once<T>(
    held: &mut Held,
    fd: c_int,
    attempt: &mut impl FnMut(&mut Held, u32) -> Answer<Option<T>>,
) -> Answer<Option<T>> {
    let (place, file) = held.of(fd)?;
    if file.is_shared() {
        held.pump();
        held.ensure(place)?;
    }
    attempt(held, place)
}

/// Goes on after an attempt that has found nothing.
#[inline(never)]
fn until_there<T>(
    mut held: Held,
    fd: c_int,
    (dont_wait, direction): (bool, Direction),
    attempt: &mut impl FnMut(&mut Held, u32) -> Answer<Option<T>>,
) -> Answer<T> {
    let (mut start, serial) = (None, held.of(fd)?.1.serial);
    loop {
        let (_, file) = held.of(fd)?;
        let dont_wait = dont_wait || file.nonblocking;
        let later = dont_wait && direction == Direction::Receive && held.turns_later();
        let found = if later { held.take_arrived() } else { held.pump() };
        if !found {
            if dont_wait {
                if !later {
                    held.commit();
                }
                return fail(libc::EAGAIN);
            }
            match sleep_for(held, fd, direction, &mut start) {
                Ok(again) => held = again,
                // Events that came before the signal are reported.
                Err(Failure::Errno(errno @ (libc::EINTR | libc::ERESTART))) => {
                    held = lock();
                    held.pump();
                    let (place, file) = held.of(fd)?;
                    if file.serial != serial {
                        return fail(errno);
                    }
                    let done = attempt(&mut held, place)?;
                    return done.ok_or(Failure::Errno(errno));
                }
                Err(why) => return Err(why),
            }
        }
        if held.of(fd)?.1.serial != serial {
            // Closed meanwhile, and the number is another socket's.
            return fail(libc::EBADF);
        }
        if let Some(done) = once(&mut held, fd, attempt)? {
            return Ok(done);
        }
    }
}

/// Sleeps until a socket may be ready; its timeout counts from `start` on.
fn sleep_for(
    mut held: Held,
    fd: c_int,
    direction: Direction,
    start: &mut Option<Moment>,
) -> Answer<Held> {
    let (place, file) = held.of(fd)?;
    let limit = direction.timeout(file);
    let left =
        limit.map(|limit| limit.saturating_sub(start.get_or_insert_with(Moment::now).elapsed()));
    if left.is_some_and(|left| left.is_zero()) {
        return fail(libc::EAGAIN);
    }
    // The kernel's socket behind it may become ready, too.
    let mut kernel = [pollfd { fd, events: POLLIN, revents: 0 }];
    let also = usize::from(file.kernel && direction == Direction::Receive);
    let files = vec![(place, direction.events() | crate::file::ERR)];
    let watch = Watch::List { files, sets: Vec::new() };
    let until = Until { limit: left, mask: std::ptr::null(), restarts: limit.is_none() };
    sleep(held, watch, &mut kernel[..also], until)
}

/// How long a thread sleeps.
pub(crate) struct Until {
    limit: Option<Duration>,
    /// The signals that are blocked meanwhile; null for those of the thread.
    mask: *const sigset_t,
    /// A handler with `SA_RESTART` does not end it: not in calls with a timeout, nor in `poll` and its like (signal(7)).
    restarts: bool,
}

/// Sleeps until something that is watched is ready, one of the kernel's descriptors is, or the time has passed. It may
/// return early: a thread whose stack has ended looks for the next one from time to time.
fn sleep(mut held: Held, watch: Watch, kernel: &mut [pollfd], until: Until) -> Answer<Held> {
    held.commit();
    if held.linger() {
        return Ok(held);
    }
    if !held.arm() {
        held.pump();
        return Ok(held);
    }
    let kick = match held.kicks.pop() {
        Some(kick) => kick,
        None => eventfd()?,
    };
    let wake = held.wake().unwrap_or(-1);
    let end = held.queue.and_then(AppQueue::end_number).unwrap_or(-1);
    let limit = match held.looks_for_stack() {
        true => Some(until.limit.map_or(LOOK, |limit| limit.min(LOOK))),
        false => until.limit,
    };
    held.sleepers.push(Sleeper { kick, watch });
    let signals = Watching::begin(kick);
    drop(held);
    let own = |fd, events| pollfd { fd, events, revents: 0 };
    let mut all = vec![own(wake, POLLIN), own(kick, POLLIN), own(end, libc::POLLRDHUP)];
    all.extend_from_slice(kernel);
    let mut done = wait_for(&mut all, limit, until.mask);
    if done < 0 && real::errno() == libc::EINVAL {
        done = wait_for_few(&mut all, limit, until.mask);
    }
    let errno = real::errno();
    let (interrupted, restarts) = (signals.interrupted(), signals.restarts());
    drop(signals);
    let mut held = lock();
    wake_up(&mut held, kick, all[0].revents != 0, interrupted || all[1].revents != 0);
    match (interrupted, done < 0) {
        (true, _) => return fail(libc::EINTR),
        (_, true) if restarts && until.restarts && errno == libc::EINTR => {
            return fail(libc::ERESTART);
        }
        (_, true) => return fail(errno),
        _ => {}
    }
    for (to, from) in kernel.iter_mut().zip(&all[3..]) {
        to.revents = from.revents;
    }
    if all[2].revents != 0 && held.queue.is_some_and(|queue| queue.check().is_err()) {
        held.lose("its connection has ended");
    }
    held.pump();
    Ok(held)
}

/// Takes the events that are there, or sleeps until one comes.
pub(crate) fn for_any(mut held: Held) -> Answer<()> {
    if held.pump() {
        return Ok(());
    }
    let watch = Watch::List { files: Vec::new(), sets: Vec::new() };
    sleep(held, watch, &mut [], Until { limit: None, mask: std::ptr::null(), restarts: false })
        .map(drop)
}

/// `ppoll` as the kernel has it.
fn wait_for(entries: &mut [pollfd], limit: Option<Duration>, mask: *const sigset_t) -> c_int {
    let limit = limit.map(timespec_of);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: entries that are borrowed, and pointers that are null or valid.
    unsafe { real::ppoll(entries.as_mut_ptr(), entries.len() as nfds_t, limit, mask) }
}

/// The same in a process whose `RLIMIT_NOFILE` permits `ppoll` with one entry only: waits for the first entry a little
/// while, and then looks at each of the others.
fn wait_for_few(entries: &mut [pollfd], limit: Option<Duration>, mask: *const sigset_t) -> c_int {
    let Some((first, others)) = entries.split_first_mut() else { return 0 };
    let short = limit.map_or(GLANCE, |limit| limit.min(GLANCE));
    let done = wait_for(std::slice::from_mut(first), Some(short), mask);
    let look =
        |entry| wait_for(std::slice::from_mut(entry), Some(Duration::ZERO), std::ptr::null());
    if done < 0 { done } else { done + others.iter_mut().map(look).sum::<c_int>() }
}

/// A thread sleeps no more.
pub(crate) fn wake_up(held: &mut Held, kick: c_int, woken: bool, kicked: bool) {
    held.sleepers.retain(|sleeper| sleeper.kick != kick);
    if kicked {
        drain(kick);
    }
    if woken || held.sleepers.is_empty() {
        held.acknowledge();
    }
    held.kicks.push(kick);
}

/// Makes an eventfd unreadable.
pub(crate) fn drain(fd: c_int) {
    let mut count = 0u64;
    // SAFETY: eight writable bytes. There may be nothing to read.
    unsafe { libc::syscall(libc::SYS_read, fd, &raw mut count, 8) };
}

pub(crate) fn timespec_of(duration: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// `poll`, where at least one entry is weever's.
pub(crate) fn poll(
    entries: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<c_int> {
    let start = Moment::now();
    let mut held = lock();
    let mut kernel = kernels(&mut held, entries);
    let sets = sets(entries);
    loop {
        held.pump();
        sets.iter().for_each(|set| held.expose(*set));
        let found = look(&held, entries);
        if found > 0 {
            held.commit();
            drop(held);
            // Descriptors that are ready in the kernel belong into the same answer.
            let none = timespec_of(Duration::ZERO);
            // SAFETY: entries that are borrowed.
            let more = unsafe {
                real::ppoll(kernel.as_mut_ptr(), kernel.len() as nfds_t, &none, std::ptr::null())
            };
            return Ok(if more > 0 { merge(entries, &kernel) } else { found });
        }
        let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
        let ended = left.is_some_and(|left| left.is_zero());
        let watch = Watch::List { files: watched(entries), sets: sets.clone() };
        let until = Until { limit: left, mask, restarts: false };
        held = match sleep(held, watch, &mut kernel, until) {
            Err(Failure::Errno(libc::EINTR)) => return ready_or_interrupted(entries),
            slept => slept?,
        };
        if !sets.is_empty() {
            // The queue's descriptor is in these sets, too: look again, without it.
            sets.iter().for_each(|set| held.expose(*set));
            let none = timespec_of(Duration::ZERO);
            // SAFETY: entries that are borrowed.
            unsafe {
                real::ppoll(kernel.as_mut_ptr(), kernel.len() as nfds_t, &none, std::ptr::null())
            };
        }
        reopen(&mut held, entries);
        if kernel.iter().any(|entry| entry.revents != 0) {
            look(&held, entries);
            return Ok(merge(entries, &kernel));
        }
        if ended {
            return Ok(look(&held, entries));
        }
    }
}

/// After a signal, ready descriptors are reported first, as on Linux.
fn ready_or_interrupted(entries: &mut [pollfd]) -> Answer<c_int> {
    let mut held = lock();
    held.pump();
    match look(&held, entries) {
        0 => fail(libc::EINTR),
        found => Ok(found),
    }
}

/// The entries for the kernel: its own as they are, those of sockets that are weever's alone without a number.
fn kernels(held: &mut Held, entries: &[pollfd]) -> Vec<pollfd> {
    held.use_resting();
    let mut kernel = entries.to_vec();
    for entry in &mut kernel {
        entry.revents = 0;
        let Some(place) = numbers::file(entry.fd) else { continue };
        if let Err(why) = held.use_it(place) {
            log::note(format_args!("descriptor {} waits in vain: {why:?}", entry.fd));
        }
        let also = held.files.get(place).is_some_and(|file| file.kernel);
        entry.events &= POLLIN;
        if !also || entry.events == 0 {
            entry.fd = -1;
        }
    }
    kernel
}

/// After the stack has ended, opens what the list waits for on the next one, if that is there.
fn reopen(held: &mut Held, entries: &[pollfd]) {
    for place in entries.iter().filter_map(|entry| numbers::file(entry.fd)) {
        if held.files.get(place).is_some_and(File::is_unopened) {
            let _none_yet = held.use_it(place);
        }
    }
}

fn watched(entries: &[pollfd]) -> Vec<(u32, u32)> {
    let wanted = |entry: &pollfd| {
        let events = u32::from(entry.events as u16) | crate::file::ERR | crate::file::HUP;
        Some((numbers::file(entry.fd)?, events))
    };
    entries.iter().filter_map(wanted).collect()
}

/// The epoll sets of a list.
fn sets(entries: &[pollfd]) -> Vec<u32> {
    let set = |entry: &pollfd| match numbers::meaning(entry.fd) {
        Some(Meaning::Set(set)) => Some(set),
        _ => None,
    };
    entries.iter().filter_map(set).collect()
}

/// Writes what holds for weever's sockets; returns how many have something.
fn look(held: &Held, entries: &mut [pollfd]) -> c_int {
    let mut found = 0;
    for entry in entries {
        entry.revents = 0;
        let Some(place) = numbers::file(entry.fd) else { continue };
        let Some(file) = held.files.get(place) else { continue };
        let wanted = u32::from(entry.events as u16) | crate::file::ERR | crate::file::HUP;
        entry.revents = (file.readiness() & wanted) as i16;
        found += c_int::from(entry.revents != 0);
    }
    found
}

/// Adds the descriptors that are ready in the kernel.
fn merge(entries: &mut [pollfd], kernel: &[pollfd]) -> c_int {
    for (entry, kernel) in entries.iter_mut().zip(kernel) {
        entry.revents |= kernel.revents;
    }
    entries.iter().filter(|entry| entry.revents != 0).count() as c_int
}

/// Whether a descriptor needs this library's care in a list to wait for.
pub(crate) fn is_watched(fd: c_int) -> bool {
    matches!(numbers::meaning(fd), Some(Meaning::File(_) | Meaning::Set(_)))
}
