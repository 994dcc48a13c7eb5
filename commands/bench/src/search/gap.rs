//! How far the cost of our plans is above the optimum, which a branch and bound of its own finds.
//!
//! An instance is 10 to 60 flows of unequal rates (connections, some in a VLAN, prefixes of clients, and
//! services) on a NIC whose tables are too small for most of them, balanced by rate. The optimum knows no
//! oracles and no flow map: it reads fields, masks and capacities off the model, tries every shared mask, and
//! searches all assignments of flows to queues. It takes a rule for one flow where each rule has a mask of its
//! own, and a rule for all flows that a shared mask cannot tell apart. Where it has to give up it is a lower
//! bound, so the reported gap is never too small.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use weever_graph::Field;
use weever_graph::nic::{Granularity, MaskScope, TableModel};
use weever_plan::flow::{Conj, Flow, Values};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{Options, Search};

use super::quality::Dice;
use crate::{BenchError, Report, Samples};

const INSTANCES: u64 = 500;
/// Partial assignments that are continued for one mask, at most.
const MOST_NODES: u32 = 1_000;
/// Deviations from the mean load that count as none, as a share of it. Without a floor the gap to a
/// perfect split of numbers would have no bound.
const NO_DEVIATION: f64 = 0.01;

/// Adds the keys `gap_p50` and `gap_p99`.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    let nics = all_models()?;
    let mut gaps = Samples::default();
    let mut proven = 0;
    for seed in 1..=INSTANCES {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let nic = &nics[dice.roll(nics.len() as u64) as usize];
        let instance = Instance::random(nic, &mut dice)?;
        let (gap, exact) = instance.gap();
        proven += u32::from(exact);
        gaps.push(gap);
    }
    report.setup(format!(
        "gap: {INSTANCES} random instances on {} models; the optimum is proven for {proven}, a lower bound for \
         the others",
        nics.len()
    ));
    report.row("cost above the optimum, relative", "ratio", &gaps);
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

    /// The relative gap, and whether the optimum is proven.
    fn gap(&self) -> (f64, bool) {
        let balance = Balance::new(Measure::Rate { assumed: 1 });
        let mut search = Search::new(self.nic.clone(), Box::new(balance), Options::default());
        search.run(self.demands.iter().enumerate().map(|(i, d)| d.flow(i)).collect());
        let ours = search.cost().value;
        let best = self.optimum();
        let queues = f64::from(self.nic.queues.count());
        let mean = self.demands.iter().map(|d| d.rate as f64).sum::<f64>() / queues;
        let floor = (NO_DEVIATION * mean).powi(2);
        (((ours - best.cost) / best.cost.max(floor)).max(0.0), best.proven)
    }

    fn optimum(&self) -> Optimum {
        let shared = self.nic.tables.iter().find(|t| t.model.mask_scope != MaskScope::Rule);
        let options = match shared {
            Some(table) => masks(&table.model, &self.demands),
            None => vec![Vec::new()],
        };
        let mut best = Optimum { cost: f64::MAX, proven: true };
        for option in options {
            let items = match shared {
                Some(table) => self.groups(&table.model, &option),
                None => self.singles(),
            };
            let found = self.assign(items, best.cost);
            best = Optimum { cost: best.cost.min(found.cost), proven: best.proven && found.proven };
        }
        best
    }

    /// Each flow by itself, with the tables that can say it.
    fn singles(&self) -> Vec<Item> {
        let says = |d: &Demand| {
            self.nic
                .tables
                .iter()
                .enumerate()
                .filter(|(_, t)| says(&t.model, d))
                .map(|(i, _)| i)
                .collect()
        };
        self.demands.iter().map(|d| Item::of([d], says(d))).collect()
    }

    /// The flows that rules of one mask can tell from others, together with those that they cannot.
    fn groups(&self, table: &TableModel, option: &[(Field, u128)]) -> Vec<Item> {
        let mut groups: HashMap<Vec<u128>, Vec<&Demand>> = HashMap::new();
        let mut items = Vec::new();
        for demand in &self.demands {
            let within = option.iter().all(|(field, mask)| mask & !demand.mask(*field) == 0);
            if within && has_type(table) && option.iter().any(|(_, mask)| *mask != 0) {
                let value = |field| demand.tests.iter().find(|t| t.0 == field).map_or(0, |t| t.2);
                let key = option.iter().map(|(field, mask)| value(*field) & mask).collect();
                groups.entry(key).or_default().push(demand);
            } else {
                items.push(Item::of([demand], Vec::new()));
            }
        }
        items.extend(groups.into_values().map(|group| Item::of(group, vec![0])));
        items
    }

    /// The least cost, if it is below `known`.
    fn assign(&self, mut items: Vec<Item>, known: f64) -> Optimum {
        items.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let mut room: Vec<u32> = (0..self.nic.tables.len()).map(|i| self.nic.capacity(i)).collect();
        // Tables of one pool take entries from the first of them.
        let pool: Vec<usize> = self.nic.tables.iter().map(|t| t.pool).collect();
        for item in &mut items {
            item.tables.iter_mut().for_each(|t| *t = pool[*t]);
            item.tables.dedup();
        }
        if let Some(locations) = self.nic.locations {
            room.iter_mut().for_each(|r| *r = (*r).min(locations));
        }
        // Room in tables that none of the flows can use is no room.
        let used = |table: usize| items.iter().any(|i| i.tables.contains(&table));
        room.iter_mut().enumerate().filter(|(table, _)| !used(*table)).for_each(|(_, r)| *r = 0);
        Assignment::new(items, self.spread()).run(room, known)
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

fn has_type(table: &TableModel) -> bool {
    let udp = weever_graph::nic::FlowType::Udp4;
    table.flow_types.is_empty() || table.flow_types.contains(&udp)
}

/// Whether one rule of the table matches exactly this flow.
fn says(table: &TableModel, demand: &Demand) -> bool {
    let granularity =
        |field| table.matches.iter().find(|m| m.field == field).map(|m| m.granularity);
    let tested = demand.tests.iter().all(|(field, mask, _)| match granularity(*field) {
        Some(Granularity::Bits | Granularity::Prefix) => true,
        Some(_) => *mask == field.full_mask(),
        None => false,
    });
    let exact = table.matches.iter().filter(|m| m.granularity == Granularity::Exact);
    has_type(table) && tested && exact.into_iter().all(|m| demand.mask(m.field) != 0)
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

/// Flows that go to a queue together, or are hashed.
struct Item {
    weight: f64,
    /// The variance that hashing them adds, as a multiple of that of a flow of weight 1.
    doubt: f64,
    /// The tables, by their pools, that have a rule for them.
    tables: Vec<usize>,
}

impl Item {
    fn of<'a>(demands: impl IntoIterator<Item = &'a Demand>, tables: Vec<usize>) -> Item {
        let mut item = Item { weight: 0.0, doubt: 0.0, tables };
        for demand in demands {
            let rate = demand.rate as f64;
            item.weight += rate;
            item.doubt += if demand.is_connection() { rate * rate } else { 0.0 };
        }
        item
    }
}

/// The least cost, or a bound below it.
struct Optimum {
    cost: f64,
    proven: bool,
}

/// The assignment of items to queues. The heaviest items are decided first; of all partial assignments, the
/// one with the least bound is continued.
struct Assignment {
    items: Vec<Item>,
    spread: Vec<f64>,
    /// The variance of hashing a flow of weight 1.
    unit: f64,
    total: f64,
    /// The weight from each item on.
    rest: Vec<f64>,
    /// The least cost that was found.
    best: f64,
    /// Costs this close to the bound are the optimum.
    slack: f64,
}

/// The first `at` items are assigned.
#[derive(Clone)]
struct Partial {
    at: usize,
    bound: f64,
    loads: Vec<f64>,
    doubt: f64,
    room: Vec<u32>,
}

impl Assignment {
    fn new(items: Vec<Item>, spread: Vec<f64>) -> Assignment {
        let total: f64 = items.iter().map(|i| i.weight).sum();
        let mut rest = vec![0.0; items.len() + 1];
        for i in (0..items.len()).rev() {
            rest[i] = rest[i + 1] + items[i].weight;
        }
        let unit = spread.iter().map(|s| s * (1.0 - s)).sum();
        let slack = (NO_DEVIATION * total / spread.len() as f64).powi(2) * 0.001;
        Assignment { items, spread, unit, total, rest, best: f64::MAX, slack }
    }

    fn run(mut self, room: Vec<u32>, known: f64) -> Optimum {
        self.best = known;
        let loads = vec![0.0; self.spread.len()];
        let mut root = Partial { at: 0, bound: 0.0, loads, doubt: 0.0, room };
        root.bound = self.bound(&root);
        let mut open = BinaryHeap::from([root]);
        for _ in 0..MOST_NODES {
            let Some(next) = open.pop() else { return Optimum { cost: self.best, proven: true } };
            if next.bound + self.slack >= self.best {
                return Optimum { cost: self.best, proven: true };
            }
            self.complete(next.clone());
            if next.at < self.items.len() {
                open.extend(self.continued(&next).filter(|p| p.bound + self.slack < self.best));
            }
        }
        let bound = open.peek().map_or(self.best, |p| p.bound.min(self.best));
        Optimum { cost: bound, proven: false }
    }

    fn cost_of(&self, squares: f64, doubt: f64) -> f64 {
        let n = self.spread.len() as f64;
        ((squares + doubt) / n - (self.total / n).powi(2)).max(0.0)
    }

    /// No completion costs less: the rest is a fluid that fills the lowest queues, and as many of the
    /// most doubtful items as have room are steered.
    fn bound(&self, partial: &Partial) -> f64 {
        let mut levels = partial.loads.clone();
        levels.sort_unstable_by(f64::total_cmp);
        let (mut fluid, mut low) = (self.rest[partial.at], 1);
        while low < levels.len() && fluid > (levels[low] - levels[low - 1]) * low as f64 {
            fluid -= (levels[low] - levels[low - 1]) * low as f64;
            low += 1;
        }
        let level = levels[low - 1] + fluid / low as f64;
        let squares: f64 = levels.iter().map(|l| l.max(level).powi(2)).sum();
        let room: u32 = partial.room.iter().sum();
        let items = &self.items[partial.at..];
        let open: f64 = items.iter().filter(|i| i.tables.is_empty()).map(|i| i.doubt).sum();
        let mut doubts: Vec<f64> =
            items.iter().filter(|i| !i.tables.is_empty()).map(|i| i.doubt).collect();
        doubts.sort_unstable_by(|a, b| b.total_cmp(a));
        let left: f64 = doubts.iter().skip(room as usize).sum();
        self.cost_of(squares, partial.doubt + (open + left) * self.unit)
    }

    /// The same with one more item assigned: to each queue, or hashed.
    fn continued(&self, from: &Partial) -> impl Iterator<Item = Partial> {
        let mut all = vec![self.hashed(from)];
        let even = self.spread.iter().all(|s| *s == self.spread[0]);
        for queue in 0..from.loads.len() {
            // Queues that have equal loads, and equal shares of the hash, are interchangeable.
            let same = |q: &f64| even && *q == from.loads[queue];
            if !from.loads[..queue].iter().any(same) {
                all.extend(self.steered(from, queue));
            }
        }
        all.into_iter()
    }

    fn hashed(&self, from: &Partial) -> Partial {
        let item = &self.items[from.at];
        let mut next = Partial { at: from.at + 1, ..from.clone() };
        let loads = next.loads.iter_mut().zip(&self.spread);
        loads.for_each(|(load, share)| *load += item.weight * share);
        next.doubt += item.doubt * self.unit;
        next.bound = self.bound(&next);
        next
    }

    fn steered(&self, from: &Partial, queue: usize) -> Option<Partial> {
        let item = &self.items[from.at];
        let table = *item.tables.iter().find(|t| from.room[**t] > 0)?;
        let mut next = Partial { at: from.at + 1, ..from.clone() };
        next.room[table] -= 1;
        next.loads[queue] += item.weight;
        next.bound = self.bound(&next);
        Some(next)
    }

    /// A complete assignment: each item goes where the bound rises least.
    fn complete(&mut self, mut partial: Partial) {
        while partial.at < self.items.len() && partial.bound < self.best {
            let lowest = (0..partial.loads.len())
                .min_by(|a, b| partial.loads[*a].total_cmp(&partial.loads[*b]))
                .unwrap_or_default();
            let hashed = self.hashed(&partial);
            let steered = self.steered(&partial, lowest);
            partial = steered.filter(|s| s.bound <= hashed.bound).unwrap_or(hashed);
        }
        if partial.at == self.items.len() {
            self.best = self.best.min(partial.bound);
        }
    }
}

/// The least bound is the greatest, as the heap wants it; of equals the longest assignment.
impl Ord for Partial {
    fn cmp(&self, other: &Partial) -> Ordering {
        other.bound.total_cmp(&self.bound).then(self.at.cmp(&other.at))
    }
}

impl PartialOrd for Partial {
    fn partial_cmp(&self, other: &Partial) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Partial {}
