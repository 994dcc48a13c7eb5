//! A connection on which packets go to the client.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use weever_service_api::{CaptureEnd, CaptureEvent, CaptureRequest, Reply, Response};

use super::Capturing;

/// Packets of each worker and place that are sent at once.
const BATCH: usize = 256;
/// In milliseconds: how long is waited for the next packets.
const PAUSE: u16 = 5;

/// Sends what is captured until the client leaves, asks for something else, or has what it wanted.
///
/// # Errors
/// When the client cannot be written to: it does not read, or is gone.
pub(super) fn serve(
    writer: &mut UnixStream,
    socket: &UnixStream,
    id: u64,
    wanted: &CaptureRequest,
    mut capturing: Box<dyn Capturing>,
) -> io::Result<()> {
    let mut session = Session { writer, id, end: CaptureEnd::default(), text: String::new() };
    session.say(CaptureEvent::Started(capturing.started()));
    session.flush()?;
    let mut client = Listener { socket, is_silent: false };
    let most = wanted.count.unwrap_or(u64::MAX);
    loop {
        let removed = capturing.is_removed();
        let packets = capturing.collect(BATCH);
        let nothing = packets.is_empty();
        for packet in packets {
            if session.end.captured < most {
                session.end.captured += 1;
                session.say(CaptureEvent::Packet(packet));
            }
        }
        let missed = capturing.missed();
        if missed != session.end.missed {
            session.end.missed = missed;
            session.say(CaptureEvent::Missed(missed));
        }
        let reason = match client.wait(if nothing { PAUSE } else { 0 })? {
            _ if session.end.captured >= most => "count",
            true => "request",
            false if removed && nothing => "removed",
            false => {
                session.flush()?;
                continue;
            }
        };
        // The graph is as it was before when the client hears of the end.
        drop(capturing);
        let end = CaptureEnd { reason: reason.into(), ..session.end.clone() };
        session.say(CaptureEvent::Ended(end));
        return session.flush();
    }
}

struct Session<'a> {
    writer: &'a mut UnixStream,
    id: u64,
    end: CaptureEnd,
    text: String,
}

impl Session<'_> {
    fn say(&mut self, event: CaptureEvent) {
        let response = Response::new(Some(self.id), Ok(Reply::Capture(event)));
        self.text.push_str(&response.encode());
        self.text.push('\n');
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.writer.write_all(self.text.as_bytes());
        self.text.clear();
        result
    }
}

/// What the client does meanwhile.
struct Listener<'a> {
    socket: &'a UnixStream,
    /// It will not say anything any more, but may still read.
    is_silent: bool,
}

impl Listener<'_> {
    /// Waits so many milliseconds at most; true if the client has left, or says something.
    fn wait(&mut self, milliseconds: u16) -> io::Result<bool> {
        let interest = if self.is_silent { PollFlags::empty() } else { PollFlags::POLLIN };
        let mut fds = [PollFd::new(self.socket.as_fd(), interest)];
        poll(&mut fds, PollTimeout::from(milliseconds))?;
        let found = fds[0].revents().unwrap_or(PollFlags::empty());
        if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Ok(true);
        }
        if found.contains(PollFlags::POLLIN) {
            let mut byte = [std::mem::MaybeUninit::uninit()];
            self.is_silent = SockRef::from(self.socket).peek(&mut byte)? == 0;
            return Ok(!self.is_silent);
        }
        Ok(false)
    }
}
