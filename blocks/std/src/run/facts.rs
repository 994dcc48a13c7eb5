//! What is known of a packet at a place in a run: the outcomes of the tests before it, and what follows
//! from them.

use std::collections::BTreeMap;

use weever_graph::{Field, Predicate, Relation, Set};

/// Something known of a packet.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// It has the field, with these bits.
    Bits { field: Field, mask: u128, value: u128 },
    /// A predicate holds of it, or does not.
    Is(Predicate, bool),
    /// Known once a block has recorded these metadata, and not before: its fields are read from there.
    When(u8, Box<Fact>),
}

impl Fact {
    /// The field's value.
    pub(super) fn value(field: Field, value: u128) -> Fact {
        Fact::Bits { field, mask: field.full_mask(), value }
    }

    /// It has the field.
    pub(super) fn has(field: Field) -> Fact {
        Fact::Bits { field, mask: 0, value: 0 }
    }

    pub(super) fn at_least(field: Field, least: u128) -> Fact {
        Fact::Is(Predicate::Range { field, lo: least, hi: field.full_mask() }, true)
    }

    pub(super) fn at_most(left: Field, right: Field) -> Fact {
        Fact::Is(Predicate::Compare { left, relation: Relation::AtMost, right }, true)
    }

    pub(super) fn member(field: Field, set: Set, is: bool) -> Fact {
        Fact::Is(Predicate::Member { field, set }, is)
    }

    pub(super) fn label(label: &str, value: &str, is: bool) -> Fact {
        Fact::Is(Predicate::Atom { label: label.into(), value: value.into() }, is)
    }

    /// Its value of an address field does not begin like this.
    pub(super) fn outside(field: Field, mask: u128, value: u128) -> Fact {
        Fact::Is(Predicate::Match { field, mask, value }, false)
    }
}

/// All that is known of a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// By field: which bits are known, and these.
    bits: BTreeMap<Field, (u128, u128)>,
    /// Tests that nothing else decides.
    tests: Vec<(Predicate, bool)>,
    waiting: Vec<Fact>,
    /// The metadata that blocks have recorded.
    recorded: u8,
}

impl Facts {
    /// Nodes that record these metadata have been passed.
    pub(super) fn record(&mut self, records: u8) {
        self.recorded |= records;
        let waiting = std::mem::take(&mut self.waiting);
        self.add_all(&waiting);
    }

    /// The metadata that are recorded.
    pub(super) fn recorded(&self) -> u8 {
        self.recorded
    }

    pub(super) fn add_all(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::When(records, fact) if records & !self.recorded == 0 => {
                    self.add_all(std::slice::from_ref(fact));
                }
                Fact::When(..) => self.waiting.push(fact.clone()),
                Fact::Bits { field, mask, value } => self.add_bits(*field, *mask, *value),
                Fact::Is(predicate, is) => self.add(predicate, *is),
            }
        }
    }

    fn add_bits(&mut self, field: Field, mask: u128, value: u128) {
        let known = self.bits.entry(field).or_default();
        *known = (known.0 | mask, known.1 & !mask | value & mask);
    }

    /// Adds that a predicate holds, or does not.
    fn add(&mut self, predicate: &Predicate, is: bool) {
        match predicate {
            Predicate::True | Predicate::False => {}
            Predicate::Not(inner) => self.add(inner, !is),
            Predicate::And(parts) if is => parts.iter().for_each(|part| self.add(part, true)),
            Predicate::Or(parts) if !is => parts.iter().for_each(|part| self.add(part, false)),
            Predicate::Match { field, mask, value } if is => self.add_bits(*field, *mask, *value),
            test => self.tests.push((test.clone(), is)),
        }
    }

    /// Whether a fact can be true beside these.
    pub(super) fn allow(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Bits { field, mask, value } => {
                let (mask, value) = (*mask, *value);
                self.eval(&Predicate::Match { field: *field, mask, value }) != Some(false)
            }
            Fact::Is(predicate, is) => self.eval(predicate) != Some(!is),
            Fact::When(_, fact) => self.allow(fact),
        }
    }

    /// Whether a predicate holds; `None`: that is not known.
    pub(super) fn eval(&self, predicate: &Predicate) -> Option<bool> {
        match predicate {
            Predicate::True => Some(true),
            Predicate::False => Some(false),
            Predicate::Not(inner) => self.eval(inner).map(|is| !is),
            Predicate::And(parts) => self.all(parts, true).or_else(|| self.tested(predicate)),
            Predicate::Or(parts) => {
                self.all(parts, false).map(|is| !is).or_else(|| self.tested(predicate))
            }
            Predicate::Match { field, mask, value } => {
                self.matches(*field, *mask, *value).or_else(|| self.tested(predicate))
            }
            Predicate::Range { field, lo, hi } => {
                self.is_within(*field, *lo, *hi).or_else(|| self.is_ranged(*field, *lo, *hi))
            }
            Predicate::Compare { .. } | Predicate::Member { .. } | Predicate::Atom { .. } => {
                self.tested(predicate)
            }
        }
    }

    /// Whether all parts are `wanted`: false as soon as one is known not to be.
    fn all(&self, parts: &[Predicate], wanted: bool) -> Option<bool> {
        let mut all = Some(true);
        for part in parts {
            match self.eval(part) {
                Some(is) if is == wanted => {}
                Some(_) => return Some(false),
                None => all = None,
            }
        }
        all
    }

    fn matches(&self, field: Field, mask: u128, value: u128) -> Option<bool> {
        let (known, bits) = *self.bits.get(&field)?;
        match (bits ^ value) & mask & known {
            0 if mask & !known == 0 => Some(true),
            0 => None,
            _ => Some(false),
        }
    }

    fn is_within(&self, field: Field, lo: u128, hi: u128) -> Option<bool> {
        let (known, bits) = *self.bits.get(&field)?;
        let full = field.full_mask();
        match () {
            () if known == full => Some(lo <= bits && bits <= hi),
            () if lo == 0 && hi >= full => Some(true),
            () => None,
        }
    }

    /// The same, by the ranges that are known.
    fn is_ranged(&self, field: Field, lo: u128, hi: u128) -> Option<bool> {
        self.tests.iter().find_map(|test| match test {
            (Predicate::Range { field: of, lo: least, hi: most }, true) if *of == field => {
                match () {
                    () if lo <= *least && *most <= hi => Some(true),
                    () if hi < *least || *most < lo => Some(false),
                    () => None,
                }
            }
            (Predicate::Range { field: of, lo: least, hi: most }, false) if *of == field => {
                (*least <= lo && hi <= *most).then_some(false)
            }
            _ => None,
        })
    }

    fn tested(&self, predicate: &Predicate) -> Option<bool> {
        self.tests.iter().find(|(test, _)| test == predicate).map(|(_, is)| *is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_follow_from_values_lengths_and_other_tests() {
        let mut facts = Facts::default();
        let ours = Predicate::Member { field: Field::Ip4Dst, set: Set::Ours };
        facts.add_all(&[
            Fact::value(Field::EthOuter, 0x800),
            Fact::has(Field::Ip4Ttl),
            Fact::at_least(Field::L4Len, 8),
            Fact::outside(Field::Ip4Src, 0xff00_0000, 0x7f00_0000),
            Fact::Is(Predicate::Not(Box::new(ours.clone())), false),
        ]);
        let eq = Predicate::eq;
        let known = [
            (eq(Field::EthOuter, 0x800), true),
            (eq(Field::EthOuter, 0x8100), false),
            (Predicate::Range { field: Field::EthOuter, lo: 0x600, hi: 0xffff }, true),
            (Predicate::Range { field: Field::Ip4Ttl, lo: 0, hi: 255 }, true),
            (Predicate::Range { field: Field::L4Len, lo: 8, hi: 0x1ffff }, true),
            (Predicate::Range { field: Field::L4Len, lo: 4, hi: 0x1ffff }, true),
            (Predicate::Range { field: Field::L4Len, lo: 0, hi: 7 }, false),
            (
                Predicate::Match { field: Field::Ip4Src, mask: 0xff00_0000, value: 0x7f00_0000 },
                false,
            ),
            (Predicate::And(vec![eq(Field::Ip4Proto, 6), eq(Field::EthOuter, 1)]), false),
            (Predicate::Or(vec![eq(Field::Ip4Proto, 6), ours]), true),
        ];
        for (predicate, is) in known {
            assert_eq!(facts.eval(&predicate), Some(is), "{predicate:?}");
        }
        for open in
            [eq(Field::Ip4Proto, 6), Predicate::Range { field: Field::Ip4Ttl, lo: 1, hi: 9 }]
        {
            assert_eq!(facts.eval(&open), None, "{open:?}");
        }
        assert!(!facts.allow(&Fact::value(Field::EthOuter, 0x86dd)));
        assert!(facts.allow(&Fact::value(Field::Ip4Proto, 17)));
    }
}
