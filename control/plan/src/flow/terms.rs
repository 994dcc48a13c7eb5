//! The terms of a conjunction: tests of fields, in a list that needs no allocation while it is short, and
//! opaque atoms, (label, value) pairs of which a packet has at most one per label.

use super::values::Values;

/// Enough for a five-tuple with a VLAN (the protocol is part of the packet's kind).
const INLINE: usize = 5;

/// The tests of a conjunction, at most one per field, by ascending field.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variant is the common one, and this type exists to avoid the box"
)]
pub(crate) enum Tests {
    /// Up to `INLINE` tests; the places behind are empty.
    Short(u8, [Option<Values>; INLINE]),
    /// More.
    Long(Vec<Values>),
}

impl Tests {
    pub(crate) const fn new() -> Tests {
        Tests::Short(0, [const { None }; INLINE])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Values> {
        let (short, long): (&[Option<Values>], &[Values]) = match self {
            Tests::Short(n, items) => (&items[..usize::from(*n)], &[]),
            Tests::Long(items) => (&[], items),
        };
        short.iter().flatten().chain(long)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Tests::Short(n, _) => usize::from(*n),
            Tests::Long(items) => items.len(),
        }
    }

    /// Adds `values`, whose field has no test yet.
    pub(crate) fn insert(&mut self, values: Values) {
        let at = self.iter().take_while(|t| t.field < values.field).count();
        match self {
            Tests::Short(n, items) if usize::from(*n) < INLINE => {
                items[usize::from(*n)] = Some(values);
                items[at..=usize::from(*n)].rotate_right(1);
                *n += 1;
            }
            Tests::Short(_, items) => {
                let mut all: Vec<Values> = items.iter_mut().filter_map(Option::take).collect();
                all.insert(at, values);
                *self = Tests::Long(all);
            }
            Tests::Long(items) => items.insert(at, values),
        }
    }

    /// Replaces the test at `at`.
    pub(crate) fn replace(&mut self, at: usize, values: Values) {
        match self {
            Tests::Short(_, items) => items[at] = Some(values),
            Tests::Long(items) => items[at] = values,
        }
    }

    /// Keeps those for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Values) -> bool) {
        match self {
            Tests::Short(n, items) => {
                let mut kept = 0;
                for i in 0..usize::from(*n) {
                    if items[i].as_ref().is_some_and(&keep) {
                        items.swap(kept, i);
                        kept += 1;
                    } else {
                        items[i] = None;
                    }
                }
                *n = kept as u8;
            }
            Tests::Long(items) => items.retain(keep),
        }
    }
}

impl PartialEq for Tests {
    fn eq(&self, other: &Tests) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Tests {}

/// Tests of opaque labels. Boxed behind a vector because almost no predicate has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Atoms(Vec<Atom>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Atom {
    label: String,
    value: String,
    holds: bool,
}

impl Atoms {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.0.iter().map(|a| (a.label.as_str(), a.value.as_str(), a.holds))
    }

    /// Adds a condition; false if it contradicts another.
    pub(crate) fn add(&mut self, label: &str, value: &str, holds: bool) -> bool {
        for atom in self.0.iter().filter(|a| a.label == label) {
            let same = atom.value == value;
            match (atom.holds, holds) {
                (true, true) if same => return true,
                (true, true) => return false,
                (true, false) | (false, true) if same => return false,
                // A test for another value of the label is implied.
                (true, false) => return true,
                (false, false) if same => return true,
                _ => {}
            }
        }
        if holds {
            self.0.retain(|a| a.label != label);
        }
        let atom = Atom { label: label.into(), value: value.into(), holds };
        let at = self.0.partition_point(|a| *a < atom);
        self.0.insert(at, atom);
        true
    }

    /// Adds all of `other`; false if they contradict each other.
    pub(crate) fn merge(&mut self, other: &Atoms) -> bool {
        other.iter().all(|(label, value, holds)| self.add(label, value, holds))
    }

    /// Whether these tests imply `other`.
    pub(crate) fn imply(&self, other: &Atoms) -> bool {
        other.iter().all(|(label, value, holds)| {
            self.iter().filter(|(l, ..)| *l == label).any(|(_, v, h)| match (h, holds) {
                (true, true) | (false, false) => v == value,
                (true, false) => v != value,
                (false, true) => false,
            })
        })
    }
}
