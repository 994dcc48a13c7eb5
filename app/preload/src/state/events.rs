//! Events of the queue are taken for all threads of the program, and noted at their sockets.

use libc::c_int;
use weever_app_sockets::{AppQueue, Error, Event, Handle, RxBuf};

use super::{Sleeper, State, Watch};
use crate::errors::is_fatal;
use crate::failure::Answer;
use crate::file::{File, Kind, Listening, Phase, Stream, Udp};
use crate::open;
use crate::owners::Reason;
use crate::passing::{Away, By};

impl State {
    /// Takes all that has arrived; true if it was anything.
    pub(crate) fn pump(&mut self) -> bool {
        self.take_all(AppQueue::next)
    }

    #[inline]
    fn take_all(
        &mut self,
        next: impl Fn(&'static AppQueue) -> Result<Option<Event<'static>>, Error>,
    ) -> bool {
        let Some(queue) = self.queue else { return false };
        let mut any = false;
        loop {
            match next(queue) {
                Ok(Some(event)) => {
                    any = true;
                    self.take(queue, event);
                }
                Ok(None) => return any,
                Err(error) => {
                    self.lose(&error.to_string());
                    return any;
                }
            }
        }
    }

    /// Takes one datagram off the ring, if the next entry is for this socket and nothing waits in the socket. Later entries stay,
    /// and their frames are fetched while the program works on this one. Returns nothing where everything has to be
    /// [taken](Self::pump): workers take turns, a signal's receiver hears of each datagram, and those that are told at once have
    /// to be there. With a kernel's socket beside it, the ring is looked at anew only once that socket `had_its_turn`.
    #[inline]
    pub(crate) fn take_datagram(
        &mut self,
        place: u32,
        had_its_turn: bool,
    ) -> Option<RxBuf<'static>> {
        let (queue, file) = (self.queue?, self.files.get(place)?);
        let Kind::Udp(Udp { socket: Some(socket), received, .. }) = &file.kind else { return None };
        let waits_for_turn = file.kernel && !had_its_turn && !queue.knows_of_more();
        if waits_for_turn
            || file.error != 0
            || file.owner.is_some()
            || file.options.receive_segments
            || !received.is_empty()
            || queue.channels() > 1
        {
            return None;
        }
        match queue.next_of(*socket) {
            Ok(taken) => taken,
            Err(error) => {
                self.lose(&error.to_string());
                None
            }
        }
    }

    /// As [`pump`](Self::pump), but a stack inside does not turn for it.
    pub(crate) fn take_arrived(&mut self) -> bool {
        self.take_all(AppQueue::next_arrived)
    }

    /// A call asks for the state of a socket: takes all that has arrived. A stack inside turns for it while the connection is
    /// being opened, and not for each of the many that a server asks about.
    pub(crate) fn look_at(&mut self, fd: c_int) -> Answer<()> {
        let (_, file) = self.of(fd)?;
        let opens = matches!(&file.kind, Kind::Stream(s) if s.phase == Phase::Connecting);
        if opens {
            self.pump()
        } else {
            self.take_arrived()
        };
        Ok(())
    }

    /// Takes all that has arrived if an error is among it, which goes before datagrams.
    #[inline]
    pub(crate) fn hear_errors(&mut self) {
        // A failure is found again by taking everything.
        if self.queue.is_some_and(|queue| !matches!(queue.holds_error(), Ok(false))) {
            self.take_arrived();
        }
    }

    /// As [`pump`](Self::pump), in a thread that goes on to collect the events of an epoll set.
    pub(crate) fn pump_for(&mut self, set: u32) {
        self.looks = Some(set);
        self.pump();
        self.looks = None;
    }

    fn take(&mut self, queue: &'static AppQueue, event: Event<'static>) {
        let handle = event.socket();
        let Some(place) = self.places.get_or_insert_default().get(&handle).copied() else {
            // The program has closed the socket.
            if let Event::Accepted(_, stream) = event {
                let _ = queue.decline(stream);
            }
            return;
        };
        let for_one = matches!(event, Event::Datagram(_) | Event::Octets(_) | Event::Accepted(..));
        if let Event::Accepted(_, stream) = event {
            self.accepted(queue, place, stream);
        } else if let Some(file) = self.files.get_mut(place) {
            let file_is_left = file.left;
            let reason = file.owner.is_some().then(|| Reason::of(&event)).flatten();
            let over = matches!(event, Event::StreamClosed(_) | Event::Released(_));
            note(queue, file, event);
            if let (Some(owner), Some(reason)) = (&file.owner, reason) {
                owner.tell(reason);
            }
            if over {
                self.forget(handle);
                if file_is_left {
                    self.files.remove(place);
                }
            }
        }
        if for_one { self.touch_for_one(place) } else { self.touch(place) }
    }

    fn accepted(
        &mut self,
        queue: &'static AppQueue,
        place: u32,
        stream: weever_app_sockets::TcpStream,
    ) {
        let ends = queue.stream_ends(stream);
        let (Some(file), Ok((local, remote))) = (self.files.get_mut(place), ends) else { return };
        let family = file.family;
        let Kind::Listening(listening) = &mut file.kind else { return };
        if listening.pending.len() > listening.backlog as usize {
            let _ = queue.abort(stream);
            return;
        }
        let kind = Kind::Stream(Box::new(Stream::new(stream, Phase::Connected, remote)));
        let new = self.add(File { local, ..open::file(family, kind) });
        self.name(Handle::Stream(stream), new);
        if let Some(Kind::Listening(Listening { pending, .. })) =
            self.files.get_mut(place).map(|file| &mut file.kind)
        {
            pending.push_back(new);
        }
        if let Some(owner) = self.files.get(place).and_then(|file| file.owner.as_ref()) {
            owner.tell(Reason::Readable);
        }
    }

    /// A socket's events have changed: those that wait for it look again.
    pub(crate) fn touch(&mut self, place: u32) {
        self.changed = true;
        let Some(file) = self.files.get(place) else { return };
        for (set, fd) in &file.watchers {
            if let Some(set) = self.sets.get_mut(*set) {
                set.look_at(*fd);
            }
        }
    }
}

impl State {
    /// Something has come to a socket that one thread will read. Of the sets that have it with `EPOLLEXCLUSIVE` and in
    /// which threads sleep, one is to wake for it: that of this thread, which looks anyway, else the first that is not
    /// about to wake for something else. As on Linux, the others do not look for it before they are changed or something
    /// else comes; sets in which nobody sleeps have it as well.
    fn touch_for_one(&mut self, place: u32) {
        self.changed = true;
        let State { files, sets, sleepers, looks, .. } = self;
        let Some(file) = files.get(place).filter(|file| !file.watchers.is_empty()) else { return };
        let readiness = || file.readiness();
        let looking = looks.take_if(|looking| {
            let mut own = file.watchers.iter().filter(|(set, _)| set == looking);
            own.any(|(_, fd)| {
                sets.get(*looking).is_some_and(|set| set.holds_exclusively(*fd, readiness))
            })
        });
        let mut is_given = looking.is_some();
        for (index, fd) in &file.watchers {
            let Some(set) = sets.get_mut(*index) else { continue };
            let sleeps =
                |sleeper: &Sleeper| matches!(sleeper.watch, Watch::Set(set) if set == *index);
            if set.holds_exclusively(*fd, readiness)
                && looking != Some(*index)
                && !set.called
                && sleepers.iter().any(sleeps)
            {
                if is_given {
                    continue;
                }
                (set.called, is_given) = (true, true);
            }
            set.look_at(*fd);
        }
    }
}

/// The effect of an event on its socket.
fn note(queue: &'static AppQueue, file: &mut File, event: Event<'static>) {
    match (&mut file.kind, event) {
        (Kind::Udp(udp), Event::Datagram(datagram)) => udp.received.push(datagram),
        // Connected sockets get errors, and those that have asked for them (udp(7)).
        (Kind::Udp(udp), Event::Error(_, errno, cause)) => {
            let asked = file.options.receive_errors;
            if asked || udp.peer.is_some() && is_fatal(cause.as_deref()) {
                file.error = errno.into();
            }
            if asked {
                udp.errors.push(errno.into(), cause);
            }
        }
        (Kind::Stream(stream), Event::Connected(handle)) => {
            stream.phase = Phase::Connected;
            if let Ok((local, _)) = queue.stream_ends(handle) {
                file.local = local;
            }
        }
        (Kind::Stream(stream), Event::Octets(octets)) => {
            stream.received.push_back(octets);
        }
        (Kind::Stream(stream), Event::Urgent(_, ahead)) => {
            stream.note_urgent(ahead, file.options.urgent_in_line);
        }
        (Kind::Stream(stream), Event::Info(_, info)) => stream.info = Some(info),
        (Kind::Stream(stream), Event::Writable(_)) => stream.blocked = false,
        (Kind::Stream(stream), Event::Finished(_)) => stream.finished = true,
        (Kind::Stream(stream), Event::StreamFailed(_, errno)) => {
            (stream.phase, file.error) = (Phase::Over, errno.into());
        }
        (Kind::Stream(stream), Event::Released(handle)) => {
            stream.go_away(Away { by: By::Queue, number: queue.stream_number(handle) });
        }
        (Kind::Stream(stream), Event::StreamClosed(_)) => {
            (stream.phase, stream.stream) = (Phase::Over, None);
        }
        _ => {}
    }
}
