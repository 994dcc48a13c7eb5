//! A configuration as the `ethtool` commands that would make it.
//!
//! They are for people to read or run; devices are configured by system calls, elsewhere.
//! Settings that Linux does not expose become comments, so that nothing is lost silently.

mod fields;
mod spread;
#[cfg(test)]
mod tests;

use weever_graph::nic::{Exposure, FlowType, Location, TableModel, TableOrder};

use crate::config::{Configuration, Rule, Target};
use crate::nic::{Nic, Table};
pub use spread::spread;

/// The commands for `device`, in the order in which they have to run. Lines that start with `#` list
/// settings that cannot be expressed.
pub fn commands(nic: &Nic, configuration: &Configuration, device: &str) -> Vec<String> {
    let mut lines = vec![format!("ethtool -L {device} combined {}", nic.queues.count())];
    lines.extend(spread::command(nic, &configuration.rss, device));
    lines.extend(spread::fields(&configuration.rss, device));
    lines.extend(spread::contexts(nic, configuration, device));
    let tables = nic.tables.iter().zip(&configuration.rules);
    let line = |table, rule| rule_line(table, rule, configuration, device);
    let rules: Vec<String> =
        tables.flat_map(|(table, rules)| rules.iter().map(move |r| line(table, r))).collect();
    if rules.iter().any(|line| !line.starts_with('#')) {
        lines.push(format!("ethtool -K {device} ntuple on"));
    }
    lines.extend(rules);
    lines
}

fn rule_line(table: &Table, rule: &Rule, of: &Configuration, device: &str) -> String {
    let (action, plain) = action(rule.target, of);
    match spec(&table.model, rule) {
        Ok(spec) => {
            let place = if wants_location(&table.model) {
                format!(" loc {}", rule.location)
            } else {
                String::new()
            };
            format!("ethtool -N {device} {spec}{action}{place}")
        }
        Err(why) => {
            let said = fields::plain(&table.model, rule);
            format!("# cannot be expressed: {} {plain}: {said}; {why}", table.name)
        }
    }
}

/// The action of a rule, as an option and in words.
fn action(target: Target, of: &Configuration) -> (String, String) {
    match target {
        Target::Queue(queue) => (format!(" action {queue}"), format!("to queue {queue}")),
        Target::Context(context) => {
            let number = spread::number(of, context);
            (format!(" context {number}"), format!("to context {number}"))
        }
        Target::Drop => (" action -1".into(), "to nowhere".into()),
    }
}

fn wants_location(model: &TableModel) -> bool {
    let Exposure::Ethtool(ethtool) = &model.linux else { return false };
    ethtool.location == Location::Mandatory || model.order == TableOrder::Location
}

/// `flow-type udp4 dst-port 53`, or why Linux does not take the rule.
fn spec(model: &TableModel, rule: &Rule) -> Result<String, String> {
    let Exposure::Ethtool(ethtool) = &model.linux else {
        return Err("Linux does not expose this table".into());
    };
    if rule.target == Target::Drop && !ethtool.drop {
        return Err("Linux takes no rules here that drop".into());
    }
    let flow_type = rule.flow_type.unwrap_or(FlowType::Ether);
    if !ethtool.flow_types.contains(&flow_type) {
        return Err(format!("Linux does not take rules of type {flow_type} here"));
    }
    let mut out = format!("flow-type {flow_type}");
    for (m, key) in model.matches.iter().zip(&rule.keys).filter(|(_, k)| k.mask != 0) {
        let limit = ethtool.matches.iter().find(|e| e.field == m.field);
        let listed = ethtool.matches.is_empty() || limit.is_some();
        if !listed || limit.is_some_and(|l| !l.granularity.allows(m.field, key.mask)) {
            return Err(format!("Linux does not take this mask of {}", m.field));
        }
        out.push_str(&fields::option(flow_type, m.field, *key)?);
    }
    Ok(out)
}
