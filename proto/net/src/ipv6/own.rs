//! One address of an interface: its state, and who it comes from.

use crate::addr::Cidr6;

/// What may be done with an address (RFC 4862 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddrState {
    /// Another station turned out to have it: not used.
    Duplicate,
    /// Not known yet to be ours alone: not used.
    Tentative,
    /// Used by what uses it already, but not for what is new.
    Deprecated,
    /// Used.
    Preferred,
}

/// Who an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddrOrigin {
    /// An operator.
    Static,
    /// Made by ourselves, for the link (RFC 4862 §5.3).
    LinkLocal,
    /// Made of a prefix that a router advertised (RFC 4862 §5.5).
    Autoconf,
}

/// One address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnAddr {
    /// The address and its prefix. The prefix of one that a router's advertisement gave us says
    /// nothing about who is a neighbour (RFC 5942 §4).
    pub cidr: Cidr6,
    /// What may be done with it.
    pub state: AddrState,
    /// Who it comes from.
    pub origin: AddrOrigin,
}

impl OwnAddr {
    /// An operator's address, preferred as it is.
    pub fn preferred(cidr: Cidr6) -> Self {
        Self { cidr, state: AddrState::Preferred, origin: AddrOrigin::Static }
    }

    /// Whether packets to it are for us.
    #[inline]
    pub const fn is_used(&self) -> bool {
        matches!(self.state, AddrState::Preferred | AddrState::Deprecated)
    }
}
