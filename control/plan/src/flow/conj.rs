//! Conjunctions over packet fields, in a normal form in which the questions are cheap.

use weever_graph::Field;

use super::kinds::Kinds;
use super::terms::{Atoms, Tests};
use super::values::Values;

/// A set of packets: a set of kinds, and a set of values for each field.
///
/// Normal form: every kind has every field that is tested, and for every kind every test can hold;
/// a test that holds of all packets of these kinds is left out. So the conjunction is satisfiable
/// exactly if it has a kind, and five-tuples need four tests and no allocation. Equal sets mostly
/// compare equal, but not always (a range and a mask may say the same): ask [`Conj::implies`] both
/// ways where it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conj {
    kinds: Kinds,
    tests: Tests,
    atoms: Atoms,
}

impl Default for Conj {
    fn default() -> Conj {
        Conj::all()
    }
}

impl Conj {
    /// Every packet.
    pub fn all() -> Conj {
        Conj::of_kinds(Kinds::ALL)
    }

    /// Every packet of these kinds.
    pub fn of_kinds(kinds: Kinds) -> Conj {
        Conj { kinds, tests: Tests::new(), atoms: Atoms::default() }
    }

    /// The kinds of its packets.
    pub fn kinds(&self) -> Kinds {
        self.kinds
    }

    /// The tests of fields, by ascending field; tests that the kinds imply are left out.
    pub fn tests(&self) -> impl Iterator<Item = &Values> {
        self.tests.iter()
    }

    /// The values that `field` may have, if not all.
    pub fn test(&self, field: Field) -> Option<&Values> {
        self.tests.iter().find(|t| t.field == field)
    }

    /// The only value that `field` has in these packets, because of a test or of their kind.
    pub fn single(&self, field: Field) -> Option<u128> {
        if let Some(values) = self.test(field) {
            return values.single();
        }
        if !Kinds::decide(field) || self.is_empty() {
            return None;
        }
        let mut only = None;
        for kind in self.kinds.but_for_tags().each() {
            match kind.domain(field) {
                Some(super::kinds::Domain::OneOf([v])) if only.is_none_or(|o| o == *v) => {
                    only = Some(*v);
                }
                _ => return None,
            }
        }
        only
    }

    /// Whether no packet is in it.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether every packet is in it.
    pub fn is_all(&self) -> bool {
        self.kinds == Kinds::ALL && self.tests.len() == 0 && self.atoms.is_empty()
    }

    /// The subset of packets that are of `kinds`.
    #[must_use]
    pub fn of(mut self, kinds: Kinds) -> Conj {
        self.restrict(kinds);
        self
    }

    /// What a filter of a NIC matches of these packets: one that tests ports finds them in whole packets only.
    #[must_use]
    pub(crate) fn by_ports(self) -> Conj {
        match self.tests_ports() {
            true => self.of(Kinds::ALL.without(Kinds::FIRST_FRAGMENTS)),
            false => self,
        }
    }

    /// Whether a field of a transport's header is tested.
    pub(crate) fn tests_ports(&self) -> bool {
        self.tests().any(|t| matches!(t.field, Field::L4Src | Field::L4Dst | Field::TcpFlags))
    }

    /// The subset of packets whose field has one of these values.
    #[must_use]
    pub fn having(mut self, values: Values) -> Conj {
        self.test_values(values);
        self
    }

    /// The subset of packets whose field is `value`.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Conj {
        self.having(Values::masked(field, field.full_mask(), value))
    }

    pub(crate) fn having_atom(mut self, label: &str, value: &str, holds: bool) -> Conj {
        if !self.atoms.add(label, value, holds) {
            self.kinds = Kinds::NONE;
        }
        self
    }

    /// The packets in both.
    #[must_use]
    pub fn and(&self, other: &Conj) -> Conj {
        let mut both = self.clone();
        both.restrict(other.kinds);
        for values in other.tests.iter() {
            if both.is_empty() {
                return both;
            }
            both.test_values(values.clone());
        }
        if !both.atoms.merge(&other.atoms) {
            both.kinds = Kinds::NONE;
        }
        both
    }

    /// Whether no packet is in both.
    pub fn disjoint(&self, other: &Conj) -> bool {
        if self.kinds.and(other.kinds).is_empty() {
            return true;
        }
        if self.plainly_disjoint(other) {
            return true;
        }
        // Masks alone cannot hide a contradiction that the loop above missed, except in fields that
        // the kind decides.
        let hidden = |t: &Values| t.range.is_some() || Kinds::decide(t.field);
        let hides = self.tests.iter().chain(other.tests.iter()).any(hidden);
        (hides || !self.atoms.is_empty()) && self.and(other).is_empty()
    }

    fn plainly_disjoint(&self, other: &Conj) -> bool {
        let mut theirs = other.tests.iter().peekable();
        for mine in self.tests.iter() {
            while theirs.peek().is_some_and(|t| t.field < mine.field) {
                theirs.next();
            }
            if let Some(t) = theirs.peek()
                && t.field == mine.field
                && (t.value ^ mine.value) & t.mask & mine.mask != 0
            {
                return true;
            }
        }
        false
    }

    /// Whether every packet in it is in `other` too.
    pub fn implies(&self, other: &Conj) -> bool {
        if self.is_empty() {
            return true;
        }
        if !self.kinds.within(other.kinds) {
            return false;
        }
        let within = other.tests.iter().all(|theirs| {
            let mine = self.test(theirs.field);
            if Kinds::decide(theirs.field) {
                return self.within_by_kind(mine, theirs);
            }
            mine.is_some_and(|mine| mine.within(theirs))
        });
        within && self.atoms.imply(&other.atoms)
    }

    fn within_by_kind(&self, mine: Option<&Values>, theirs: &Values) -> bool {
        let all = Values::masked(theirs.field, 0, 0);
        let mine = mine.unwrap_or(&all);
        self.kinds.each().all(|kind| match kind.domain(theirs.field) {
            Some(domain) => mine.within_given(theirs, domain),
            None => mine.within(theirs),
        })
    }

    /// Upper bound of the share of the packets of `self` that are in `self and other`, if every
    /// kind is as frequent as every other and every value as well.
    pub fn share_of(&self, both: &Conj) -> f64 {
        let kinds = f64::from(both.kinds.weight()) / f64::from(self.kinds.weight().max(1));
        both.tests.iter().fold(kinds, |share, values| {
            let before = self.test(values.field).map_or(1.0, Values::share);
            share * (values.share() / before).min(1.0)
        })
    }

    /// The packets of `self` that are not in `other`, in disjoint pieces. Nothing if that takes more
    /// than `limit` pieces.
    pub fn minus(&self, other: &Conj, limit: usize) -> Option<Vec<Conj>> {
        let mut pieces = Vec::new();
        let mut rest = self.clone();
        let mut keep = |piece: Conj| {
            if !piece.is_empty() {
                pieces.push(piece);
            }
            pieces.len() <= limit
        };
        if !keep(rest.clone().of(Kinds::ALL.without(other.kinds))) {
            return None;
        }
        rest.restrict(other.kinds);
        for values in other.tests.iter() {
            for outside in values.complement() {
                if !keep(rest.clone().having(outside)) {
                    return None;
                }
            }
            rest.test_values(values.clone());
        }
        for (label, value, holds) in other.atoms.iter() {
            if !keep(rest.clone().having_atom(label, value, !holds)) {
                return None;
            }
            rest = rest.having_atom(label, value, holds);
        }
        Some(pieces)
    }

    /// A set that has every packet of either, and as few others as the form can say.
    #[must_use]
    pub(crate) fn hull(&self, other: &Conj) -> Conj {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let mut hull = Conj::of_kinds(self.kinds.or(other.kinds));
        for mine in self.tests.iter() {
            let theirs = other.test(mine.field);
            if let Some(values) = theirs.map(|t| mine.hull(t)).filter(|v| !v.is_all()) {
                hull.tests.insert(values);
            }
        }
        for (label, value, holds) in self.atoms.iter() {
            let mut asked = Atoms::default();
            asked.add(label, value, holds);
            if other.atoms.imply(&asked) {
                hull.atoms.add(label, value, holds);
            }
        }
        hull.drop_said_by_kinds();
        hull
    }

    pub(super) fn atoms(&self) -> &Atoms {
        &self.atoms
    }

    fn restrict(&mut self, kinds: Kinds) {
        let left = self.kinds.and(kinds);
        if left != self.kinds {
            self.kinds = left;
            self.drop_said_by_kinds();
        }
    }

    fn test_values(&mut self, values: Values) {
        self.kinds = self.kinds.and(Kinds::with(values.field));
        if values.is_all() {
            return self.drop_said_by_kinds();
        }
        let field = values.field;
        let at = self.tests.iter().position(|t| t.field == field);
        match at.map(|at| (at, self.tests.iter().nth(at).and_then(|t| t.and(&values)))) {
            None if values.first().is_none() => self.kinds = Kinds::NONE,
            None => self.tests.insert(values),
            Some((at, Some(both))) => self.tests.replace(at, both),
            Some((_, None)) => self.kinds = Kinds::NONE,
        }
        if Kinds::decide(field) {
            self.drop_kinds_without(field);
        }
        self.drop_said_by_kinds();
    }

    /// Keeps the kinds for which the test of `field` can hold.
    fn drop_kinds_without(&mut self, field: Field) {
        let Some(values) = self.tests.iter().find(|t| t.field == field) else { return };
        self.kinds = values.met_by(self.kinds);
    }

    /// Leaves out the tests that hold of every packet of the kinds.
    fn drop_said_by_kinds(&mut self) {
        let kinds = self.kinds.but_for_tags();
        if !self.tests.iter().any(|t| Kinds::decide(t.field)) {
            return;
        }
        let said = |t: &Values| {
            let all = Values::masked(t.field, 0, 0);
            let by = |k: Kinds| k.domain(t.field).is_some_and(|d| all.within_given(t, d));
            Kinds::decide(t.field) && kinds.each().all(by)
        };
        self.tests.retain(|t| !said(t));
    }
}
