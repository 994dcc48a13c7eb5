//! Flows: predicates over packet fields, with facts about their traffic.
//!
//! A [`Predicate`] becomes a disjunction of [`Conj`]unctions ([`conjunctions`]); a [`Flow`] is one
//! with a name, a class and a weight. A conjunction is kept in a normal form: the *kinds* of its
//! packets (IPv4 or IPv6, which transport, tagged or not …), and a set of values for each tested field.
//! The kind of a packet decides which fields it has, so `dst port 80` implies that there is a transport
//! with ports.

mod conj;
mod dnf;
mod kinds;
mod terms;
#[cfg(test)]
mod tests;
mod values;

use weever_graph::Predicate;

pub use conj::Conj;
pub(crate) use dnf::as_atom;
pub use dnf::{TooComplex, conjunctions, conjunctions_of_not};
pub use kinds::Kinds;
pub use values::Values;

/// How many conjunctions a flow may have.
pub const MAX_PARTS: usize = 64;

/// The class of a flow: an index into the policy's classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u16);

/// The application that a flow belongs to, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u32);

/// A flow: a set of packets, with facts about their traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The name that people use for it.
    pub name: String,
    /// Its packets: those of any of these conjunctions.
    pub parts: Vec<Conj>,
    /// Its class.
    pub class: ClassId,
    /// The application that it belongs to.
    pub app: Option<AppId>,
    /// The core on which that application runs.
    pub core: Option<u16>,
    /// How much it counts beside other flows; 1 is usual, at most [`Flow::MAX_WEIGHT`].
    pub weight: u32,
    /// Its rate, if known, in the unit of all flows' rates.
    pub rate: Option<u64>,
    /// Whether some of its packets are of a class that is dropped and comes before its own: those it may
    /// lose, though not all of its packets.
    pub yields: bool,
}

impl Flow {
    /// The largest weight, so that sums of many flows stay exact.
    pub const MAX_WEIGHT: u32 = 1 << 20;

    /// A flow of the packets for which `predicate` holds, with weight 1 and class 0.
    pub fn new(name: impl Into<String>, predicate: &Predicate) -> Result<Flow, TooComplex> {
        Ok(Flow::of(name, conjunctions(predicate, MAX_PARTS)?))
    }

    /// A flow of the packets in any of `parts`.
    pub fn of(name: impl Into<String>, parts: Vec<Conj>) -> Flow {
        let (name, class) = (name.into(), ClassId(0));
        Flow { name, parts, class, app: None, core: None, weight: 1, rate: None, yields: false }
    }

    /// Whether every packet of it is one of `other`. False negatives are possible where only
    /// several of `other`'s parts together cover one of this flow's.
    pub fn implies(&self, other: &Flow) -> bool {
        self.parts.iter().all(|p| other.parts.iter().any(|o| p.implies(o)))
    }
}
