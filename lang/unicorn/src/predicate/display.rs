//! A predicate back as text that [`super::parse`] reads as the same predicate.

use std::fmt::{Display, Formatter, Result};

use weever_graph::{Field, Predicate};

use super::fields;

/// Shows a predicate: calls of `and`, `or`, `not` and `pred` around field comparisons.
pub struct PredicateText<'a>(pub &'a Predicate);

impl Display for PredicateText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Predicate::True => f.write_str("true"),
            Predicate::False => f.write_str("false"),
            Predicate::Match { field, mask, value } => show_match(f, *field, *mask, *value),
            Predicate::Range { field, lo, hi } => {
                write!(f, "{} in {lo}-{hi}", fields::field_name(*field))
            }
            Predicate::Compare { left, relation, right } => {
                write!(f, "{left} {} {right}", relation.sign())
            }
            Predicate::Member { field, set } => write!(f, "{field} in {set}"),
            Predicate::Atom { label, value } => show_atom(f, label, value),
            Predicate::Not(inner) => write!(f, "not({})", PredicateText(inner)),
            Predicate::And(parts) => show_call(f, "and", parts),
            Predicate::Or(parts) => show_call(f, "or", parts),
        }
    }
}

fn show_match(f: &mut Formatter<'_>, field: Field, mask: u128, value: u128) -> Result {
    let name = fields::field_name(field);
    let shown = fields::shown(field, value);
    let length = (0..=field.bits()).find(|l| fields::prefix_mask(field, *l) == Some(mask));
    let address = matches!(
        field,
        Field::Ip4Src
            | Field::Ip4Dst
            | Field::ArpSpa
            | Field::ArpTpa
            | Field::Ip6Src
            | Field::Ip6Dst
    );
    match length {
        _ if mask == field.full_mask() => write!(f, "{name} = {shown}"),
        Some(length) if address => write!(f, "{name} = {shown}/{length}"),
        _ => write!(f, "{name} & {} = {}", fields::hex(mask), fields::hex(value)),
    }
}

fn show_atom(f: &mut Formatter<'_>, label: &str, value: &str) -> Result {
    let plain = |s: &str| {
        s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && s.starts_with(char::is_alphabetic)
    };
    let quoted = |s: &str| if plain(s) { s.to_string() } else { format!("'{s}'") };
    write!(f, "pred({},{})", quoted(label), quoted(value))
}

fn show_call(f: &mut Formatter<'_>, name: &str, parts: &[Predicate]) -> Result {
    write!(f, "{name}(")?;
    for (i, part) in parts.iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { ", " }, PredicateText(part))?;
    }
    f.write_str(")")
}
