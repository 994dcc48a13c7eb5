//! From any predicate to a disjunction of conjunctions, within a bound, and back.

use weever_graph::{Field, Predicate};

use super::conj::Conj;
use super::kinds::{Domain, Kinds};
use super::values::Values;

/// A disjunctive normal form needed more conjunctions than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes more than {limit} conjunctions to say; split it, or negate less of it")]
pub struct TooComplex {
    /// The allowed number.
    pub limit: usize,
}

/// Conjunctions whose disjunction is equivalent to `predicate`. None of them is empty or implied by
/// another; they may overlap. A test of a field that a packet lacks is false, as it is for
/// [`Predicate::eval`].
pub fn conjunctions(predicate: &Predicate, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    disjuncts(predicate, true, limit)
}

/// The same for `not predicate`.
pub fn conjunctions_of_not(predicate: &Predicate, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    disjuncts(predicate, false, limit)
}

fn disjuncts(predicate: &Predicate, holds: bool, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    match (predicate, holds) {
        (Predicate::True, true) | (Predicate::False, false) => Ok(vec![Conj::all()]),
        (Predicate::True, false) | (Predicate::False, true) => Ok(Vec::new()),
        (Predicate::Match { field, .. } | Predicate::Range { field, .. }, _)
            if field.is_derived() =>
        {
            let (label, value) = as_atom(predicate);
            Ok(vec![Conj::all().having_atom(&label, &value, holds)])
        }
        (Predicate::Match { field, mask, value }, _) => {
            let possible = value & !mask == 0 && mask & !field.full_mask() == 0;
            let values = possible.then(|| Values::masked(*field, *mask, *value));
            test(*field, values, holds, limit)
        }
        (Predicate::Range { field, lo, hi }, _) => {
            let possible = lo <= hi && *lo <= field.full_mask();
            test(*field, possible.then(|| Values::range(*field, *lo, *hi)), holds, limit)
        }
        (Predicate::Compare { .. } | Predicate::Member { .. } | Predicate::Atom { .. }, _) => {
            let (label, value) = as_atom(predicate);
            Ok(vec![Conj::all().having_atom(&label, &value, holds)])
        }
        (Predicate::Not(p), _) => disjuncts(p, !holds, limit),
        (Predicate::And(all), true) | (Predicate::Or(all), false) => product(all, holds, limit),
        (Predicate::Or(any), true) | (Predicate::And(any), false) => sum(any, holds, limit),
    }
}

/// A test of unknown meaning as a label, which has the same value every time. A field that equals one
/// value equals no other.
pub(crate) fn as_atom(test: &Predicate) -> (String, String) {
    match test {
        Predicate::Atom { label, value } => (label.clone(), value.clone()),
        Predicate::Match { field, mask, value } if *mask == field.full_mask() => {
            (field.name().into(), value.to_string())
        }
        test => (format!("{test:?}"), "yes".into()),
    }
}

/// A test of one field, or its negation: the field is absent or has another value. No `values` means a
/// test that no packet passes.
fn test(
    field: Field,
    values: Option<Values>,
    holds: bool,
    limit: usize,
) -> Result<Vec<Conj>, TooComplex> {
    let Some(values) = values else {
        return Ok(if holds { Vec::new() } else { vec![Conj::all()] });
    };
    if holds {
        let conj = Conj::all().having(values);
        return Ok(if conj.is_empty() { Vec::new() } else { vec![conj] });
    }
    let absent = Conj::of_kinds(Kinds::ALL.without(Kinds::with(field)));
    let complement = around(&values).map(|v| Conj::all().having(v));
    let all = std::iter::once(absent).chain(complement).filter(|c| !c.is_empty()).collect();
    within(all, limit)
}

/// The complement in as few pieces as possible: a prefix or a single value is a range, so its
/// complement is the two ranges beside it.
fn around(values: &Values) -> Box<dyn Iterator<Item = Values> + '_> {
    let (field, full) = (values.field, values.field.full_mask());
    let free = !values.mask & full;
    if values.range.is_some() || free & free.wrapping_add(1) != 0 {
        return Box::new(values.complement());
    }
    let (lo, hi) = (values.value, values.value | free);
    let below = (lo > 0).then(|| Values::range(field, 0, lo - 1));
    let above = (hi < full).then(|| Values::range(field, hi + 1, full));
    Box::new(below.into_iter().chain(above))
}

fn sum(parts: &[Predicate], holds: bool, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    let mut all: Vec<Conj> = Vec::new();
    for part in parts {
        for conj in disjuncts(part, holds, limit)? {
            absorb(&mut all, conj);
        }
        all = within(all, limit)?;
    }
    Ok(all)
}

fn product(parts: &[Predicate], holds: bool, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    let mut all = vec![Conj::all()];
    for part in parts {
        let factors = disjuncts(part, holds, limit)?;
        let mut products = Vec::new();
        for (one, other) in all.iter().flat_map(|a| factors.iter().map(move |f| (a, f))) {
            absorb(&mut products, one.and(other));
            if products.len() > limit {
                return Err(TooComplex { limit });
            }
        }
        all = products;
    }
    Ok(all)
}

/// Adds `conj` unless it is implied, and removes conjunctions that it makes superfluous.
fn absorb(all: &mut Vec<Conj>, conj: Conj) {
    if conj.is_empty() || all.iter().any(|other| conj.implies(other)) {
        return;
    }
    all.retain(|other| !other.implies(&conj));
    all.push(conj);
}

fn within(all: Vec<Conj>, limit: usize) -> Result<Vec<Conj>, TooComplex> {
    if all.len() > limit { Err(TooComplex { limit }) } else { Ok(all) }
}

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
