//! A configuration as the `ethtool` commands that would make it.
//!
//! They are for people to read or run; devices are configured by system calls, elsewhere.
//! Settings that Linux does not expose become comments, so that nothing is lost silently.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::nic::{Exposure, FlowType, Location, RssFields, TableModel, TableOrder};
use weever_graph::{Field, Key};

use crate::config::{Configuration, Rss, Rule, Target};
use crate::nic::{Disturbance, Nic, Setting, Table, Touched};

/// The commands for `device`, in the order in which they have to run. Lines that start with `#` list
/// settings that cannot be expressed.
pub fn commands(nic: &Nic, configuration: &Configuration, device: &str) -> Vec<String> {
    let mut lines = vec![format!("ethtool -L {device} combined {}", nic.queues.count())];
    lines.extend(command(nic, &configuration.rss, device));
    lines.extend(fields(&configuration.rss, device));
    lines.extend(contexts(nic, configuration, device));
    let tables = nic.tables.iter().zip(&configuration.rules);
    let line = |table, rule| rule_line(table, rule, configuration, device);
    let rules: Vec<String> =
        tables.flat_map(|(table, rules)| rules.iter().map(move |r| line(table, r))).collect();
    let has_rules = rules.iter().any(|line| !line.starts_with('#'));
    if has_rules || Nic::relies_on_hash(configuration) {
        let off =
            nic.off.iter().map(|flag| format!("ethtool --set-priv-flags {device} {flag} off"));
        lines.extend(off);
    }
    lines.extend(nic.settings(configuration).iter().flat_map(|s| setting(s, device)));
    if has_rules || nic.needs_rules_on(configuration) {
        lines.push(format!("ethtool -K {device} ntuple on"));
    }
    lines.extend(rules);
    lines
}

/// The side effects of the commands for a configuration, as far as the model says them.
pub fn disturbances<'n>(nic: &'n Nic, configuration: &Configuration) -> Vec<&'n Disturbance> {
    let mut touched = vec![Touched::Queues];
    touched.extend((!configuration.rss.table.is_empty()).then_some(Touched::Table));
    let settings = nic.settings(configuration);
    touched.extend(settings.into_iter().flat_map(|s| s.names).map(Touched::Feature));
    let has_rules = configuration.rules.iter().any(|rules| !rules.is_empty());
    let switches_on = has_rules || nic.needs_rules_on(configuration);
    touched.extend(switches_on.then_some(Touched::RulesOn));
    let said = touched.iter().filter_map(|by| nic.disturbed_by(by));
    said.filter(|disturbance| !disturbance.effects.is_empty()).collect()
}

/// The commands that switch a feature.
pub fn setting(setting: &Setting, device: &str) -> Vec<String> {
    let state = if setting.on { "on" } else { "off" };
    setting.names.iter().map(|name| format!("ethtool -K {device} {name} {state}")).collect()
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
            let said = plainly(&table.model, rule);
            format!("# cannot be expressed: {} {plain}: {said}; {why}", table.name)
        }
    }
}

/// The action of a rule, as an option and in words.
fn action(target: Target, of: &Configuration) -> (String, String) {
    match target {
        Target::Queue(queue) => (format!(" action {queue}"), format!("to queue {queue}")),
        Target::Context(context) => {
            let number = number(of, context);
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
        out.push_str(&option(flow_type, m.field, *key)?);
    }
    Ok(out)
}

/// ` src-ip 10.0.0.0 m 0.255.255.255`. The mask names the bits that do not count.
pub(super) fn option(flow_type: FlowType, field: Field, key: Key) -> Result<String, String> {
    let name = name(flow_type, field)
        .ok_or_else(|| format!("`ethtool` has no option for {field} of {flow_type} rules"))?;
    let mut ignored = field.full_mask() & !key.mask;
    if field == Field::VlanId {
        // The option is the whole tag: priority and drop eligibility do not count.
        ignored |= 0xf000;
    }
    let value = shown(field, key.value);
    Ok(match ignored {
        0 => format!(" {name} {value}"),
        _ => format!(" {name} {value} m {}", shown(field, ignored)),
    })
}

fn name(flow_type: FlowType, field: Field) -> Option<&'static str> {
    let (ip, ether) = (flow_type.ip_version().is_some(), flow_type == FlowType::Ether);
    let transport = flow_type.protocol().is_some();
    Some(match field {
        Field::EthSrc if ether => "src",
        Field::EthDst if ether => "dst",
        Field::EthDst => "dst-mac",
        Field::EthType if ether => "proto",
        Field::VlanId => "vlan",
        Field::Ip4Src | Field::Ip6Src if ip => "src-ip",
        Field::Ip4Dst | Field::Ip6Dst if ip => "dst-ip",
        Field::Ip4Proto | Field::Ip6Next if ip && !transport => "l4proto",
        Field::L4Src if transport => "src-port",
        Field::L4Dst if transport => "dst-port",
        _ => return None,
    })
}

fn shown(field: Field, value: u128) -> String {
    match field {
        Field::EthSrc | Field::EthDst => {
            let byte = |i: u32| format!("{:02x}", value >> (40 - 8 * i) & 0xff);
            (0..6).map(byte).collect::<Vec<_>>().join(":")
        }
        Field::Ip4Src | Field::Ip4Dst => u32::try_from(value)
            .map_or_else(|_| value.to_string(), |v| Ipv4Addr::from_bits(v).to_string()),
        Field::Ip6Src | Field::Ip6Dst => Ipv6Addr::from_bits(value).to_string(),
        Field::EthType => format!("{value:#x}"),
        _ => value.to_string(),
    }
}

/// The match of a rule, in the terms of `ethtool` as far as they exist.
fn plainly(model: &TableModel, rule: &Rule) -> String {
    let mut out = rule.flow_type.map_or_else(|| "any".to_string(), |t| t.name().to_string());
    for (m, key) in model.matches.iter().zip(&rule.keys).filter(|(_, k)| k.mask != 0) {
        let option = rule.flow_type.and_then(|t| option(t, m.field, *key).ok());
        let written = || format!(" {} {:#x}/{:#x}", m.field, key.value, key.mask);
        out.push_str(&option.unwrap_or_else(written));
    }
    out
}

/// `ethtool -X DEV equal 8`, or with weights where the queues are not the first ones or not equal.
pub(super) fn command(nic: &Nic, rss: &Rss, device: &str) -> Option<String> {
    nic.rss.as_ref()?;
    spread(&rss.table, rss.key.as_deref(), device)
}

/// The command that makes `device` spread over the queues of `table`, by this key if there is one;
/// nothing for an empty table.
pub fn spread(table: &[u32], key: Option<&[u8]>, device: &str) -> Option<String> {
    let last = *table.iter().max()?;
    let mut weights = vec![0usize; last as usize + 1];
    table.iter().for_each(|q| weights[*q as usize] += 1);
    let key = key.map(|key| format!(" hkey {}", hex(key))).unwrap_or_default();
    let (least, most) = (weights.iter().min()?, weights.iter().max()?);
    // Entries seldom divide evenly; `equal` also leaves a difference of one.
    if most - least <= 1 {
        return Some(format!("ethtool -X {device} equal {}{key}", weights.len()));
    }
    let listed: Vec<String> =
        weights.iter().map(|w| usize::from(*w > 0)).map(|w| w.to_string()).collect();
    let exact = uneven(&weights).then(|| weights.iter().map(|w| w.to_string()).collect());
    let listed = exact.unwrap_or(listed);
    Some(format!("ethtool -X {device} weight {}{key}", listed.join(" ")))
}

/// The commands that create the used contexts. The device assigns the number of each; a device without
/// contexts assigns those of [`number`].
pub(super) fn contexts(nic: &Nic, configuration: &Configuration, device: &str) -> Vec<String> {
    let used = (0..configuration.contexts.len() as u32)
        .filter(|c| !configuration.contexts[*c as usize].is_empty());
    let line = |context| {
        let table = configuration.context(nic, context).table;
        spread(&table, None, device).map(|command| format!("{command} context new"))
    };
    used.filter_map(line).collect()
}

/// The number of a context on a device without earlier contexts.
pub(super) fn number(configuration: &Configuration, context: u32) -> usize {
    let before = configuration.contexts.iter().take(context as usize + 1);
    before.filter(|queues| !queues.is_empty()).count()
}

/// The hashed fields of a flow type, where they are not the device's own choice.
pub(super) fn fields(rss: &Rss, device: &str) -> Vec<String> {
    let line = |(flow_type, fields): &(weever_graph::nic::FlowType, RssFields)| {
        let letters = match fields {
            RssFields::FourTuple => "sdfn",
            RssFields::Addresses => "sd",
            RssFields::None => {
                return format!("# cannot be expressed: nothing of {flow_type} is to be hashed");
            }
        };
        format!("ethtool -N {device} rx-flow-hash {flow_type} {letters}")
    };
    rss.fields.iter().map(line).collect()
}

/// Whether the queues that are used are used unequally.
fn uneven(weights: &[usize]) -> bool {
    let used = || weights.iter().filter(|w| **w > 0);
    used().max().zip(used().min()).is_some_and(|(most, least)| most - least > 1)
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}
