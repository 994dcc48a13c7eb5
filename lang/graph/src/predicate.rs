//! Predicates over packet fields: conditions on a packet at a place in the graph.
//!
//! Known labels become typed [`Field`] tests; unknown labels stay opaque atoms (UNICORN,
//! "Predicates"). One label has one value in a packet, so two atoms with the same label and
//! different values contradict each other.

use crate::field::{Field, Set};

/// How two fields compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
}

impl Relation {
    /// Whether it holds of two values.
    #[inline]
    pub fn holds(self, left: u128, right: u128) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
        }
    }

    /// Its sign in predicates.
    pub fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::Less => "<",
            Relation::AtMost => "<=",
        }
    }
}

/// A test whose outcome the packet's bytes alone do not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTest<'a> {
    /// An opaque label has this value.
    Label {
        /// The label.
        label: &'a str,
        /// The value.
        value: &'a str,
    },
    /// A field's value is in a set.
    Member {
        /// The field.
        field: Field,
        /// Its value in the packet.
        value: u128,
        /// The set.
        set: Set,
    },
}

/// A condition on a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// Holds of every packet; carries no information.
    #[default]
    True,
    /// Holds of no packet.
    False,
    /// `field & mask == value`. False of a packet without the field.
    Match {
        /// The field.
        field: Field,
        /// Bits that count.
        mask: u128,
        /// Their required value; no bit outside `mask`.
        value: u128,
    },
    /// `lo <= field <= hi`. False of a packet without the field.
    Range {
        /// The field.
        field: Field,
        /// Smallest value, inclusive.
        lo: u128,
        /// Largest value, inclusive.
        hi: u128,
    },
    /// `left relation right`, field with field. False of a packet without one of them.
    Compare {
        /// The one field.
        left: Field,
        /// How they compare.
        relation: Relation,
        /// The other.
        right: Field,
    },
    /// The field's value is in a set of the network's. False of a packet without the field.
    Member {
        /// The field.
        field: Field,
        /// The set.
        set: Set,
    },
    /// An atom over a label that weever gives no meaning to.
    Atom {
        /// The label.
        label: String,
        /// Its value.
        value: String,
    },
    /// Negation.
    Not(Box<Predicate>),
    /// Conjunction.
    And(Vec<Predicate>),
    /// Disjunction.
    Or(Vec<Predicate>),
}

impl Predicate {
    /// `field == value`.
    pub fn eq(field: Field, value: u128) -> Predicate {
        Predicate::Match { field, mask: field.full_mask(), value }
    }

    /// Whether the predicate holds, given how to look up a field, and the outcome of tests which are
    /// not about the packet's bytes. A field without a value makes its test false. This is the meaning of
    /// predicates; every faster form is held to it.
    pub fn eval(
        &self,
        field: &dyn Fn(Field) -> Option<u128>,
        open: &dyn Fn(OpenTest<'_>) -> bool,
    ) -> bool {
        match self {
            Predicate::True => true,
            Predicate::False => false,
            Predicate::Match { field: f, mask, value } => {
                field(*f).is_some_and(|v| v & mask == *value)
            }
            Predicate::Range { field: f, lo, hi } => {
                field(*f).is_some_and(|v| *lo <= v && v <= *hi)
            }
            Predicate::Compare { left, relation, right } => {
                let both = field(*left).zip(field(*right));
                both.is_some_and(|(left, right)| relation.holds(left, right))
            }
            Predicate::Member { field: f, set } => {
                let is_in = |value| open(OpenTest::Member { field: *f, value, set: *set });
                field(*f).is_some_and(is_in)
            }
            Predicate::Atom { label, value } => open(OpenTest::Label { label, value }),
            Predicate::Not(p) => !p.eval(field, open),
            Predicate::And(ps) => ps.iter().all(|p| p.eval(field, open)),
            Predicate::Or(ps) => ps.iter().any(|p| p.eval(field, open)),
        }
    }

    /// Calls `visit` for each test in it, in the order of the text.
    pub fn for_each_test<'a>(&'a self, visit: &mut dyn FnMut(&'a Predicate)) {
        match self {
            Predicate::True | Predicate::False => {}
            Predicate::Not(p) => p.for_each_test(visit),
            Predicate::And(ps) | Predicate::Or(ps) => {
                ps.iter().for_each(|p| p.for_each_test(visit));
            }
            test => visit(test),
        }
    }

    /// Whether its text says all of it: no test is of an opaque label.
    pub fn is_defined(&self) -> bool {
        let mut defined = true;
        self.for_each_test(&mut |test| defined &= !matches!(test, Predicate::Atom { .. }));
        defined
    }
}
