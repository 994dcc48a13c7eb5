//! A plan: the configuration that was found, and its effect on every flow and queue.

use super::changes::{RuleId, rule_of};
use super::{Exhausted, FlowId, OthersRule, Search};
use crate::config::{Configuration, Rss, Rule, Target};
use crate::flow::{AppId, ClassId};
use crate::map::Placement;
use crate::nic::Nic;
use crate::oracle::Refusal;
use crate::policy::Cost;

/// A configuration and its effects.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The NIC's name.
    pub nic: String,
    /// The policy's cost. A plan that is not acceptable should not be applied.
    pub cost: Cost,
    /// The reasons why it is unacceptable, for people.
    pub complaints: Vec<String>,
    /// The rules of each table of the NIC, in the order of insertion.
    pub rules: Vec<PlannedRule>,
    /// The rules of others that the plan goes around; what they send to queues that it does not have counts as
    /// dropped.
    pub others: Vec<OthersRule>,
    /// The spreading of the rest.
    pub rss: Rss,
    /// The queues of each context that rules name; none for unused contexts.
    pub contexts: Vec<Vec<u32>>,
    /// The flows, in the order of their coming.
    pub flows: Vec<PlannedFlow>,
    /// The queues, ascending.
    pub queues: Vec<PlannedQueue>,
    /// The scarce resources, for the flows that no table took.
    pub shortages: Vec<Shortage>,
    /// Whether the search's budget ran out, so that a better plan may exist.
    pub exhausted: Option<Exhausted>,
}

/// A rule of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRule {
    /// Its number in the changes of the device.
    pub id: RuleId,
    /// The table's position in the NIC.
    pub table: usize,
    /// The table's name.
    pub table_name: String,
    /// The rule.
    pub rule: Rule,
    /// The flow that it is for; nothing if that is gone.
    pub flow: Option<FlowId>,
}

/// A flow of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFlow {
    /// Its number.
    pub id: FlowId,
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: ClassId,
    /// The application that it belongs to.
    pub app: Option<AppId>,
    /// Its packets per second, as they were registered or measured.
    pub rate: Option<u64>,
    /// The queues at which it arrives.
    pub placement: Placement,
    /// Positions in [`Plan::rules`] of the rules that were made for it.
    pub rules: Vec<usize>,
    /// Why no table took it, if it would be better elsewhere: tables and reasons.
    pub refused: Vec<(String, Refusal)>,
}

/// A queue of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedQueue {
    /// Its number.
    pub queue: u32,
    /// How many flows arrive at it, shares added up.
    pub flows: f64,
    /// Whether unregistered traffic can arrive at it.
    pub other: bool,
    /// The classes whose flows can arrive at it, ascending, with how many there are.
    pub classes: Vec<(ClassId, usize)>,
}

/// Flows that could not be placed for the same reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    /// Their class.
    pub class: ClassId,
    /// The table.
    pub table: String,
    /// The reason for the first of them.
    pub reason: Refusal,
    /// How many they are.
    pub flows: usize,
}

impl Plan {
    /// The configuration alone, without the rules of others.
    pub fn configuration(&self, tables: usize) -> Configuration {
        let mut rules = vec![Vec::new(); tables];
        for planned in &self.rules {
            rules[planned.table].push(planned.rule.clone());
        }
        Configuration { rules, rss: self.rss.clone(), contexts: self.contexts.clone() }
    }

    /// The configuration with the rules that others made: what decides where packets arrive.
    pub fn whole_configuration(&self, tables: usize) -> Configuration {
        let mut whole = self.configuration(tables);
        for OthersRule { table, rule } in &self.others {
            whole.rules[*table].push(rule.clone());
        }
        whole
    }

    /// The queues that a rule of it sends packets to.
    pub fn reached_by(&self, rule: &Rule) -> Vec<u32> {
        match rule.target {
            Target::Queue(queue) => vec![queue],
            Target::Context(context) => {
                self.contexts.get(context as usize).cloned().unwrap_or_default()
            }
            Target::Drop => Vec::new(),
        }
    }

    /// Whether it can be applied.
    pub fn is_acceptable(&self) -> bool {
        self.cost.is_acceptable()
    }

    /// What the device has to be set to for the rules to match, in words. `strips` are the features (`ethtool -K`)
    /// that take tags out of frames before rules see them: those of the NIC ([`Nic::strips`]), or those of them that are
    /// known to be on.
    pub fn notes(&self, nic: &Nic, strips: &[String]) -> Vec<String> {
        let settings = nic.settings(&self.configuration(nic.tables.len()));
        let names = settings.iter().flat_map(|setting| &setting.names);
        let names: Vec<&str> =
            names.filter(|name| strips.contains(name)).map(String::as_str).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let off: Vec<String> = names.iter().map(|name| format!("`{name} off`")).collect();
        let (features, off) = (names.join(" and "), off.join(" and "));
        vec![format!(
            "filters test VLAN tags: where a device strips them ({features}), they do not match; set \
             {off} with `ethtool -K`"
        )]
    }
}

impl Search {
    /// The present plan. Takes time in proportion to flows and rules.
    pub fn plan(&mut self) -> Plan {
        let exhausted = self.exhausted();
        self.start_work(0);
        let (rules, position) = self.planned_rules();
        let mut order: Vec<(u32, u32)> =
            self.map.flows.iter().map(|(i, m)| (m.generation, i)).collect();
        order.sort_unstable();
        let flows: Vec<PlannedFlow> =
            order.into_iter().map(|(_, i)| self.planned_flow(i, &position)).collect();
        Plan {
            nic: self.nic.name.clone(),
            cost: self.cost(),
            complaints: self.policy.complaints(),
            rules,
            others: self.others_in_plan(),
            rss: self.rss.clone(),
            contexts: self.map.contexts.in_use(),
            queues: self.planned_queues(),
            shortages: shortages(&flows),
            exhausted,
            flows,
        }
    }

    /// All rules in the order of their insertion, and the position of each entry among them.
    fn planned_rules(&self) -> (Vec<PlannedRule>, std::collections::HashMap<u32, usize>) {
        let mut entries: Vec<_> = self.map.entries.iter().filter(|(_, e)| !e.fixed).collect();
        entries.sort_unstable_by_key(|(_, e)| e.seq);
        let position = entries.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
        let rule = |(_, entry): (u32, &crate::map::Entry)| PlannedRule {
            id: self.changes.id_of(entry.seq),
            table: entry.rule.table,
            table_name: self.nic.tables[entry.rule.table].name.clone(),
            rule: rule_of(&self.nic, &entry.rule),
            flow: entry.owner.map(|f| self.id(f)),
        };
        (entries.into_iter().map(rule).collect(), position)
    }

    fn planned_flow(
        &mut self,
        index: u32,
        position: &std::collections::HashMap<u32, usize>,
    ) -> PlannedFlow {
        let refused = match self.map.flows[index].unplaced {
            true => self.refusals(index),
            false => self.obstacles(index),
        };
        let member = &self.map.flows[index];
        PlannedFlow {
            id: self.id(index),
            name: member.flow.name.clone(),
            class: member.flow.class,
            app: member.flow.app,
            rate: member.flow.rate,
            placement: member.placement.clone(),
            rules: member.rules.iter().filter_map(|r| position.get(r).copied()).collect(),
            refused,
        }
    }

    /// The arriving load of each queue, by ascending queue. Takes time in proportion to flows.
    pub fn queues(&self) -> Vec<PlannedQueue> {
        self.planned_queues()
    }

    fn planned_queues(&self) -> Vec<PlannedQueue> {
        let (lo, hi) = (self.nic.queues.lo, self.nic.queues.hi);
        let queue = |queue| PlannedQueue {
            queue,
            flows: 0.0,
            other: self.map.other_reaches(queue),
            classes: Vec::new(),
        };
        let mut queues: Vec<PlannedQueue> = (lo..=hi).map(queue).collect();
        for (_, member) in self.map.flows.iter() {
            for (at, share) in member.placement.shares() {
                let Some(queue) = at.checked_sub(lo).and_then(|i| queues.get_mut(i as usize))
                else {
                    continue;
                };
                queue.flows += f64::from(share) / f64::from(crate::map::WHOLE);
                let class = member.flow.class;
                match queue.classes.binary_search_by_key(&class, |(c, _)| *c) {
                    Ok(at) => queue.classes[at].1 += 1,
                    Err(at) => queue.classes.insert(at, (class, 1)),
                }
            }
        }
        queues
    }
}

fn shortages(flows: &[PlannedFlow]) -> Vec<Shortage> {
    let mut all: Vec<Shortage> = Vec::new();
    for flow in flows {
        for (table, reason) in &flow.refused {
            let same = |s: &&mut Shortage| {
                s.class == flow.class && s.table == *table && s.reason.is_alike(reason)
            };
            match all.iter_mut().find(same) {
                Some(shortage) => shortage.flows += 1,
                None => {
                    let (class, table, reason) = (flow.class, table.clone(), reason.clone());
                    all.push(Shortage { class, table, reason, flows: 1 });
                }
            }
        }
    }
    all
}
