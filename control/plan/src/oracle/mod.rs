//! Oracles, derived from table models: which rules would steer a flow (the Dragonet queue
//! management paper, §3.2.2, where they were written by hand for each NIC).
//!
//! For a flow, an oracle offers at most one [`Proposal`] per table: the rules that express the flow
//! there, leaving their queue open, or the reason why the table cannot. It considers granularity and
//! scope of masks, the use of each pool, hashes that give up early, and the precedence of rules.

mod express;
mod order;
mod refusal;
mod state;

pub(crate) use express::obstacle;
pub use refusal::{Refusal, Refused};
pub(crate) use state::{State, cost};

use std::collections::VecDeque;

use weever_graph::nic::{FlowType, MaskScope, QueueRange, TableModel};

use crate::config::Target;
use crate::flow::{Conj, Kinds, Values};
use crate::map::{FlowMap, NewEntry};
use crate::nic::Nic;
use crate::policy::{Policy, Subject};
use express::{Expressed, Spelling};

/// The most parts of flows, its own included, that a rule may catch if it matches more than its flow.
const MOST_CAUGHT: usize = 64;

/// Rules that would steer a flow.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) rules: Vec<NewEntry>,
    /// The queues that it can be steered to.
    pub(crate) queues: QueueRange,
    /// Whether the rules match nothing but the flow.
    pub(crate) tight: bool,
    /// The smaller, the fewer other flows could have used the entries that it takes.
    pub(crate) scarcity: u8,
    /// Stale rules that have to go first.
    pub(crate) evict: Vec<u32>,
}

impl Proposal {
    /// Whether the rules drop.
    pub(crate) fn drops(&self) -> bool {
        self.rules.iter().all(|r| r.target == Target::Drop)
    }

    /// The fields that each of its rules tests, at least.
    pub(crate) fn tests(&self) -> usize {
        self.rules.iter().map(|r| r.conj.tests().count()).min().unwrap_or(0)
    }
}

/// The present configuration, as input of the oracle.
pub(crate) struct Situation<'a> {
    pub(crate) nic: &'a Nic,
    pub(crate) map: &'a FlowMap,
    pub(crate) state: &'a State,
    /// Stale rules, the oldest first.
    pub(crate) stale: &'a VecDeque<u32>,
}

/// The intended treatment of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The packets arrive at a queue.
    Delivered,
    /// The NIC drops it.
    Dropped,
}

impl Fate {
    /// The fate that the policy wants for the flow.
    pub(crate) fn of(subject: &Subject, policy: &dyn Policy) -> Fate {
        if policy.drops(subject) { Fate::Dropped } else { Fate::Delivered }
    }
}

/// The proposal of table `table` for `flow`.
pub(crate) fn propose(
    at: &Situation<'_>,
    flow: u32,
    table: usize,
    fate: Fate,
) -> Result<Proposal, Refusal> {
    let model = &at.nic.tables[table].model;
    let (queues, target) = match fate {
        Fate::Dropped if !model.actions.drop => return Err(Refusal::NoDrop),
        Fate::Dropped => (at.nic.queues, Target::Drop),
        Fate::Delivered => {
            let queues = steerable(at.nic, table).ok_or(Refusal::NoQueues)?;
            (queues, Target::Queue(queues.lo))
        }
    };
    let (said, scarcity, mut evict) = say(at, flow, table)?;
    make_room(at, table, &said, &mut evict)?;
    let tight = said.iter().all(|s| s.tight);
    if fate == Fate::Dropped && !tight {
        return Err(Refusal::DropsOthers);
    }
    let rule = |Expressed { flow_type, conj, .. }| NewEntry {
        table,
        flow_type,
        conj,
        target,
        priority: 0,
        location: 0,
        rank: 0,
    };
    let rules = said.into_iter().map(rule).collect();
    Ok(Proposal { rules, queues, tight, scarcity, evict })
}

/// The rules for a flow, their scarcity, and the stale rules with other masks.
fn say(
    at: &Situation<'_>,
    flow: u32,
    table: usize,
) -> Result<(Vec<Expressed>, u8, Vec<u32>), Refusal> {
    let model = &at.nic.tables[table].model;
    let mut said = express_flow(at, flow, model, Spelling::Masks)?;
    let mut evict = Vec::new();
    let scarcity = match agree_on_masks(at, table, &mut said, &mut evict) {
        Err(conflict @ Refusal::MaskConflict) => {
            // Rules for single values have one mask, which those of a range or prefix have not.
            said = express_flow(at, flow, model, Spelling::EachValue).map_err(|_| conflict)?;
            evict.clear();
            agree_on_masks(at, table, &mut said, &mut evict)?
        }
        agreed => agreed?,
    };
    Ok((said, scarcity, evict))
}

/// The packets of the rules that would steer a flow if the table had room, with the entries that each takes.
pub(crate) fn rules_for(at: &Situation<'_>, flow: u32, table: usize) -> Option<Vec<(Conj, u32)>> {
    steerable(at.nic, table)?;
    let model = &at.nic.tables[table].model;
    let (said, ..) = say(at, flow, table).ok()?;
    Some(said.into_iter().map(|s| (s.conj, state::cost(model, s.flow_type))).collect())
}

/// The rules for all parts of a flow.
fn express_flow(
    at: &Situation<'_>,
    flow: u32,
    model: &TableModel,
    spelling: Spelling,
) -> Result<Vec<Expressed>, Refusal> {
    let mut said: Vec<Expressed> = Vec::new();
    for conj in at.map.parts_of(flow) {
        said.extend(express::express(model, conj, spelling)?);
        if said.len() > express::MAX_RULES {
            return Err(Refusal::TooManyRules { limit: express::MAX_RULES });
        }
    }
    drop_doubles(&mut said);
    Ok(said)
}

/// The queues that a table's rules can send to.
pub(crate) fn steerable(nic: &Nic, table: usize) -> Option<QueueRange> {
    nic.tables[table].model.actions.queues?.and(nic.queues)
}

/// Removes repeated rules: one rule may express overlapping parts of a flow.
fn drop_doubles(said: &mut Vec<Expressed>) {
    if said.len() < 2 {
        return;
    }
    let mut kept: Vec<Expressed> = Vec::new();
    for one in said.drain(..) {
        let within = |by: &Expressed| one.flow_type == by.flow_type && one.conj.implies(&by.conj);
        if !kept.iter().any(within) {
            kept.push(one);
        }
    }
    *said = kept;
}

/// Where masks are shared, checks that the rules' masks are those in use, or widens the rules to
/// those. Stale rules with other masks are evicted. Returns the scarcity of the resource used.
fn agree_on_masks(
    at: &Situation<'_>,
    table: usize,
    said: &mut [Expressed],
    evict: &mut Vec<u32>,
) -> Result<u8, Refusal> {
    let model = &at.nic.tables[table].model;
    if model.mask_scope == MaskScope::Rule {
        return Ok(1);
    }
    let state = &at.state.tables[table];
    let mut scarcity = 0;
    let mut own: Vec<(Option<FlowType>, Vec<u128>)> = Vec::new();
    for one in said.iter_mut() {
        let (key, masks) = masks_of(model, one);
        let in_use = state.masks.iter().filter(|m| m.flow_type == key);
        let live = in_use.clone().find(|m| m.live > 0 && m.masks != masks);
        if let Some(live) = live {
            widen(model, one, &live.masks)?;
            continue;
        }
        if in_use.clone().any(|m| m.stale > 0 && m.masks != masks) {
            let map = &at.map;
            let other = |e: &u32| {
                let rule = &map.entries[*e].rule;
                rule.table == table
                    && state::shared_mask(model, rule).is_some_and(|(k, m)| k == key && m != masks)
            };
            evict.extend(at.stale.iter().copied().filter(other));
        }
        if !in_use.clone().any(|m| m.live > 0) {
            let wanted = state.wanted.as_ref().filter(|w| **w != masks);
            scarcity = if wanted.is_none() { 0 } else { 2 };
            // A coarser mask serves more flows, if it looks at nothing that this one leaves open.
            if let Some(coarser) = wanted
                && state.insists
            {
                widen(model, one, coarser)?;
                continue;
            }
        }
        // The flow's own rules have to agree with each other as well.
        match own.iter().find(|(k, _)| *k == key) {
            Some((_, first)) if *first != masks => return Err(Refusal::MaskConflict),
            Some(_) => {}
            None => own.push((key, masks)),
        }
    }
    Ok(scarcity)
}

fn masks_of(model: &TableModel, said: &Expressed) -> (Option<FlowType>, Vec<u128>) {
    let key = if model.mask_scope == MaskScope::Link { None } else { said.flow_type };
    (key, state::masks_with_type(model, said.flow_type, &said.conj))
}

/// The masks that a flow's first rule would have in a table where masks are shared.
pub(crate) fn masks_in(model: &TableModel, conj: &Conj) -> Option<Vec<u128>> {
    let said = express::express(model, conj, Spelling::Masks).ok()?;
    said.iter().all(|s| s.tight).then(|| masks_of(model, said.first()?).1.into()).flatten()
}

/// Whether rules of a table can say a conjunction and nothing more.
pub(crate) fn can_say(model: &TableModel, conj: &Conj) -> bool {
    express::express(model, conj, Spelling::Masks).is_ok_and(|said| said.iter().all(|s| s.tight))
}

/// Widens a rule to masks that are in use, if those look at nothing that the rule leaves open.
fn widen(model: &TableModel, said: &mut Expressed, masks: &[u128]) -> Result<(), Refusal> {
    let own = crate::config::Rule::of(model, said.flow_type, &said.conj);
    let kinds = Kinds::of_rules(model, said.flow_type);
    if model.mask_scope == MaskScope::Link
        && masks.last() != state::masks_with_type(model, said.flow_type, &said.conj).last()
    {
        return Err(Refusal::MaskConflict);
    }
    let mut wide = Conj::of_kinds(kinds);
    for ((m, key), mask) in model.matches.iter().zip(&own.keys).zip(masks) {
        if mask & !key.mask != 0 {
            return Err(Refusal::MaskConflict);
        }
        if *mask != 0 {
            wide = wide.having(Values::masked(m.field, *mask, key.value));
        }
    }
    let wide = wide.by_ports();
    said.tight = wide.implies(&said.conj);
    said.conj = wide;
    Ok(())
}

/// Checks that the rules fit, or finds stale ones that can be evicted for them.
fn make_room(
    at: &Situation<'_>,
    table: usize,
    said: &[Expressed],
    evict: &mut Vec<u32>,
) -> Result<(), Refusal> {
    let nic = at.nic;
    let (model, pool) = (&nic.tables[table].model, nic.tables[table].pool);
    let needed: u32 = said.iter().map(|s| state::cost(model, s.flow_type)).sum();
    let learned = at.state.learned.limit(table);
    let limit = model.capacity.entries.min(learned.map_or(u32::MAX, |(limit, _)| limit));
    let capacity = nic.capacity(table);
    let state = &at.state.tables[table];
    let freed = |evict: &[u32], same: bool| -> u32 {
        let rules = evict.iter().map(|e| &at.map.entries[*e].rule);
        let rules = rules
            .filter(|r| if same { r.table == table } else { nic.tables[r.table].pool == pool });
        rules.map(|r| state::cost(&nic.tables[r.table].model, r.flow_type)).sum()
    };
    loop {
        let pool_left = (capacity + freed(evict, false)).saturating_sub(at.state.taken[pool]);
        let own_left = (limit + freed(evict, true)).saturating_sub(state.rules);
        let numbers = nic.locations.map_or(u32::MAX, |n| n.saturating_add(evict.len() as u32));
        let rules = said.len() as u32;
        let numbered = numbers.saturating_sub(at.state.rules()) >= rules;
        if pool_left >= needed && own_left >= rules && numbered {
            break;
        }
        let fits = |e: &u32| {
            let rule = &at.map.entries[*e].rule;
            let right = match (own_left < rules, pool_left < needed) {
                (true, _) => rule.table == table,
                (_, true) => nic.tables[rule.table].pool == pool,
                _ => true,
            };
            right && !evict.contains(e)
        };
        let Some(next) = at.stale.iter().copied().find(fits) else {
            if pool_left >= needed && own_left >= rules {
                return Err(Refusal::NoLocation { locations: nic.locations.unwrap_or_default() });
            }
            if let Some((_, why)) = learned.filter(|_| own_left < rules) {
                return Err(Refusal::Device { why: why.into() });
            }
            return Err(Refusal::Full { needed, free: pool_left.min(own_left), capacity });
        };
        evict.push(next);
    }
    Ok(())
}

/// Gives a proposed rule its place among the rules that are there now.
///
/// # Errors
/// If the hash gives up, an earlier rule takes its packets, or no place is left.
pub(crate) fn settle(
    nic: &Nic,
    map: &mut FlowMap,
    state: &State,
    flow: u32,
    rule: &mut NewEntry,
) -> Result<(), Refusal> {
    let model = &nic.tables[rule.table].model;
    if let Some(refusal) = state.learned.objection(model, rule) {
        return Err(refusal);
    }
    let locations = state.locations(rule.table);
    let state = &state.tables[rule.table];
    if state.rows.as_ref().is_some_and(|rows| rows.find(&rule.conj).is_none()) {
        return Err(Refusal::HashFull { probes: probes(model) });
    }
    let tight = map.parts_of(flow).any(|p| rule.conj.implies(p));
    if !tight && map.catches_more_than(MOST_CAUGHT, &rule.conj) {
        return Err(Refusal::TooWide { limit: MOST_CAUGHT });
    }
    let overlapping = map.overlapping_entries(&rule.conj);
    let others = || overlapping.iter().map(|e| &map.entries[*e]);
    for other in others() {
        let within = rule.conj.implies(&other.rule.conj);
        let earlier = other.rule.table < rule.table;
        let equal = other.rule.table == rule.table && other.rule.conj.implies(&rule.conj);
        if other.fixed && within && (earlier || equal) {
            return Err(Refusal::Foreign);
        }
        let Some(owner) = other.owner.filter(|o| *o != flow) else { continue };
        let name = || map.flows.get(owner).map_or(String::new(), |m| m.flow.name.clone());
        if within && earlier {
            return Err(Refusal::Shadowed { flow: name() });
        }
        if within && equal {
            return Err(Refusal::Duplicate { flow: name() });
        }
    }
    let table = rule.table;
    order::place(model, locations, rule, others().filter(|e| e.rule.table == table))
}

fn probes(model: &TableModel) -> u32 {
    match model.fails {
        weever_graph::nic::Failure::Never => 0,
        weever_graph::nic::Failure::Hash { probes, .. } => probes,
    }
}
