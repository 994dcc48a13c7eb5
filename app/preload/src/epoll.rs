//! `epoll`: the program's set, with weever's sockets in it.

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, c_int, epoll_event};
use weever_app_sockets::AppQueue;

use crate::failure::{Answer, Failure, fail};
use crate::file::{File, Kind};
use crate::numbers::{self, Meaning};
use crate::set::{Interest, OWN, Set};
use crate::state::{Held, State, eventfd, lock, ring};
use crate::{log, real};

/// The `data` of a set's eventfd; the queue's descriptor has [`OWN`].
pub(crate) const KICK: u64 = OWN + 1;
/// The `data` of the connection to the stack, which ends with it.
pub(crate) const END: u64 = OWN + 2;

/// The program has made a set. It is known from the beginning, since some programs wait by one descriptor of it and
/// change it by a duplicate.
pub(crate) fn created(epoll: c_int) -> c_int {
    if epoll >= 0 {
        let mut held = lock();
        if let Some(Meaning::Set(stale)) = numbers::meaning(epoll) {
            held.close_set(epoll, stale);
        }
        held.set_of(epoll, false);
    }
    epoll
}

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
    if file.is_some() && numbers::meaning(epoll).is_none() {
        check_set(epoll, fd)?;
    }
    let interest = match operation {
        EPOLL_CTL_DEL => None,
        // SAFETY: the caller's promise; it may be unaligned, since the structure is packed.
        _ => Some(unsafe { event.read_unaligned() }),
    };
    let new = interest.map(|event| Interest::new(event.events, event.u64, file));
    match file {
        // SAFETY: the caller's promise.
        None => unsafe { change_kernels(&mut held, epoll, (operation, fd), event, new) },
        Some(place) => {
            let set = held.set_of(epoll, true).ok_or(Failure::Kernel)?;
            change_ours(&mut held, epoll, (set, operation, fd), place, new)
        }
    }
}

/// An error if a descriptor is no epoll set. Most are known since they were made; this one may come from the program
/// before.
fn check_set(epoll: c_int, fd: c_int) -> Answer<()> {
    // SAFETY: an event is not read. The socket cannot be in the set, which the kernel then says.
    let done = unsafe { real::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    if done == 0 || real::errno() == libc::ENOENT { Ok(()) } else { fail(real::errno()) }
}

/// Changes one of the kernel's descriptors in the kernel's set, and notes it.
///
/// # Safety
/// As [`change`].
unsafe fn change_kernels(
    held: &mut Held,
    epoll: c_int,
    (operation, fd): (c_int, c_int),
    event: *mut epoll_event,
    new: Option<Interest>,
) -> Answer<c_int> {
    // SAFETY: the caller's promise.
    if unsafe { real::epoll_ctl(epoll, operation, fd, event) } != 0 {
        return fail(real::errno());
    }
    let Some(set) = held.set_of(epoll, false) else { return Ok(0) };
    let is_in = new.is_some();
    if let Some(set) = held.sets.get_mut(set) {
        match new {
            Some(interest) => set.put(fd, interest),
            None => drop(set.remove(fd)),
        }
    }
    held.nest(set, fd, is_in);
    Ok(0)
}

fn change_ours(
    held: &mut Held,
    epoll: c_int,
    (set, operation, fd): (u32, c_int, c_int),
    place: u32,
    new: Option<Interest>,
) -> Answer<c_int> {
    if let Some(set) = held.sets.get_mut(set) {
        set.forget_others(fd, place);
    }
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
        // A thread may wait for the kernel's descriptors alone.
        if let Some(kick) = set.kick.filter(|_| set.files == 0) {
            ring(kick);
            set.exposed = true;
        }
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
    /// Whether a set has nothing but the kernel's descriptors.
    pub(crate) fn is_plain(&self, index: u32) -> bool {
        self.sets.get(index).is_none_or(|set| set.files == 0 && set.nested.is_empty())
    }

    /// The set of an epoll descriptor, made when it is first changed.
    fn set_of(&mut self, epoll: c_int, needed: bool) -> Option<u32> {
        match numbers::meaning(epoll) {
            Some(Meaning::Set(set)) => Some(set),
            Some(_) => None,
            None => {
                let set = self.sets.insert(Set::new());
                if numbers::set(epoll, Some(Meaning::Set(set))) {
                    self.nest_new(epoll);
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
    pub(crate) fn wake_set(&mut self, epoll: c_int, place: u32) -> Answer<()> {
        self.use_resting();
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

    /// After the stack has ended, or a queue could not be opened, opens what a set waits for; true if there is no queue
    /// yet.
    pub(crate) fn revive(&mut self, epoll: c_int, index: u32) -> bool {
        if !self.looks_for_stack() {
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

    /// A descriptor is closed while others lead to its socket: sets go on waiting for the socket, as on Linux (epoll(7),
    /// Q6).
    pub(crate) fn outlive_in_sets(&mut self, fd: c_int, place: u32) {
        let State { files, sets, .. } = self;
        let Some(file) = files.get_mut(place) else { return };
        file.watchers.retain_mut(|(set, number)| {
            if *number == fd {
                let outlived = sets.get_mut(*set).and_then(|set| set.outlive(fd));
                let Some(outlived) = outlived else { return false };
                *number = outlived;
            }
            true
        });
    }

    /// The last descriptor of a socket is closed.
    pub(crate) fn leave_sets(&mut self, place: u32) {
        let Some(file) = self.files.get_mut(place) else { return };
        for (set, number) in std::mem::take(&mut file.watchers) {
            if let Some(set) = self.sets.get_mut(set) {
                set.remove(number);
            }
        }
    }

    /// An epoll descriptor is closed, and with the last one the set.
    pub(crate) fn close_set(&mut self, epoll: c_int, index: u32) {
        numbers::set(epoll, None);
        if let Some(set) = self.sets.get_mut(index)
            && set.descriptors > 1
        {
            set.descriptors -= 1;
            return;
        }
        let Some(set) = self.sets.remove(index) else { return };
        self.unnest(index);
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
