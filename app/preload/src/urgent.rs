//! Urgent data of the peer's, as Linux has it (tcp(7)): one octet, which the program reads by `MSG_OOB` or in its place
//! among the others (`SO_OOBINLINE`), and a mark there at which reads end.
//!
//! ```text
//!  octets:   a b c d U e f         a read gives "bcd", `SIOCATMARK` says 1, the next read gives "ef", or "Uef" in line
//!              ▲     ▲
//!         read from  mark: `ahead` is 3
//! ```

use libc::{MSG_OOB, MSG_PEEK, MSG_TRUNC, c_int};

use crate::failure::{Answer, Failure, fail};
use crate::file::{Kind, Phase, Stream};
use crate::parts::Places;
use crate::receive::Got;
use crate::state::Held;

/// The latest urgent octet, until the program has read past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Urgent {
    /// Octets before it that the program has not read; some of them, and itself, may still have to come.
    ahead: usize,
    /// The program has read it by `MSG_OOB`.
    taken: bool,
}

/// Octets that a call may read without a look at the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The urgent octet is in front, and is passed over.
    pub(crate) skips: bool,
    pub(crate) most: usize,
    /// At the mark the call ends.
    pub(crate) ends: bool,
}

impl Stream {
    /// The peer has announced urgent data that ends this many octets behind those that have come. As on Linux, an octet
    /// that was urgent before is one of the others again, unless it is the next to be read: then it is passed over
    /// (`tcp_check_urg`).
    pub(crate) fn note_urgent(&mut self, ahead: i32, in_line: bool) {
        if self.is_at_mark() && !in_line && !self.received.is_empty() {
            self.advance(1);
        }
        let ahead = self.readable() as i64 + i64::from(ahead) - 1;
        if let Ok(ahead) = usize::try_from(ahead) {
            self.urgent = Some(Urgent { ahead, taken: false });
        }
    }

    /// What a call may read next that has read `done` octets and wants `most` more.
    pub(crate) fn stretch(&self, in_line: bool, done: usize, most: usize) -> Stretch {
        let all = Stretch { skips: false, most, ends: false };
        match self.urgent {
            Some(Urgent { ahead: 0, .. }) if done > 0 => Stretch { most: 0, ends: true, ..all },
            Some(Urgent { ahead: 0, .. }) if !in_line && most > 0 => {
                Stretch { skips: !self.received.is_empty(), ..all }
            }
            Some(Urgent { ahead, .. }) if ahead > 0 && ahead <= most => {
                Stretch { most: ahead, ends: self.readable() >= ahead, ..all }
            }
            _ => all,
        }
    }

    /// The program has read octets of the first buffer: the mark comes nearer, or lies behind.
    pub(crate) fn advance(&mut self, octets: usize) {
        if let Some(urgent) = self.urgent {
            let ahead = urgent.ahead.checked_sub(octets);
            self.urgent = ahead.map(|ahead| Urgent { ahead, ..urgent });
        }
        self.offset += octets;
        if self.received.front().is_some_and(|first| self.offset >= first.octets().len()) {
            self.received.pop_front();
            self.offset = 0;
        }
    }

    /// Whether the next octet is the urgent one (`SIOCATMARK`).
    pub(crate) fn is_at_mark(&self) -> bool {
        matches!(self.urgent, Some(Urgent { ahead: 0, .. }))
    }

    /// Octets up to the mark, if it lies among those that have come (`FIONREAD`).
    pub(crate) fn before_mark(&self) -> Option<usize> {
        self.urgent.map(|urgent| urgent.ahead).filter(|ahead| *ahead < self.readable())
    }

    /// Whether there is an urgent octet that was not read (`POLLPRI`).
    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent.is_some_and(|urgent| !urgent.taken) && self.before_mark().is_some()
    }

    /// The urgent octet, if it has come.
    fn urgent_octet(&self) -> Option<u8> {
        let mut at = self.offset + self.before_mark()?;
        for there in &self.received {
            match there.octets().get(at) {
                Some(octet) => return Some(*octet),
                None => at -= there.octets().len(),
            }
        }
        None
    }
}

/// A call with `MSG_OOB`: it never waits.
pub(crate) fn receive(
    held: &mut Held,
    place: u32,
    places: &Places<'_>,
    flags: c_int,
) -> Answer<Option<Got>> {
    held.pump();
    let Some(file) = held.files.get_mut(place) else { return Err(Failure::Kernel) };
    let Kind::Stream(stream) = &mut file.kind else { return fail(libc::ENOTCONN) };
    if file.options.urgent_in_line || stream.urgent.is_none_or(|urgent| urgent.taken) {
        return fail(libc::EINVAL);
    }
    let over = stream.phase == Phase::Over;
    if over && !stream.finished {
        return fail(libc::ENOTCONN);
    }
    let Some(octet) = stream.urgent_octet() else {
        return match over || stream.deaf {
            true => Ok(Some(Got { octets: 0, flags: 0 })),
            false => fail(libc::EAGAIN),
        };
    };
    if flags & MSG_PEEK == 0
        && let Some(urgent) = &mut stream.urgent
    {
        urgent.taken = true;
    }
    if places.len() == 0 {
        return Ok(Some(Got { octets: 0, flags: MSG_OOB | MSG_TRUNC }));
    }
    if flags & MSG_TRUNC == 0 {
        if places.is_nowhere() {
            return fail(libc::EFAULT);
        }
        places.fill(0, &[octet]);
    }
    Ok(Some(Got { octets: 1, flags: MSG_OOB }))
}
