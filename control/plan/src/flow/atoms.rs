//! Opaque atoms: (label, value) pairs; a packet has at most one per label.

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
