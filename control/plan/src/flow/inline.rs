//! A short list that needs no allocation while it is short.

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
