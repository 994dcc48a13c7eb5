//! The calls that wait, and those that duplicate and close descriptors, as the program finds them.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use crate::behind::kind_of;
use crate::calls::{answer, calls, duration, fits, is_internal, milliseconds};
use crate::numbers::{self, Meaning};
use crate::select::Sets;
use crate::state::lock;
use crate::wait::{Moment, is_watched, poll as poll_ours};
use crate::{closing, collect, deferred, epoll, log, owners, real};

calls! {
    /// Waits for descriptors.
    fn poll(entries: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        match list(entries, count) {
            None => real::poll(entries, count, timeout),
            Some(all) => answer(poll_ours(all, milliseconds(timeout), std::ptr::null()), -1, || -1),
        }
    }

    /// Waits for descriptors, with signals.
    fn ppoll(entries: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        match list(entries, count) {
            None => real::ppoll(entries, count, timeout, mask),
            Some(all) => {
                let done = duration(timeout).and_then(|limit| poll_ours(all, limit, mask));
                answer(done, -1, || -1)
            }
        }
    }

    /// `poll` of a program built with `_FORTIFY_SOURCE`.
    fn __poll_chk(entries: *mut pollfd, count: nfds_t, timeout: c_int, room: usize) -> c_int {
        fits(count as usize * size_of::<pollfd>(), room);
        poll(entries, count, timeout)
    }

    /// `ppoll` of such a program.
    fn __ppoll_chk(entries: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: usize) -> c_int {
        fits(count as usize * size_of::<pollfd>(), room);
        ppoll(entries, count, timeout, mask)
    }

    /// Waits for descriptors of sets.
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
        let sets = Sets::new(read, write, except);
        if !sets.is_watched(count) {
            return real::select(count, read, write, except, timeout);
        }
        if timeout.as_ref().is_some_and(|limit| limit.tv_sec < 0 || limit.tv_usec < 0) {
            real::set_errno(libc::EINVAL);
            return -1;
        }
        let limit = (!timeout.is_null()).then(|| {
            let seconds = Duration::from_secs((*timeout).tv_sec.max(0) as u64);
            seconds + Duration::from_micros((*timeout).tv_usec.max(0) as u64)
        });
        let start = Moment::now();
        let found = answer(sets.wait(count, limit, std::ptr::null()), -1, || -1);
        if let Some(limit) = limit {
            // Linux leaves what is left of the time.
            let left = limit.saturating_sub(start.elapsed());
            (*timeout).tv_sec = left.as_secs() as _;
            (*timeout).tv_usec = left.subsec_micros() as _;
        }
        found
    }

    /// Waits for descriptors of sets, with signals.
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        let sets = Sets::new(read, write, except);
        if !sets.is_watched(count) {
            return real::pselect(count, read, write, except, timeout, mask);
        }
        let done = duration(timeout).and_then(|limit| sets.wait(count, limit, mask));
        answer(done, -1, || -1)
    }

    /// Makes an epoll set.
    fn epoll_create(size: c_int) -> c_int {
        epoll::created(real::epoll_create(size))
    }

    /// The same, with flags for its descriptor.
    fn epoll_create1(flags: c_int) -> c_int {
        epoll::created(real::epoll_create1(flags))
    }

    /// Changes an epoll set.
    fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        let done = epoll::change(set, operation, fd, event);
        answer(done, -1, || real::epoll_ctl(set, operation, fd, event))
    }

    /// Waits for an epoll set.
    fn epoll_wait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        epoll_pwait(set, events, most, timeout, std::ptr::null())
    }

    /// Waits for an epoll set, with signals.
    fn epoll_pwait(set: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        let done = collect::wait(set, events, most, milliseconds(timeout), mask);
        answer(done, -1, || real::epoll_pwait(set, events, most, timeout, mask))
    }

    /// Waits for an epoll set, with signals, by nanoseconds.
    fn epoll_pwait2(set: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        let done = duration(timeout).and_then(|limit| collect::wait(set, events, most, limit, mask));
        answer(done, -1, || real::epoll_pwait2(set, events, most, timeout, mask))
    }

    /// Closes a descriptor.
    fn close(fd: c_int) -> c_int {
        match numbers::meaning(fd) {
            None => {}
            // This library closes a descriptor of its own, with the number of one of the program's that ended unseen.
            Some(_) if deferred::has_lock() => {}
            Some(Meaning::Internal) => {
                real::set_errno(libc::EBADF);
                return -1;
            }
            Some(Meaning::File(_)) => {
                closing::linger(fd);
                lock().detach(fd);
            }
            Some(Meaning::Set(set)) => lock().close_set(fd, set),
        }
        real::close(fd)
    }

    /// Closes a range of descriptors, but for those of this library.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if first > last {
            return real::close_range(first, last, flags);
        }
        let mut from = first;
        let used: Vec<c_int> = numbers::used(first, last).collect();
        for fd in used {
            if flags & CLOEXEC == 0 && !is_internal(fd) {
                close(fd);
            }
            if is_internal(fd) {
                let number = fd as c_uint;
                if number > from && real::close_range(from, number - 1, flags) != 0 {
                    return -1;
                }
                from = number + 1;
            }
        }
        if from > last { 0 } else { real::close_range(from, last, flags) }
    }

    /// Closes all descriptors from one on, but for those of this library.
    fn closefrom(first: c_int) -> () {
        close_range(first.max(0) as c_uint, c_uint::MAX, 0);
    }

    /// Duplicates a descriptor.
    fn dup(fd: c_int) -> c_int {
        same(fd, real::dup(fd))
    }

    /// Duplicates a descriptor to a number.
    fn dup2(fd: c_int, to: c_int) -> c_int {
        if fd != to && is_internal(to) {
            return busy(to);
        }
        instead(fd, to, real::dup2(fd, to))
    }

    /// Duplicates a descriptor to a number, with flags.
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        if fd != to && is_internal(to) {
            return busy(to);
        }
        instead(fd, to, real::dup3(fd, to, flags))
    }

    /// Controls a descriptor.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        let done = real::fcntl(fd, command, argument);
        if done < 0 {
            return done;
        }
        if owners::is_changed_by(command)
            && let Some(place) = numbers::file(fd)
        {
            lock().note_owner(fd, place);
        }
        match command {
            libc::F_SETFL if numbers::file(fd).is_some() => {
                if let Ok((_, file)) = lock().of(fd) {
                    file.nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
                }
                done
            }
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => same(fd, done),
            _ => done,
        }
    }

    /// The same, as programs of today name it.
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        fcntl(fd, command, argument)
    }
}

/// `CLOSE_RANGE_CLOEXEC`.
const CLOEXEC: c_int = 4;

/// A new descriptor leads where another does.
fn same(fd: c_int, new: c_int) -> c_int {
    if new < 0 || new == fd {
        return new;
    }
    match numbers::meaning(fd) {
        Some(Meaning::File(place)) => {
            if let Some(file) = lock().files.get_mut(place)
                && numbers::set(new, Some(Meaning::File(place)))
            {
                file.descriptors += 1;
            }
        }
        Some(Meaning::Set(place)) => {
            if let Some(set) = lock().sets.get_mut(place)
                && numbers::set(new, Some(Meaning::Set(place)))
            {
                set.descriptors += 1;
            }
        }
        None if kind_of(fd).is_some() => lock().note_twin(fd),
        _ => {}
    }
    new
}

/// The number is one of this library's, whose loss would end the program's connections.
fn busy(fd: c_int) -> c_int {
    log::note(format_args!("a descriptor cannot have number {fd}, which the stack needs"));
    real::set_errno(libc::EBUSY);
    -1
}

/// The kernel has made a descriptor lead where another does, and has closed what had its number; or has refused to.
fn instead(fd: c_int, to: c_int, new: c_int) -> c_int {
    if new < 0 || fd == to {
        return new;
    }
    match numbers::meaning(to) {
        Some(Meaning::File(_)) => lock().detach(to),
        Some(Meaning::Set(set)) => lock().close_set(to, set),
        _ => {}
    }
    same(fd, new)
}

/// The entries of a list with one of weever's sockets.
///
/// # Safety
/// `entries` is null or has `count` entries.
unsafe fn list<'e>(entries: *mut pollfd, count: nfds_t) -> Option<&'e mut [pollfd]> {
    if entries.is_null() || count == 0 {
        return None;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { std::slice::from_raw_parts_mut(entries, count as usize) };
    all.iter().any(|entry| is_watched(entry.fd)).then_some(all)
}
