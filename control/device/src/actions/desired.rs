//! A configuration in the kernel's terms.

use std::collections::BTreeMap;

use weever_graph::nic::{Exposure, FlowType, Location, TableOrder};
use weever_plan::config::{Configuration, Rule, Target};
use weever_plan::nic::{Disturbance, Nic, Setting, Table};

use super::ConfigurationError;
use crate::ethtool::{ANY_LOCATION, Action, HashFields, Match, RuleSpec};

/// The settings that a device should get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredConfiguration {
    /// The number of receiving queues; 0 to leave it as it is.
    pub receiving: u32,
    /// The queues over which the hash spreads evenly; empty to leave its table as it is.
    pub spread: Vec<u32>,
    /// The hash's key, if it matters.
    pub key: Option<Vec<u8>>,
    /// The hashed fields, where they matter.
    pub fields: Vec<(FlowType, HashFields)>,
    /// The contexts that rules name by their position: the queues over which each spreads evenly. One without
    /// queues is not used.
    pub contexts: Vec<Vec<u32>>,
    /// Private flags of the driver that have to be off.
    pub off: Vec<String>,
    /// The features (`ethtool -K`) that have to be on or off, for rules or for the host's graph.
    pub features: BTreeMap<String, bool>,
    /// Whether rules have to be on although there are none.
    pub rules_on: bool,
    /// What settings of the device disturb, as far as its model says it.
    pub disturbances: Vec<Disturbance>,
    /// The rules. Locations only fix an order: any others in the same order will do.
    pub rules: Vec<RuleSpec>,
}

impl DesiredConfiguration {
    /// A configuration of `nic`, as Linux exposes it.
    ///
    /// # Errors
    /// [`ConfigurationError::Hidden`] or [`ConfigurationError::Field`] if a rule cannot be expressed.
    pub fn of(
        nic: &Nic,
        configuration: &Configuration,
    ) -> Result<DesiredConfiguration, ConfigurationError> {
        let mut rules = Vec::new();
        for (table, of_table) in nic.tables.iter().zip(&configuration.rules) {
            for rule in of_table {
                rules.push(words(table, rule)?);
            }
        }
        let fields = configuration.rss.fields.iter();
        let contexts = 0..configuration.contexts.len() as u32;
        let has_rivals = !rules.is_empty() || Nic::relies_on_hash(configuration);
        Ok(DesiredConfiguration {
            receiving: nic.queues.hi + 1,
            spread: configuration.rss.queues(),
            key: configuration.rss.key.clone(),
            fields: fields.map(|(t, fields)| (*t, HashFields::from(*fields))).collect(),
            contexts: contexts
                .map(|context| configuration.context(nic, context).queues())
                .collect(),
            off: if has_rivals { nic.off.clone() } else { Vec::new() },
            features: switches(&nic.settings(configuration)),
            rules_on: nic.needs_rules_on(configuration),
            disturbances: nic.disturbances.clone(),
            rules,
        })
    }
}

/// Settings by the names of the switches.
pub fn switches(settings: &[Setting]) -> BTreeMap<String, bool> {
    let each = settings.iter().flat_map(|s| s.names.iter().map(|name| (name.clone(), s.on)));
    each.collect()
}

pub(super) fn words(table: &Table, rule: &Rule) -> Result<RuleSpec, ConfigurationError> {
    let Exposure::Ethtool(ethtool) = &table.model.linux else {
        return Err(ConfigurationError::Hidden { table: table.name.clone() });
    };
    let flow_type = rule.flow_type.unwrap_or(FlowType::Ether);
    let keys = table.model.matches.iter().zip(&rule.keys).filter(|(_, key)| key.mask != 0);
    let fields = keys.map(|(m, key)| (m.field, *key)).collect();
    let action = match rule.target {
        Target::Queue(queue) => Action::Queue(queue),
        Target::Context(context) => Action::Context { context, queue: 0 },
        Target::Drop => Action::Drop,
    };
    let spec = Match { flow_type, fields }.to_rule(action);
    let spec = spec.map_err(|field| {
        let table = table.name.clone();
        ConfigurationError::Field { table, flow_type, field }
    })?;
    let is_placed =
        ethtool.location == Location::Mandatory || table.model.order == TableOrder::Location;
    Ok(spec.at(if is_placed { rule.location } else { ANY_LOCATION }))
}
