//! `epoll`: the program's set, with weever's sockets in it.

use std::time::Duration;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, c_int, epoll_event, sigset_t};
use weever_app_sockets::AppQueue;

use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind};
use crate::numbers::{self, Meaning};
use crate::set::{Interest, OWN, Set};
use crate::state::{Held, Sleeper, State, Watch, eventfd, lock};
use crate::wait::{Moment, drain};
use crate::{log, real};

/// The `data` of a set's eventfd; the queue's descriptor has [`OWN`].
const KICK: u64 = OWN + 1;
/// The `data` of the connection to the stack, which ends with it.
const END: u64 = OWN + 2;
/// How often a set whose stack has ended looks for the next one.
const LOOK: Duration = Duration::from_millis(200);

/// `epoll_ctl`.
///
/// # Safety
/// As `epoll_ctl` of the C library.
pub(crate) unsafe fn change(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Answer<c_int> {
    let file = match numbers::meaning(fd) {
        Some(Meaning::Internal) => return fail(libc::EBADF),
        Some(Meaning::File(place)) => Some(place),
        _ => None,
    };
    if operation != EPOLL_CTL_DEL && event.is_null() {
        return fail(libc::EFAULT);
    }
    let mut held = lock();
    let Some(set) = held.set_of(epoll, file.is_some()) else { return Err(Failure::Kernel) };
    let interest = match operation {
        EPOLL_CTL_DEL => None,
        // SAFETY: the caller's promise; it may be unaligned, since the structure is packed.
        _ => Some(unsafe { event.read_unaligned() }),
    };
    let new = interest.map(|event| Interest::new(event.events, event.u64, file));
    match file {
        // SAFETY: the caller's promise.
        None => unsafe { change_kernels(&mut held, epoll, (set, operation, fd), event, new) },
        Some(place) => change_ours(&mut held, epoll, (set, operation, fd), place, new),
    }
}

/// Changes one of the kernel's descriptors in the kernel's set, and notes it.
///
/// # Safety
/// As [`change`].
unsafe fn change_kernels(
    held: &mut Held,
    epoll: c_int,
    (set, operation, fd): (u32, c_int, c_int),
    event: *mut epoll_event,
    new: Option<Interest>,
) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    if unsafe { real::epoll_ctl(epoll, operation, fd, event) } != 0 {
        return fail(real::errno());
    }
    if let Some(set) = held.sets.get_mut(set) {
        match new {
            Some(interest) => set.put(fd, interest),
            None => drop(set.remove(fd)),
        }
    }
    Ok(0)
}

fn change_ours(
    held: &mut Held,
    epoll: c_int,
    (set, operation, fd): (u32, c_int, c_int),
    place: u32,
    new: Option<Interest>,
) -> Answer<c_int> {
    let there = held.sets.get(set).is_some_and(|set| set.interest.contains_key(&fd));
    match (operation, there) {
        (EPOLL_CTL_ADD, true) => return fail(libc::EEXIST),
        (EPOLL_CTL_MOD | EPOLL_CTL_DEL, false) => return fail(libc::ENOENT),
        (EPOLL_CTL_ADD | EPOLL_CTL_MOD, _) if held.misuses_exclusive(set, fd, operation, new) => {
            return fail(libc::EINVAL);
        }
        (EPOLL_CTL_ADD | EPOLL_CTL_MOD | EPOLL_CTL_DEL, _) => {}
        _ => return fail(libc::EINVAL),
    }
    if operation == EPOLL_CTL_ADD
        && let Err(why) = held.use_it(place)
    {
        log::note(format_args!("descriptor {fd} waits in vain: {why:?}"));
    }
    held.wake_set(epoll, set)?;
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    match operation {
        EPOLL_CTL_ADD => file.watchers.push((set, fd)),
        EPOLL_CTL_DEL => file.watchers.retain(|watcher| *watcher != (set, fd)),
        _ => {}
    }
    if file.kernel {
        let mut event =
            new.map(|new| beside(file, new)).unwrap_or(epoll_event { events: 0, u64: 0 });
        // SAFETY: an event that is borrowed. Without the kernel's part, weever's works all the same.
        unsafe { real::epoll_ctl(epoll, operation, fd, &mut event) };
    }
    if let Some(set) = held.sets.get_mut(set) {
        match new {
            Some(interest) => set.put(fd, interest),
            None => drop(set.remove(fd)),
        }
    }
    Ok(0)
}

/// The events asked of the kernel's socket beside one of weever's: room to send is weever's business.
fn beside(file: &File, interest: Interest) -> epoll_event {
    let without = match file.kind {
        Kind::Udp(_) => crate::file::OUT,
        _ => 0,
    };
    epoll_event { events: interest.events & !without, u64: interest.data }
}

impl State {
    /// The set of an epoll descriptor, made when it is first changed.
    fn set_of(&mut self, epoll: c_int, needed: bool) -> Option<u32> {
        match numbers::meaning(epoll) {
            Some(Meaning::Set(set)) => Some(set),
            Some(_) => None,
            None => {
                let set = self.sets.insert(Set::default());
                if numbers::set(epoll, Some(Meaning::Set(set))) {
                    return Some(set);
                }
                self.sets.remove(set);
                if needed {
                    log::note(format_args!("the number of epoll descriptor {epoll} is too high"));
                }
                None
            }
        }
    }

    /// Whether `EPOLLEXCLUSIVE` is misused (epoll_ctl(2)): with flags that exclude it, or in a
    /// modification.
    fn misuses_exclusive(
        &self,
        set: u32,
        fd: c_int,
        operation: c_int,
        new: Option<Interest>,
    ) -> bool {
        let allowed = crate::file::IN | crate::file::OUT | crate::file::ERR | crate::file::HUP;
        let allowed = allowed | (libc::EPOLLET | libc::EPOLLWAKEUP | libc::EPOLLEXCLUSIVE) as u32;
        let exclusive = |interest: &Interest| interest.events & libc::EPOLLEXCLUSIVE as u32 != 0;
        let was = self.sets.get(set).and_then(|set| set.interest.get(&fd)).is_some_and(exclusive);
        let is = new.as_ref().is_some_and(exclusive);
        was || is
            && (operation == EPOLL_CTL_MOD || new.is_some_and(|new| new.events & !allowed != 0))
    }

    /// Has the kernel's set report what wakes this process.
    fn wake_set(&mut self, epoll: c_int, place: u32) -> Answer<()> {
        let wake = self.wake();
        let end = self.queue.and_then(AppQueue::end_number);
        let Some(set) = self.sets.get_mut(place) else { return Ok(()) };
        // SAFETY: events that are borrowed.
        let add = |fd, events, data| unsafe {
            let mut event = epoll_event { events, u64: data };
            real::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &mut event)
        };
        if let Some(wake) = wake.filter(|_| !set.wake) {
            // One of the threads that wait wakes the others as far as they have something.
            set.wake = add(wake, EPOLLIN as u32 | libc::EPOLLEXCLUSIVE as u32, OWN) == 0;
            if let Some(end) = end {
                add(end, libc::EPOLLRDHUP as u32, END);
            }
        }
        if set.kick.is_none() {
            let kick = eventfd()?;
            add(kick, EPOLLIN as u32, KICK);
            set.kick = Some(kick);
        }
        Ok(())
    }

    /// After the stack has ended, opens on the next one what a set waits for; true if there is none yet.
    fn revive(&mut self, epoll: c_int, index: u32) -> bool {
        if !self.lost || self.inside {
            return false;
        }
        let Some(set) = self.sets.get(index) else { return false };
        let places: Vec<u32> = set.interest.values().filter_map(|interest| interest.file).collect();
        let is_open = |file: &File| !matches!(file.kind, Kind::Stream(_));
        for place in places {
            if self.files.get(place).is_some_and(is_open) && self.use_it(place).is_err() {
                return self.queue.is_none();
            }
        }
        if let Err(why) = self.wake_set(epoll, index) {
            log::note(format_args!("an epoll set is not woken: {why:?}"));
        }
        false
    }

    /// A descriptor that sets have as the kernel's is weever's from now on.
    pub(crate) fn adopt_interest(&mut self, fd: c_int, place: u32) {
        let waiting: Vec<u32> = self
            .sets
            .iter_mut()
            .filter(|(_, s)| s.interest.contains_key(&fd))
            .map(|s| s.0)
            .collect();
        for index in waiting {
            let Some(epoll) = numbers::used(0, u32::MAX)
                .find(|number| numbers::meaning(*number) == Some(Meaning::Set(index)))
            else {
                continue;
            };
            let Some(set) = self.sets.get_mut(index) else { continue };
            let Some(mut interest) = set.remove(fd) else { continue };
            let Some(file) = self.files.get_mut(place) else { continue };
            let mut event = beside(file, interest);
            let operation = if file.kernel { EPOLL_CTL_MOD } else { EPOLL_CTL_DEL };
            // SAFETY: an event that is borrowed.
            if unsafe { real::epoll_ctl(epoll, operation, fd, &mut event) } != 0 {
                // An earlier descriptor of this number, which was closed since.
                continue;
            }
            file.watchers.push((index, fd));
            interest.file = Some(place);
            set.put(fd, interest);
            if let Err(why) = self.wake_set(epoll, index) {
                log::note(format_args!("an epoll set is not woken: {why:?}"));
            }
        }
    }

    /// A descriptor is closed, or the kernel's again.
    pub(crate) fn leave_sets(&mut self, fd: c_int, place: u32) {
        let Some(file) = self.files.get_mut(place) else { return };
        let sets: Vec<u32> =
            file.watchers.iter().filter(|(_, number)| *number == fd).map(|(set, _)| *set).collect();
        file.watchers.retain(|(_, number)| *number != fd);
        for set in sets {
            if let Some(set) = self.sets.get_mut(set) {
                set.remove(fd);
            }
        }
    }

    /// An epoll descriptor is closed.
    pub(crate) fn close_set(&mut self, epoll: c_int, index: u32) {
        numbers::set(epoll, None);
        let Some(set) = self.sets.remove(index) else { return };
        for file in set.interest.values().filter_map(|interest| interest.file) {
            if let Some(file) = self.files.get_mut(file) {
                file.watchers.retain(|(set, _)| *set != index);
            }
        }
        if let Some(kick) = set.kick {
            numbers::set(kick, None);
            // SAFETY: an eventfd of this library's own.
            unsafe { real::close(kick) };
        }
    }
}

/// `epoll_wait` and its like, for a set with weever's sockets.
///
/// # Safety
/// `events` has room for `most` events; `mask` is null or a set of signals.
pub(crate) unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<c_int> {
    let Some(Meaning::Set(index)) = numbers::meaning(epoll) else { return Err(Failure::Kernel) };
    let mut held = lock();
    if most <= 0 || held.sets.get(index).is_none_or(|set| set.files == 0) {
        return Err(Failure::Kernel);
    }
    held.wake_set(epoll, index)?;
    // SAFETY: the caller's promise.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let mut start = None;
    loop {
        held.pump();
        let found = collect(&mut held, index, events);
        if found > 0 {
            // A signal would take these events away: it comes with the next wait.
            return ready(held, epoll, (index, found), events, std::ptr::null())
                .map(|all| all as c_int);
        }
        let left = timeout
            .map(|limit| limit.saturating_sub(start.get_or_insert_with(Moment::now).elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return ready(held, epoll, (index, 0), events, mask).map(|all| all as c_int);
        }
        if held.linger() {
            continue;
        }
        held.commit();
        if !held.arm() {
            continue;
        }
        let left =
            if held.revive(epoll, index) { Some(left.unwrap_or(LOOK).min(LOOK)) } else { left };
        let found;
        (held, found) = sleep(held, epoll, index, events, left, mask)?;
        if found > 0 {
            held.tell(found);
            return Ok(found as c_int);
        }
    }
}

/// Tells of sockets that are ready, `found` of them weever's; those of the kernel's belong into the same answer.
fn ready(
    mut held: Held,
    epoll: c_int,
    (index, found): (u32, usize),
    events: &mut [epoll_event],
    mask: *const sigset_t,
) -> Answer<usize> {
    held.tell(found);
    let alone = held.sets.get(index).is_some_and(|set| is_alone(&held, set));
    drop(held);
    if alone {
        return Ok(found);
    }
    let Slept { kept: more, .. } =
        kernels(epoll, &mut events[found..], Some(Duration::ZERO), mask)?;
    Ok(found + more)
}

/// Sleeps in the kernel's set, which the stack's descriptor is in; returns how many sockets are ready then.
fn sleep(
    mut held: Held,
    epoll: c_int,
    index: u32,
    events: &mut [epoll_event],
    left: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<(Held, usize)> {
    let Some(kick) = held.sets.get(index).and_then(|set| set.kick) else {
        return Err(Failure::Kernel);
    };
    held.sleepers.push(Sleeper { kick, watch: Watch::Set(index) });
    drop(held);
    let slept = kernels(epoll, events, left, mask);
    let mut held = lock();
    if let Some(at) = held.sleepers.iter().position(|sleeper| sleeper.kick == kick) {
        held.sleepers.swap_remove(at);
    }
    let Slept { kept: more, woken, kicked, ended } = slept.unwrap_or_default();
    if kicked {
        drain(kick);
    }
    if woken || held.sleepers.is_empty() {
        held.acknowledge();
    }
    slept?;
    if ended && held.queue.is_some_and(|queue| queue.check().is_err()) {
        held.lose("its connection has ended");
    }
    held.pump();
    let found = more + collect(&mut held, index, &mut events[more..]);
    Ok((held, found))
}

/// Whether a set has nothing but sockets that are weever's alone.
fn is_alone(state: &State, set: &Set) -> bool {
    let alone = |interest: &Interest| {
        let file = interest.file.and_then(|place| state.files.get(place));
        file.is_some_and(|file| !file.kernel)
    };
    set.interest.len() == set.files && set.interest.len() < 8 && set.interest.values().all(alone)
}

/// Takes weever's sockets that are ready; returns how many.
fn collect(held: &mut Held, index: u32, events: &mut [epoll_event]) -> usize {
    let State { sets, files, .. } = &mut **held;
    let Some(set) = sets.get_mut(index) else { return 0 };
    let mut found = 0;
    for _ in 0..set.candidates() {
        let Some(event) = events.get_mut(found) else { break };
        let ready = set.next(|place| files.get(place).map_or(0, File::readiness));
        if let Some((mask, data)) = ready {
            *event = epoll_event { events: mask, u64: data };
            found += 1;
        }
    }
    found
}

/// What a wait for the kernel's descriptors found.
#[derive(Clone, Copy, Default)]
struct Slept {
    /// How many of the program's are ready.
    kept: usize,
    /// The stack has something.
    woken: bool,
    /// Another thread has.
    kicked: bool,
    /// The stack has ended.
    ended: bool,
}

/// Waits for the kernel's descriptors.
fn kernels(
    epoll: c_int,
    events: &mut [epoll_event],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<Slept> {
    if events.is_empty() {
        return Ok(Slept::default());
    }
    let most = c_int::try_from(events.len()).unwrap_or(c_int::MAX);
    // Rounded up: a wait that ends too early would turn in circles.
    let limit = timeout.map_or(-1, |limit| {
        c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
    });
    // SAFETY: room for that many events; the mask is null or a set of signals.
    let got = unsafe { real::epoll_pwait(epoll, events.as_mut_ptr(), most, limit, mask) };
    if got < 0 {
        return fail(real::errno());
    }
    let mut slept = Slept::default();
    for at in 0..got as usize {
        match events[at].u64 {
            OWN => slept.woken = true,
            KICK => slept.kicked = true,
            END => slept.ended = true,
            _ => {
                events[slept.kept] = events[at];
                slept.kept += 1;
            }
        }
    }
    Ok(slept)
}
