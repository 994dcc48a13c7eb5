//! `epoll_wait`: the events of weever's sockets in a set, and those of the kernel's set beside them.

use std::time::Duration;

use libc::{c_int, epoll_event, sigset_t};

use crate::epoll::{END, KICK};
use crate::failure::{Answer, Failure, fail};
use crate::file::File;
use crate::numbers::{self, Meaning};
use crate::real;
use crate::set::{Interest, OWN, Set};
use crate::state::{Held, Sleeper, State, Watch, lock};
use crate::wait::{Moment, drain};

/// How often a thread whose stack has ended looks for the next one.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

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
    let plain = held.is_plain(index);
    if most <= 0 || plain && events.is_null() {
        return Err(Failure::Kernel);
    }
    if events.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let mut start = None;
    if plain {
        start = timeout.map(|_| Moment::now());
        drop(held);
        if let Some(found) = wait_plainly(epoll, events, timeout, mask)? {
            return Ok(found);
        }
        held = lock();
    }
    held.wake_set(epoll, index)?;
    loop {
        held.pump_for(index);
        held.expose_nested(index);
        if held.sets.get(index).is_some_and(|set| set.kernels_first) {
            let found;
            (held, found) = kernels_first(held, epoll, index, events)?;
            if found > 0 {
                return Ok(found as c_int);
            }
        }
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

/// Waits for a set without weever's sockets; nothing if another thread has added the first one meanwhile.
fn wait_plainly(
    epoll: c_int,
    events: &mut [epoll_event],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<Option<c_int>> {
    let slept = kernels(epoll, events, timeout, mask)?;
    let is_added = slept.kept == 0 && (slept.woken || slept.kicked || slept.ended);
    Ok((!is_added).then_some(slept.kept as c_int))
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
    if alone {
        return Ok(found);
    }
    if found == events.len() {
        if let Some(set) = held.sets.get_mut(index) {
            set.kernels_first = true;
        }
        return Ok(found);
    }
    let more = kernels_ready(held, epoll, index, &mut events[found..], mask)?;
    Ok(found + more)
}

/// The kernel's descriptors that are ready now, without inner sets that are not.
fn kernels_ready(
    held: Held,
    epoll: c_int,
    index: u32,
    events: &mut [epoll_event],
    mask: *const sigset_t,
) -> Answer<usize> {
    let has_nested = held.sets.get(index).is_some_and(|set| !set.nested.is_empty());
    drop(held);
    let Slept { kept, .. } = kernels(epoll, events, Some(Duration::ZERO), mask)?;
    Ok(if has_nested { lock().drop_idle(index, &mut events[..kept]) } else { kept })
}

/// Tells of the kernel's descriptors, and then of weever's sockets, which had all places of the answer before: on Linux
/// those that are ready take turns.
fn kernels_first(
    held: Held,
    epoll: c_int,
    index: u32,
    events: &mut [epoll_event],
) -> Answer<(Held, usize)> {
    let kernels = kernels_ready(held, epoll, index, events, std::ptr::null())?;
    let mut held = lock();
    let found = collect(&mut held, index, &mut events[kernels..]);
    held.tell(found);
    if let Some(set) = held.sets.get_mut(index) {
        set.kernels_first = false;
    }
    Ok((held, kernels + found))
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
        if let Some(set) = held.sets.get_mut(index) {
            set.exposed = false;
        }
    }
    if woken || held.sleepers.is_empty() {
        held.acknowledge();
    }
    if let Err(why) = slept {
        // No other thread was woken for what this one was: it is reported before the signal, as on Linux.
        let is_called = held.sets.get(index).is_some_and(|set| set.called);
        let found = if is_called { collect(&mut held, index, events) } else { 0 };
        return if found > 0 { Ok((held, found)) } else { Err(why) };
    }
    if ended && held.queue.is_some_and(|queue| queue.check().is_err()) {
        held.lose("its connection has ended");
    }
    held.pump_for(index);
    held.expose_nested(index);
    let more = held.drop_idle(index, &mut events[..more]);
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
    set.called = false;
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
