//! What routers say of the link: prefixes whose addresses are neighbours (RFC 4861 §6.3.4), and
//! parameters.

use alloc::vec::Vec;

use super::MAX_PREFIXES;
use crate::addr::Cidr6;
use crate::neighbour::NEVER;

/// Parameters of a link that routers advertise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// Hop limit of what we send.
    pub hop_limit: u8,
    /// Longest packet of the link.
    pub mtu: u16,
}

/// Prefixes of the link, and until when.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes {
    list: Vec<(Cidr6, u64)>,
}

impl Prefixes {
    /// Notes a prefix; `until` is now for one that has gone. False if there is no room for it.
    pub(super) fn note(&mut self, prefix: Cidr6, until: u64, now: u64) -> bool {
        let prefix = prefix.network();
        if until <= now {
            self.list.retain(|(there, _)| *there != prefix);
            return true;
        }
        let room = self.list.len() < MAX_PREFIXES;
        match self.list.iter_mut().find(|(there, _)| *there == prefix) {
            Some(there) => there.1 = until,
            None if room => self.list.push((prefix, until)),
            None => return false,
        }
        true
    }

    /// Forgets those whose time is over; whether there were any.
    pub(super) fn expire(&mut self, now: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|(_, until)| *until > now);
        self.list.len() != before
    }

    pub(super) fn wake(&self) -> u64 {
        self.list.iter().map(|(_, until)| *until).min().unwrap_or(NEVER)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cidr6> + '_ {
        self.list.iter().map(|(prefix, _)| *prefix)
    }
}
