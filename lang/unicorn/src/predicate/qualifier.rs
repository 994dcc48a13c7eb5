//! The keywords before a value, as in `udp dst port 53`, and what they say of the next: `port 80 or 443`.
//!
//! A value without keywords has those of the test before it, as in pcap-filter(7): protocol, direction and
//! kind. So `tcp dst port 80 or 443` is `tcp dst port 80 or tcp dst port 443`.

use weever_graph::Predicate;

use super::{fields, services};

/// Which of source and destination a primitive is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Src,
    Dst,
    Either,
    Both,
}

impl Way {
    pub(super) fn of(self, src: Predicate, dst: Predicate) -> Predicate {
        match self {
            Way::Src => src,
            Way::Dst => dst,
            Way::Either => Predicate::Or(vec![src, dst]),
            Way::Both => Predicate::And(vec![src, dst]),
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Address,
    Net,
    Port,
    Ports,
    Protocol,
    Station,
}

/// The keywords before a value.
#[derive(Clone, Copy)]
pub(super) struct Qualifier<'t> {
    pub(super) proto: &'t str,
    pub(super) way: Way,
    pub(super) kind: Kind,
}

impl Qualifier<'_> {
    /// Whether a word is a value for it, rather than the start of another test.
    pub(super) fn continues_with(&self, word: &str) -> bool {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        match self.kind {
            Kind::Address | Kind::Net => number || word.contains(':'),
            Kind::Port => number || services::port(word).is_some(),
            Kind::Ports | Kind::Protocol => number,
            Kind::Station => fields::mac(word).is_some(),
        }
    }
}
