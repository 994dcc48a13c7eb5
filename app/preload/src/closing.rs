//! Descriptors are closed, and with the last one of a socket the socket: a listener's waiting connections go to others,
//! a connection goes to the processes that hold it too, ends, or is reset.

use std::time::Duration;

use weever_app_sockets::{AppQueue, Error, Handle};

use libc::c_int;

use crate::file::{File, Kind, Listening, Phase, Stream};
use crate::state::{State, lock};
use crate::wait::Moment;
use crate::{log, numbers};

/// The time between two looks of a close whether everything is acknowledged.
const LOOK: Duration = Duration::from_millis(1);

/// Called before a connection's last descriptor is closed, with `SO_LINGER`: sends FIN, and waits up to this time until
/// the peer has acknowledged everything.
pub(crate) fn linger(fd: c_int) {
    let since = Moment::now();
    let mut held = lock();
    let Ok((_, File { descriptors: 1, options, kind: Kind::Stream(stream), .. })) = held.of(fd)
    else {
        return;
    };
    let (Some(limit), Some(handle)) = (options.linger, stream.stream) else { return };
    let ends = !std::mem::replace(&mut stream.mute, true);
    let Ok(queue) = held.opened() else { return };
    if ends && queue.finish(handle).is_err() {
        return;
    }
    held.commit();
    while since.elapsed() < limit
        && held.opened().is_ok_and(|queue| queue.unacknowledged(handle).is_ok_and(|n| n > 0))
    {
        drop(held);
        std::thread::sleep(LOOK);
        held = lock();
        held.pump();
    }
}

impl State {
    /// A descriptor is the kernel's again; the socket that it led to is closed if it was the last.
    pub(crate) fn detach(&mut self, fd: c_int) {
        let Some(place) = numbers::file(fd) else { return };
        numbers::set(fd, None);
        let Some(file) = self.files.get_mut(place) else { return };
        file.descriptors -= 1;
        if file.descriptors > 0 {
            return self.outlive_in_sets(fd, place);
        }
        self.leave_sets(place);
        self.close_file(place);
    }

    /// Closes a socket that no descriptor leads to.
    pub(crate) fn close_file(&mut self, place: u32) {
        self.stop_listening(place);
        if self.part_with(place) {
            return;
        }
        let Some(file) = self.files.remove(place) else { return };
        let reset = file.options.reset_on_close;
        let Some(queue) = self.queue else { return };
        match file.kind {
            Kind::Udp(udp) => {
                if let Some(socket) = udp.socket {
                    self.forget(Handle::Udp(socket));
                    let closed = queue.close(socket);
                    closed.unwrap_or_else(|error| log::note(format_args!("close: {error}")));
                }
            }
            Kind::Stream(stream) => close_stream(self, queue, *stream, reset),
            Kind::Listening(_) => {}
        }
        self.commit();
    }

    /// Closes a listener, with the connections that were not accepted. None waits for this process any more.
    pub(crate) fn stop_listening(&mut self, place: u32) {
        self.give_up_held(place);
        let queue = self.queue;
        let Some((listening, queue)) = self.listening(place).zip(queue) else { return };
        let listener = listening.listener.take();
        let pending = std::mem::take(&mut listening.pending);
        if let Some(listener) = listener {
            self.forget(Handle::Listener(listener));
            let _ = queue.close_listener(listener);
        }
        for place in pending {
            self.leave(place, false);
        }
        self.commit();
    }

    /// Lets a listener rest that this process does not use, but its children may: its connections wait for them, also
    /// those that have come already.
    pub(crate) fn rest(&mut self, place: u32) {
        if crate::inside::is_chosen() || self.ensure(place).is_err() {
            return;
        }
        let Some(queue) = self.queue else { return };
        let Some(listening) = self.listening(place) else { return };
        listening.rests = true;
        let rests = listening.listener.map(|listener| queue.serve(listener, false));
        if let Some(Err(error)) = rests {
            log::note(format_args!(
                "connections of an unused listener do not go to others: {error}"
            ));
        }
        // None comes from now on; the process may never look at its queue again.
        self.pump();
        let pending = self.listening(place).map(|listening| std::mem::take(&mut listening.pending));
        pending.into_iter().flatten().for_each(|place| self.leave(place, false));
        self.commit();
    }

    fn listening(&mut self, place: u32) -> Option<&mut Listening> {
        match &mut self.files.get_mut(place)?.kind {
            Kind::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    /// Leaves a connection that may go to another process. Octets that were not read are kept until the stack has taken
    /// them.
    pub(crate) fn leave(&mut self, place: u32, seen: bool) {
        let stream = self.files.get(place).and_then(File::on_queue);
        let Some((stream, queue)) = stream.zip(self.queue) else {
            self.files.remove(place);
            return;
        };
        self.insist("a connection cannot be released", || match seen {
            true => queue.release_stream(stream),
            false => queue.decline(stream),
        });
        if let Some(file) = self.files.get_mut(place) {
            file.left = true;
        }
    }

    /// Leaves a connection to the other processes that hold it; false if there are none.
    fn part_with(&mut self, place: u32) -> bool {
        let Some(Kind::Stream(stream)) = self.files.get_mut(place).map(|file| &mut file.kind)
        else {
            return false;
        };
        let there = stream.stream.is_some() && stream.phase != Phase::Over;
        if let Some(away) = stream.away.take() {
            self.renounce(&away);
            self.files.remove(place);
            return true;
        }
        if !(stream.shared && there) {
            return false;
        }
        stream.settle_read();
        self.leave(place, true);
        self.commit();
        true
    }

    /// Does something that needs room in the ring; if there is none, waits until the stack has
    /// taken entries.
    pub(crate) fn insist(&mut self, what: &str, mut attempt: impl FnMut() -> Result<(), Error>) {
        for _ in 0..1000 {
            match attempt() {
                Err(Error::WouldBlock) => self.wait_for_stack(),
                _ => return,
            }
        }
        log::note(format_args!("{what}: the stack takes no entries"));
    }
}

/// Closes a stream; with unread octets the stack resets it, as Linux does.
fn close_stream(state: &mut State, queue: &'static AppQueue, stream: Stream, reset: bool) {
    let Some(handle) = stream.stream else { return };
    let abort = reset || stream.readable() > 0;
    drop(stream);
    state.forget(Handle::Stream(handle));
    state.insist("a connection cannot be closed", || match abort {
        true => queue.abort(handle),
        false => queue.close_stream(handle),
    });
}
