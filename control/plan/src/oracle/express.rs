//! The rules that express a conjunction in a table, and whether they match more than it.

use weever_graph::Field;
use weever_graph::nic::{FieldMatch, FlowType, Granularity, TableModel};

use super::Refusal;
use crate::flow::{Conj, Kinds, Values};

/// Rules for one flow, at most.
pub(crate) const MAX_RULES: usize = 64;
/// Values that a field is spelt out into, where a table has no mask for them.
const MAX_SPELT: u32 = 16;

/// A conjunction as one rule expresses it.
#[derive(Clone, Debug)]
pub(crate) struct Expressed {
    pub(crate) flow_type: Option<FlowType>,
    pub(crate) conj: Conj,
    /// Whether it matches exactly the requested packets.
    pub(crate) tight: bool,
}

/// How ranges and masks become rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// The fewest masks.
    Masks,
    /// Every value separately if there are few: such rules share a mask.
    EachValue,
}

/// The rules of `table` that together match every packet of `conj`.
pub(crate) fn express(
    table: &TableModel,
    conj: &Conj,
    spelling: Spelling,
) -> Result<Vec<Expressed>, Refusal> {
    let mut all = Vec::new();
    let conj = &conj.clone().by_ports();
    for (flow_type, kinds) in types_for(table, conj)? {
        let narrowed;
        let part = match flow_type {
            None => conj,
            Some(_) if conj.kinds().within(kinds) => conj,
            Some(_) => {
                narrowed = conj.clone().of(kinds);
                &narrowed
            }
        };
        let as_it_is =
            spelling == Spelling::Masks || part.tests().all(|values| values.single().is_some());
        if as_it_is && said_exactly(table, flow_type, kinds, part) {
            all.push(Expressed { flow_type, conj: part.clone(), tight: true });
        } else {
            spell_out(table, flow_type, part, spelling, &mut all)?;
        }
        if all.len() > MAX_RULES {
            return Err(Refusal::TooManyRules { limit: MAX_RULES });
        }
    }
    Ok(all)
}

/// The flow types of the rules that the kinds of `conj` need, each with the kinds that its rules match: the most
/// specific one if one suffices. Rules for any Ethernet frame take the packets that they can test and those that no
/// other type has.
fn types_for(table: &TableModel, conj: &Conj) -> Result<Vec<(Option<FlowType>, Kinds)>, Refusal> {
    if table.flow_types.is_empty() {
        return Ok(vec![(None, Kinds::ALL)]);
    }
    let kinds = conj.kinds();
    let with_kinds = |t: FlowType| (Some(t), Kinds::of_rules(table, Some(t)));
    let types = || FlowType::ALL.into_iter().filter(|t| table.flow_types.contains(t));
    let narrow = || types().filter(|t| *t != FlowType::Ether).map(with_kinds);
    if let Some(one) = narrow().find(|(_, of_type)| kinds.within(*of_type)) {
        return Ok(vec![one]);
    }
    let ether = types().find(|t| *t == FlowType::Ether);
    let tests = |field| table.fields_of(ether).any(|m| m.field == field);
    let is_ethernet = conj.tests().count() > 0 && conj.tests().all(|v| tests(v.field));
    let mut left = kinds;
    let mut needed = Vec::new();
    for one in narrow().filter(|_| ether.is_none() || !is_ethernet) {
        if !left.and(one.1).is_empty() {
            left = left.without(one.1);
            needed.push(one);
        }
    }
    match ether {
        _ if left.is_empty() => Ok(needed),
        Some(ether) => Ok(vec![with_kinds(ether)]),
        None => Err(untested(table, conj)
            .filter(|_| left != kinds)
            .unwrap_or_else(|| Refusal::NoFlowType { missing: missing(table, left) })),
    }
}

/// The fields of a flow at which no rule of the table looks, if there are any.
fn untested(table: &TableModel, conj: &Conj) -> Option<Refusal> {
    let fields = conj.tests().map(|values| values.field);
    let fields: Vec<Field> = fields.filter(|f| table.granularity(*f).is_none()).collect();
    (!fields.is_empty()).then_some(Refusal::CannotTest { fields })
}

/// The flow types of packets for which the table has no rules.
fn missing(table: &TableModel, left: Kinds) -> Vec<FlowType> {
    let lacks = |t: &FlowType| !table.flow_types.contains(t) && *t != FlowType::Ether;
    let of = |t: &FlowType| !left.and(Kinds::of(*t)).is_empty();
    let transports = |t: &FlowType| t.protocol().is_some();
    let all: Vec<FlowType> = FlowType::ALL.into_iter().filter(|t| lacks(t) && of(t)).collect();
    let (narrow, wide): (Vec<FlowType>, Vec<FlowType>) = all.into_iter().partition(transports);
    if wide.is_empty() || left.within(covered(&narrow)) { narrow } else { wide }
}

fn covered(types: &[FlowType]) -> Kinds {
    types.iter().fold(Kinds::NONE, |all, t| all.or(Kinds::of(*t)))
}

/// Why no rules of `table` match the packets of `conj` and nothing else: the fields that it cannot test
/// come first. Nothing if there are such rules.
pub(crate) fn obstacle(table: &TableModel, conj: &Conj) -> Option<Refusal> {
    let said = match express(table, conj, Spelling::Masks) {
        Ok(said) => said,
        Err(refusal) => return Some(refusal),
    };
    let wide = said.into_iter().find(|rule| !rule.tight)?;
    let found = |field| table.fields_of(wide.flow_type).find(|m| m.field == field);
    let tests = || conj.tests().filter(|v| !wide.conj.kinds().and(Kinds::with(v.field)).is_empty());
    let fields: Vec<Field> = tests().map(|v| v.field).filter(|f| found(*f).is_none()).collect();
    if !fields.is_empty() {
        return Some(Refusal::CannotTest { fields });
    }
    let is_wide = |values: &&Values| {
        let alone = Conj::all().having((*values).clone());
        !wide
            .conj
            .test(values.field)
            .is_some_and(|said| Conj::all().having(said.clone()).implies(&alone))
    };
    let coarse = tests().find(is_wide).and_then(|values| found(values.field));
    match (coarse, wide.flow_type) {
        (Some(FieldMatch { field, granularity }), _) => {
            Some(Refusal::TooCoarse { field, granularity })
        }
        (None, Some(flow_type)) => Some(Refusal::OtherKinds { flow_type }),
        (None, None) => Some(Refusal::Indistinct),
    }
}

/// The fields that rules may name and that the kind of a packet decides.
fn deciding() -> [Field; 3] {
    [Field::EthType, Field::Ip4Proto, Field::Ip6Next]
}

/// This value of a field and no other.
fn whole(field: Field, value: u128) -> Values {
    Values::masked(field, field.full_mask(), value)
}

/// The common case: every test can be expressed unchanged, and the kinds follow from the tests.
fn said_exactly(
    table: &TableModel,
    flow_type: Option<FlowType>,
    mut kinds: Kinds,
    conj: &Conj,
) -> bool {
    let mut said = 0;
    for FieldMatch { field, granularity } in table.fields_of(flow_type) {
        match conj.test(field) {
            Some(v) if v.range.is_none() && granularity.allows(field, v.mask) => {
                kinds = kinds.and(Kinds::with(field));
                said += 1;
            }
            Some(_) => return false,
            None if deciding().contains(&field) => {
                if let Some(value) = conj.single(field) {
                    kinds = whole(field, value).met_by(kinds.and(Kinds::with(field)));
                } else if granularity == Granularity::Exact {
                    return false;
                }
            }
            None if granularity == Granularity::Exact => return false,
            None => {}
        }
    }
    if conj.tests_ports() {
        kinds = kinds.without(Kinds::FIRST_FRAGMENTS);
    }
    kinds == conj.kinds() && said == conj.tests().count()
}

/// The general case: fields are spelt out or widened until the table can say them.
fn spell_out(
    table: &TableModel,
    flow_type: Option<FlowType>,
    conj: &Conj,
    spelling: Spelling,
    all: &mut Vec<Expressed>,
) -> Result<(), Refusal> {
    let mut rules = vec![Conj::of_kinds(Kinds::of_rules(table, flow_type))];
    let mut looks = flow_type.is_some_and(|t| t != FlowType::Ether);
    for FieldMatch { field, granularity } in table.fields_of(flow_type) {
        let Some(options) = options(conj, field, granularity, spelling)? else { continue };
        looks = true;
        let products =
            rules.iter().flat_map(|r| options.iter().map(|o| r.clone().having(o.clone())));
        rules = products.filter(|r| !r.disjoint(conj)).collect();
        if rules.len() > MAX_RULES {
            return Err(Refusal::TooManyRules { limit: MAX_RULES });
        }
    }
    if !looks && !conj.is_all() {
        return Err(untested(table, conj).unwrap_or(Refusal::Indistinct));
    }
    let rules = rules.into_iter().map(|rule| rule.by_ports()).filter(|rule| !rule.is_empty());
    all.extend(rules.map(|rule| {
        let tight = rule.implies(conj);
        Expressed { flow_type, conj: rule, tight }
    }));
    Ok(())
}

/// The tests of one field that a rule may contain; nothing if it is to contain none.
fn options(
    conj: &Conj,
    field: Field,
    granularity: Granularity,
    spelling: Spelling,
) -> Result<Option<Vec<Values>>, Refusal> {
    let whole = |value| whole(field, value);
    if let Some(values) = conj.test(field) {
        let by_value = (spelling == Spelling::EachValue).then(|| each(values)).flatten();
        let options = by_value.or_else(|| spelt(values, granularity));
        return match options {
            None if granularity == Granularity::Exact => Err(Refusal::FieldOpen { field }),
            options => Ok(options),
        };
    }
    if deciding().contains(&field) {
        if let Some(value) = conj.single(field) {
            return Ok(Some(vec![whole(value)]));
        }
        if let Some(values) = decided_values(conj, field) {
            return Ok(Some(values.into_iter().map(whole).collect()));
        }
    }
    let absent = conj.kinds().and(Kinds::with(field)).is_empty();
    if granularity == Granularity::Exact && !absent {
        return Err(Refusal::FieldOpen { field });
    }
    Ok(None)
}

/// The values that a deciding field has in the kinds of `conj`, if they are few and known.
fn decided_values(conj: &Conj, field: Field) -> Option<Vec<u128>> {
    let mut values = Vec::new();
    for kind in conj.kinds().each() {
        if !kind.within(Kinds::with(field)) {
            return None;
        }
        let value = Conj::of_kinds(kind).single(field)?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Some(values)
}

/// The masks that together cover `values` as closely as the granularity allows.
fn spelt(values: &Values, granularity: Granularity) -> Option<Vec<Values>> {
    let Values { field, mask, value, .. } = *values;
    if let Some(range) = &values.range {
        let masks = prefixes(field, range.0, range.1);
        let masks = masks.filter_map(|p| p.and(&Values::masked(field, mask, value)));
        return match granularity {
            Granularity::Bits => Some(masks.collect()),
            Granularity::Prefix => Some(prefixes(field, range.0, range.1).collect()),
            Granularity::Whole | Granularity::Exact => each(values),
        };
    }
    if granularity.allows(field, mask) {
        return Some(vec![values.clone()]);
    }
    if let Some(each) = each(values) {
        return Some(each);
    }
    let leading = (!(mask << (128 - field.bits()))).leading_zeros();
    match granularity {
        Granularity::Prefix if leading > 0 => {
            let low = field.bits() - leading.min(field.bits());
            let prefix = field.full_mask() >> low << low;
            Some(vec![Values::masked(field, prefix, value)])
        }
        _ => None,
    }
}

/// Every value separately, if they are few.
fn each(values: &Values) -> Option<Vec<Values>> {
    let mut all = Vec::new();
    let mut next = values.first();
    while let Some(v) = next {
        if all.len() as u32 == MAX_SPELT {
            return None;
        }
        all.push(whole(values.field, v));
        next = v.checked_add(1).and_then(|v| values.next(v));
    }
    Some(all)
}

/// A range as the fewest prefixes.
fn prefixes(field: Field, lo: u128, hi: u128) -> impl Iterator<Item = Values> {
    let mut next = (lo <= hi).then_some(lo);
    std::iter::from_fn(move || {
        let from = next?;
        // The largest block that starts here and does not go beyond the end.
        let mut low_bits = if from == 0 { field.bits() } else { from.trailing_zeros() };
        let last = |bits: u32| from | if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
        while low_bits > 0 && (low_bits > field.bits() || last(low_bits) > hi) {
            low_bits -= 1;
        }
        let end = last(low_bits);
        next = if end >= hi { None } else { Some(end + 1) };
        let mask = field.full_mask() & !(end ^ from);
        Some(Values::masked(field, mask, from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_prefixes() {
        for (lo, hi) in [(0, 65535), (0, 0), (1, 6), (1000, 1999), (65535, 65535), (1, 65534)] {
            let all: Vec<Values> = prefixes(Field::L4Dst, lo, hi).collect();
            let within = |v: u128| all.iter().filter(|p| p.contains(v)).count();
            assert!((0..=65535).all(|v| within(v) == usize::from(lo <= v && v <= hi)), "{lo}-{hi}");
            assert!(all.len() <= 30);
        }
    }
}
