//! How far the cost of our plans is above the optimum, which a branch and bound of its own finds.
//!
//! An instance is 10 to 60 flows of unequal rates (connections, some in a VLAN, prefixes of clients, and
//! services) on a NIC whose tables are too small for most of them, balanced by rate. The optimum knows no
//! oracles and no flow map: it reads fields, masks and capacities off the model, tries every shared mask, and
//! searches all assignments of flows to queues. It takes a rule for one flow where each rule has a mask of its
//! own, and a rule for all flows that a shared mask cannot tell apart. Where it has to give up it is a lower
//! bound, so the reported gap is never too small.

use std::collections::{BTreeMap, HashMap};

use weever_graph::Field;
use weever_graph::nic::{Granularity, MaskScope, TableModel};
use weever_plan::flow::{Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{Options, Search};

use super::optimum::{Assignment, Bounds, Item};
use super::quality::{Dice, NO_DEVIATION};
use crate::{BenchError, Report, Samples};

const INSTANCES: u64 = 500;
/// A gap that few plans may have.
const FAR: f64 = 0.10;

/// Adds the keys `gap_p50` and `gap_p99`.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let nics = all_models()?;
    let (mut gaps, mut of_known) = (Samples::default(), Samples::default());
    let mut by_model: BTreeMap<String, Samples> = BTreeMap::new();
    let mut below = 0;
    for seed in 1..=INSTANCES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let nic = &nics[dice.roll(nics.len() as u64) as usize];
        let instance = Instance::random(nic, &mut dice)?;
        let gap = instance.gap();
        below += u32::from(gap.below > NO_DEVIATION);
        let above = gap.above.max(0.0);
        gaps.push(above);
        by_model.entry(nic.name.clone()).or_default().push(above);
        if gap.known {
            of_known.push(above);
        }
    }
    report.setup(format!(
        "gap: {INSTANCES} random instances on {} models; the optimum is known for {}, a lower bound for the \
         others; {below} plans cost less, with rules for several flows",
        nics.len(),
        of_known.0.len()
    ));
    report.row("cost above the optimum, relative", "ratio", &gaps);
    let p99 = |of: &Samples| Samples(vec![quantile(of, 0.99)]);
    report.row("cost above an optimum that is known, p99", "ratio", &p99(&of_known));
    let most = Samples(vec![quantile(&of_known, 1.0)]);
    report.row("cost above an optimum that is known, most", "ratio", &most);
    let far = Samples(vec![gaps.0.iter().filter(|gap| **gap > FAR).count() as f64]);
    report.row("plans whose cost is more than 0.10 above", "plans", &far);
    for (model, gaps) in &by_model {
        report.row(&format!("cost above the optimum on {model}, p99"), "ratio", &p99(gaps));
    }
    for (key, share) in [("gap_p50", 0.5), ("gap_p99", 0.99)] {
        report.ratio(key, "ratio", &Samples(vec![quantile(&gaps, share)]));
    }
    Ok(())
}

fn quantile(samples: &Samples, share: f64) -> f64 {
    let mut sorted = samples.0.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(((sorted.len() - 1) as f64 * share).ceil() as usize).copied().unwrap_or_default()
}

/// Every model that ships, as Linux exposes it where that has filters.
fn all_models() -> Result<Vec<Nic>, BenchError> {
    let each = weever_models::nics().map(|name| {
        let prg = weever_models::nic(name).map_err(BenchError::of("NIC model"))?;
        let linux = Nic::linux_of(&prg).map_err(BenchError::of("NIC model"))?;
        if linux.tables.is_empty() {
            Nic::of(&prg).map_err(BenchError::of("NIC model"))
        } else {
            Ok(linux)
        }
    });
    each.collect()
}

/// A flow as masks and values of the fields that instances use.
#[derive(Clone, Debug)]
struct Demand {
    tests: Vec<(Field, u128, u128)>,
    rate: u64,
}

impl Demand {
    fn random(nth: u128, dice: &mut Dice) -> Demand {
        let full = Field::full_mask;
        let exact = |field: Field, value| (field, full(field), value);
        let (client, port) = (0x0a00_0005 | nth << 8, 20_000 + nth);
        let server = exact(Field::Ip4Dst, 0x0a01_0001);
        let connection = vec![
            exact(Field::Ip4Src, client),
            server,
            exact(Field::L4Src, port),
            exact(Field::L4Dst, 11_211),
        ];
        let tests = match dice.roll(10) {
            0..6 => connection,
            6 | 7 => connection.into_iter().chain([exact(Field::VlanId, 100)]).collect(),
            8 => vec![(Field::Ip4Src, 0xffff_ff00, client & 0xffff_ff00), server],
            _ => vec![exact(Field::Ip4Dst, 0x0a02_0000 + nth), exact(Field::L4Dst, 53)],
        };
        // A few flows have most of the packets.
        let rate = 1 + dice.roll(1000) * if dice.roll(8) == 0 { 20 } else { 1 };
        Demand { tests, rate }
    }

    fn mask(&self, field: Field) -> u128 {
        self.tests.iter().find(|t| t.0 == field).map_or(0, |t| t.1)
    }

    fn value(&self, field: Field) -> u128 {
        self.tests.iter().find(|t| t.0 == field).map_or(0, |t| t.2)
    }

    /// Whether a packet of it could be one that these tests are true of.
    fn meets(&self, rule: &[(Field, u128, u128)]) -> bool {
        rule.iter().all(|(field, mask, value)| {
            (value ^ self.value(*field)) & mask & self.mask(*field) == 0
        })
    }

    fn flow(&self, nth: usize) -> Flow {
        let udp = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, 17);
        let conj = self.tests.iter().fold(udp, |conj, (field, mask, value)| {
            conj.having(Values::masked(*field, *mask, *value))
        });
        let mut flow = Flow::of(format!("flow {nth}"), vec![conj]);
        flow.rate = Some(self.rate);
        flow
    }

    /// Whether all of it has one place in the hash's table.
    fn is_connection(&self) -> bool {
        self.mask(Field::L4Src) != 0
    }
}

struct Instance {
    nic: Nic,
    demands: Vec<Demand>,
}

impl Instance {
    fn random(nic: &Nic, dice: &mut Dice) -> Result<Instance, BenchError> {
        let mut nic = nic.with_queues(2 + dice.roll(7) as u32).map_err(BenchError::of("queues"))?;
        let flows = 10 + dice.roll(51);
        for table in &mut nic.tables {
            let entries = (flows * (3 + dice.roll(8)) / 10) as u32;
            table.model.capacity.entries = table.model.capacity.entries.min(entries);
        }
        let demands = (0..flows).map(|i| Demand::random(u128::from(i), dice)).collect();
        Ok(Instance { nic, demands })
    }

    /// The relative gap, and whether the optimum is known.
    fn gap(&self) -> Gap {
        let balance = Balance::new(Measure::Rate { assumed: 1 });
        let mut search = Search::new(self.nic.clone(), Box::new(balance), Options::default());
        search.run(self.demands.iter().enumerate().map(|(i, d)| d.flow(i)).collect());
        let ours = search.cost().value;
        let best = self.optimum();
        // Costs below the floor count as that: the quotient of two plans that are both as good as level says nothing.
        let above = |bound: f64| ours.max(self.floor()) / bound.max(self.floor()) - 1.0;
        Gap { above: above(best.lower), below: -above(best.upper), known: best.lower == best.upper }
    }

    /// The cost of queues that deviate from the mean by [`NO_DEVIATION`].
    fn floor(&self) -> f64 {
        let queues = f64::from(self.nic.queues.count());
        let mean = self.demands.iter().map(|d| d.rate as f64).sum::<f64>() / queues;
        (NO_DEVIATION * mean).powi(2)
    }

    fn optimum(&self) -> Bounds {
        let mut tables = self.nic.tables.iter();
        let shared = tables.position(|t| t.model.mask_scope != MaskScope::Rule);
        let options = match shared {
            Some(table) => masks(&self.nic.tables[table].model, &self.demands),
            None => vec![Vec::new()],
        };
        let mut best = Bounds { lower: f64::MAX, upper: f64::MAX };
        for option in options {
            let items = match shared {
                Some(table) => self.groups(table, &option),
                None => {
                    self.demands.iter().map(|d| Item::of([d], self.pools_for(d, None))).collect()
                }
            };
            let found = self.assign(items, best.upper);
            let (lower, upper) = (best.lower.min(found.lower), best.upper.min(found.upper));
            best = Bounds { lower, upper };
        }
        best
    }

    /// The pools of the tables that have a rule for this flow and for no other; without the table of which
    /// the rules share a mask.
    fn pools_for(&self, demand: &Demand, shared: Option<usize>) -> u32 {
        let own = |table: &usize| {
            let rule = rule_for(&self.nic.tables[*table].model, demand);
            rule.is_some_and(|rule| self.demands.iter().filter(|d| d.meets(&rule)).count() == 1)
        };
        let tables = (0..self.nic.tables.len()).filter(|t| Some(*t) != shared).filter(own);
        tables.map(|t| 1 << self.nic.tables[t].pool).sum()
    }

    /// The flows that rules of one mask can tell from others, together with those that they cannot.
    fn groups(&self, table: usize, option: &[(Field, u128)]) -> Vec<Item> {
        let (model, pool) = (&self.nic.tables[table].model, 1 << self.nic.tables[table].pool);
        let mut groups: HashMap<Vec<u128>, Vec<&Demand>> = HashMap::new();
        let mut items = Vec::new();
        for demand in &self.demands {
            let within = option.iter().all(|(field, mask)| mask & !demand.mask(*field) == 0);
            if within && has_type(model) && option.iter().any(|(_, mask)| *mask != 0) {
                let key = option.iter().map(|(field, mask)| demand.value(*field) & mask).collect();
                groups.entry(key).or_default().push(demand);
            } else {
                items.push(Item::of([demand], self.pools_for(demand, Some(table))));
            }
        }
        items.extend(groups.into_values().map(|group| {
            let alone = if group.len() == 1 { self.pools_for(group[0], Some(table)) } else { 0 };
            Item::of(group, pool | alone)
        }));
        items
    }

    /// The least cost, if it is below `known`.
    fn assign(&self, items: Vec<Item>, known: f64) -> Bounds {
        let room: Vec<u32> = (0..self.nic.tables.len()).map(|i| self.nic.capacity(i)).collect();
        let most = self.nic.locations.unwrap_or(u32::MAX);
        Assignment::new(items, self.spread(), &room, most, self.floor()).solve(known)
    }

    /// The share of each queue of packets that are hashed.
    fn spread(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.nic.queues.count() as usize];
        match &self.nic.rss {
            Some(rss) => {
                let reach = (rss.queues.hi - rss.queues.lo + 1).min(shares.len() as u32);
                (0..rss.entries)
                    .for_each(|i| shares[(i % reach) as usize] += 1.0 / f64::from(rss.entries));
            }
            None => shares[(self.nic.default_queue - self.nic.queues.lo) as usize] = 1.0,
        }
        shares
    }
}

/// A plan's cost beside the optimum, relative.
struct Gap {
    /// How far it is above the optimum, or above what is known to be below that.
    above: f64,
    /// How far it is below: by rules for several flows, which the optimum does not know.
    below: f64,
    known: bool,
}

fn has_type(table: &TableModel) -> bool {
    let udp = weever_graph::nic::FlowType::Udp4;
    table.flow_types.is_empty() || table.flow_types.contains(&udp)
}

/// The tests of the narrowest rule that the table has for a flow. Fields that it cannot test are left out.
fn rule_for(table: &TableModel, demand: &Demand) -> Option<Vec<(Field, u128, u128)>> {
    let mut rule = Vec::new();
    for m in &table.matches {
        let known = matches!(m.field, Field::EthType | Field::Ip4Proto);
        let mask = demand.mask(m.field);
        let says = matches!(m.granularity, Granularity::Bits | Granularity::Prefix);
        match mask != 0 && (says || mask == m.field.full_mask()) {
            true => rule.push((m.field, mask, demand.value(m.field))),
            false if m.granularity == Granularity::Exact && !known => return None,
            false => {}
        }
    }
    (has_type(table) && !rule.is_empty()).then_some(rule)
}

/// Every mask that rules can share: each field as one of the flows tests it, or not at all.
fn masks(table: &TableModel, demands: &[Demand]) -> Vec<Vec<(Field, u128)>> {
    let mut all: Vec<Vec<(Field, u128)>> = vec![Vec::new()];
    for m in &table.matches {
        let mut choices: Vec<u128> = demands.iter().map(|d| d.mask(m.field)).collect();
        choices.push(0);
        let bits = matches!(m.granularity, Granularity::Bits | Granularity::Prefix);
        choices.retain(|mask| bits || *mask == 0 || *mask == m.field.full_mask());
        choices.sort_unstable();
        choices.dedup();
        let longer = all.iter().flat_map(|masks| {
            choices.iter().map(|c| masks.iter().copied().chain([(m.field, *c)]).collect())
        });
        all = longer.collect();
    }
    all
}

impl Item {
    fn of<'a>(demands: impl IntoIterator<Item = &'a Demand>, pools: u32) -> Item {
        let mut item = Item { pools, ..Item::default() };
        for demand in demands {
            let rate = demand.rate as f64;
            item.weight += rate;
            item.doubt += if demand.is_connection() { rate * rate } else { 0.0 };
        }
        item
    }
}
