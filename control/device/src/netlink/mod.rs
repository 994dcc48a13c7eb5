//! What the kernel says of devices by netlink: that something changed ([`events`]), frames counted by queue
//! ([`counters`]), and queues' interrupts ([`interrupts`]); and how features are switched ([`features`]). `ethtool`'s rules
//! have no netlink form, so the rest of the crate asks by `ioctl`.

pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod features;
pub(crate) mod interrupts;
mod wire;

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

use wire::{Messages, attribute, find, generic, number};

/// The family that knows the numbers of all other families (`GENL_ID_CTRL`).
const CONTROLLER: u16 = 0x10;
/// `CTRL_CMD_GETFAMILY`.
const GET_FAMILY: u8 = 3;
/// `CTRL_ATTR_FAMILY_ID`, `_FAMILY_NAME`, `_MCAST_GROUPS`.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_GROUPS: u16 = 7;
/// `CTRL_ATTR_MCAST_GRP_NAME`, `_ID`.
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

/// `NLM_F_REQUEST`, `NLM_F_DUMP`.
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A generic family of this kernel.
#[derive(Debug)]
struct Family {
    id: u16,
    /// The answer about it.
    attributes: Vec<u8>,
}

impl Family {
    /// The number of one of its groups of listeners.
    fn group(&self, name: &str) -> Option<u32> {
        let groups = wire::Attributes(find(&self.attributes, FAMILY_GROUPS)?);
        let is_it = |group: &&[u8]| find(group, GROUP_NAME).is_some_and(|n| text(n) == name);
        let group = groups.map(|(_, group)| group).find(|group| is_it(group))?;
        u32::try_from(number(find(group, GROUP_ID)?)?).ok()
    }
}

/// Questions to generic families, in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Questions {
    socket: Socket,
    sequence: u32,
}

impl Questions {
    pub(crate) fn open() -> io::Result<Questions> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Questions { socket, sequence: 0 })
    }

    fn family(&mut self, name: &str) -> io::Result<Family> {
        let named = attribute(FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
        let mut families = Vec::new();
        self.ask(CONTROLLER, GET_FAMILY, REQUEST, &named, &mut |answer| {
            families.push(answer.to_vec());
        })?;
        let unknown = || io::Error::from(io::ErrorKind::Unsupported);
        let attributes = families.pop().ok_or_else(unknown)?;
        let id = find(&attributes, FAMILY_ID).and_then(number);
        let id = id.and_then(|id| u16::try_from(id).ok()).ok_or_else(unknown)?;
        Ok(Family { id, attributes })
    }

    /// Calls `take` with the attributes of each answer.
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        flags: u16,
        attributes: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let question = generic(family, command, REQUEST | flags, self.sequence, attributes);
        self.socket.send(&question, 0)?;
        loop {
            let datagram = match self.socket.recv_from_full() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?.0,
            };
            for message in Messages(&datagram).filter(|m| m.sequence == self.sequence) {
                match message.kind {
                    // The end of a dump says whether it failed.
                    DONE | ERROR => return refusal(message.body),
                    _ => {
                        message.attributes().iter().for_each(|attributes| take(attributes));
                        if flags & DUMP == 0 {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

/// The result in an error message, which may be that there is none.
fn refusal(body: &[u8]) -> io::Result<()> {
    match body.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A text that a zero ends.
fn text(value: &[u8]) -> &str {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_numbers_and_groups() {
        let mut questions = Questions::open().unwrap();
        let ethtool = questions.family("ethtool").unwrap();
        assert!(ethtool.id > CONTROLLER);
        assert!(ethtool.group("monitor").is_some_and(|group| group > 0));
        assert_eq!(ethtool.group("nobody"), None);
        let unknown = questions.family("no-such-family").unwrap_err();
        assert_eq!(unknown.raw_os_error(), Some(libc::ENOENT));
        assert_eq!(
            questions.family("nlctrl").unwrap().id,
            CONTROLLER,
            "it goes on after a refusal"
        );
    }

    #[test]
    fn an_error_of_no_number_is_nonsense() {
        assert_eq!(refusal(&[0; 4]).ok(), Some(()));
        assert!(refusal(&[1, 2]).is_err());
        assert!(refusal(&i32::MIN.to_ne_bytes()).is_err());
    }
}
