//! From a conjunction back to a predicate.

use weever_graph::{Field, Predicate};

use super::conj::Conj;
use super::kinds::{Domain, Kinds};
use super::values::Values;

impl Conj {
    /// The equivalent predicate: its tests, and its kinds in terms of fields.
    pub fn to_predicate(&self) -> Predicate {
        let mut all: Vec<Predicate> = self.tests().flat_map(values_to_predicate).collect();
        let atoms = self.atoms().iter().map(|(label, value, holds)| {
            let atom = Predicate::Atom { label: label.into(), value: value.into() };
            if holds { atom } else { Predicate::Not(Box::new(atom)) }
        });
        all.extend(atoms);
        all.push(kinds_to_predicate(self.kinds()));
        Predicate::And(all)
    }
}

fn values_to_predicate(values: &Values) -> Vec<Predicate> {
    let &Values { field, mask, value, .. } = values;
    let range = values.range.as_ref().map(|r| Predicate::Range { field, lo: r.0, hi: r.1 });
    let masked = (mask != 0).then_some(Predicate::Match { field, mask, value });
    range.into_iter().chain(masked).collect()
}

/// Splits packets by the fields that decide their kind, until the kinds are separate.
fn kinds_to_predicate(kinds: Kinds) -> Predicate {
    if kinds == Kinds::ALL {
        return Predicate::True;
    }
    if kinds.is_empty() {
        return Predicate::False;
    }
    Predicate::Or(kinds.each().map(kind_to_predicate).collect())
}

fn kind_to_predicate(kind: Kinds) -> Predicate {
    let has = |field| Predicate::Range { field, lo: 0, hi: Field::full_mask(field) };
    let tagged = match kind.within(Kinds::with(Field::VlanId)) {
        true => has(Field::VlanId),
        false => Predicate::Not(Box::new(has(Field::VlanId))),
    };
    let deciding = [Field::EthType, Field::Ip4Proto, Field::Ip6Next, Field::Ip4Frag];
    let present = deciding.into_iter().filter(|f| kind.within(Kinds::with(*f)));
    let tests = present.filter_map(|field| Some((field, kind.domain(field)?)));
    let one = |field, v: &u128| Predicate::eq(field, *v);
    let said = tests.map(|(field, domain)| match domain {
        Domain::OneOf(vs) => Predicate::Or(vs.iter().map(|v| one(field, v)).collect()),
        Domain::AllBut(vs) => {
            Predicate::Not(Box::new(Predicate::Or(vs.iter().map(|v| one(field, v)).collect())))
        }
    });
    Predicate::And(std::iter::once(tagged).chain(said).collect())
}
