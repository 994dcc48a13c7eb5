//! A table as a value of a configuration type.
//!
//! Types speak of a table by the labels of a product, in a list: Dragonet's `sip`, `dport`, `prio` and
//! so on. The meaning of a label decides which part of an entry is checked against its type; labels
//! with other meanings are left unchecked.

use super::error::ConfigError;
use crate::config::ValueError;
use crate::{ConfigType, Entry, Field, Key, Node, TableSpec, Value};

pub(super) fn check(
    node: &Node,
    ty: Option<&ConfigType>,
    table: &TableSpec,
) -> Result<(), ConfigError> {
    let outside = |reason| ConfigError::OutsideType { node: node.name.clone(), reason };
    let Some(ty) = ty else {
        let message = "it has no type, so its values are its ports".to_string();
        return Err(outside(ValueError { path: String::new(), message }));
    };
    let members = members_of(ty);
    let row = |(i, entry): (usize, &Entry)| {
        entry_value(members, table, entry)
            .map_err(|e| ValueError { path: format!("[{i}]{}", e.path), ..e })
    };
    let rows: Result<Vec<Value>, ValueError> = table.entries.iter().enumerate().map(row).collect();
    let rows = rows.map_err(outside)?;
    match ty {
        // A single tuple is a table of at most one filter.
        ConfigType::Product(_) if rows.len() == 1 => ty.check(&rows[0]),
        ConfigType::Product(_) if rows.is_empty() => Ok(()),
        _ => ty.check(&Value::List(rows)),
    }
    .map_err(outside)
}

fn members_of(ty: &ConfigType) -> &[(String, ConfigType)] {
    match ty {
        ConfigType::Product(members) => members,
        ConfigType::List { element, .. } => members_of(element),
        _ => &[],
    }
}

fn entry_value(
    members: &[(String, ConfigType)],
    table: &TableSpec,
    entry: &Entry,
) -> Result<Value, ValueError> {
    let part = |(label, ty): &(String, ConfigType)| match meaning(label) {
        Some(Part::Priority) => Ok(Value::Number(entry.priority.into())),
        Some(Part::Id) => Ok(Value::Number(entry.id.into())),
        Some(Part::Key(field)) => {
            let at = table.fields.iter().position(|f| *f == field);
            let key = at.and_then(|at| entry.keys.get(at));
            key_value(key, field, ty)
                .map_err(|message| ValueError { path: format!(".{label}"), message })
        }
        None => Ok(Value::Unsaid),
    };
    members.iter().map(part).collect::<Result<_, _>>().map(Value::Tuple)
}

enum Part {
    Key(Field),
    Priority,
    Id,
}

fn meaning(label: &str) -> Option<Part> {
    Some(match label.to_ascii_lowercase().as_str() {
        "sip" => Part::Key(Field::Ip4Src),
        "dip" => Part::Key(Field::Ip4Dst),
        "proto" => Part::Key(Field::Ip4Proto),
        "sport" => Part::Key(Field::L4Src),
        "dport" => Part::Key(Field::L4Dst),
        "prio" => Part::Priority,
        "id" => Part::Id,
        _ => return None,
    })
}

/// A key's value; a field that the table does not look at is a wildcard.
fn key_value(key: Option<&Key>, field: Field, ty: &ConfigType) -> Result<Value, String> {
    let Some(key) = key.filter(|k| k.mask != 0) else { return Ok(Value::Nothing) };
    if key.mask != field.full_mask() {
        return Err("a part of the field is masked out; the type has whole values only".into());
    }
    if let Some(labels) = labels_of(ty) {
        return Ok(Value::Label(protocol_label(labels, key.value)));
    }
    Ok(i128::try_from(key.value).map_or(Value::Large(key.value), Value::Number))
}

fn labels_of(ty: &ConfigType) -> Option<&[String]> {
    match ty {
        ConfigType::Optional(inner) => labels_of(inner),
        ConfigType::Enum(labels) => Some(labels),
        _ => None,
    }
}

fn protocol_label(labels: &[String], number: u128) -> String {
    // Dragonet's models misspell SCTP.
    let names: &[&str] = match number {
        1 => &["ICMP"],
        6 => &["TCP"],
        17 => &["UDP"],
        132 => &["SCTP", "SCP"],
        _ => &[],
    };
    let known = names.iter().find(|n| labels.iter().any(|l| l == *n));
    known.map_or_else(|| "OTHER".into(), |n| (*n).into())
}
