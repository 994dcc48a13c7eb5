//! Sorting received frames into software queues by filters: the `xdp` model's steering.
//!
//! A [`Classifier`] is a program and its maps. [Exact](Classifier::insert) filters, and all that
//! differ in values only, share a hash map: one is added or removed by one update of the map, while
//! the program runs. Filters with ranges, or that have to be asked in an order, are compiled into
//! the program as a tree ([`Classifier::set_ordered`]); the program is exchanged at once then, and
//! no frame is lost.
//!
//! A frame goes by the first of these that matches: the maps, the one that looks at most bits
//! first; the ordered filters in their order; the [`Fallback`].

mod exact;
mod layout;
mod parse;
mod program;
mod rule;
mod sample;
mod sockets;
mod tree;

use exact::{ExactTable, signature};
use layout::masked;
use program::{Parts, SPREAD_BITS};
use rule::setting;
pub use rule::{Field, Rule, Target, Test};
pub use sample::MissedFlow;
use sample::Sampling;

use std::sync::Arc;

use super::Gate;
use crate::sys::{AttachMode, BpfError, Map, MapKind, XdpLink, XdpProgram};

/// How many maps a frame is looked up in at most. Each costs a lookup, some 25 ns.
pub const MOST_MASKS: usize = 16;
/// How many ordered filters a program may have: its jumps reach 32,767 instructions far, and a
/// filter is some 15 of them, more with copies in the tree.
pub const MOST_ORDERED: usize = 1024;
/// Places of the spreading table.
pub const SPREAD: usize = 1 << SPREAD_BITS;

/// Where a frame that goes to a queue goes.
#[derive(Debug)]
pub enum Sink {
    /// To the AF_XDP socket of (hardware queue, software queue): the map's entry at hardware queue
    /// times `queues` plus software queue. A frame for which there is none goes to the kernel.
    Sockets {
        /// An [`MapKind::XskMap`].
        map: Map,
        /// How many software queues there are.
        queues: u32,
    },
    /// To the CPU of the queue's number, where the kernel's stack takes it: an
    /// [`MapKind::CpuMap`].
    Cpus(Map),
    /// Nowhere: it is counted and dropped, for measurements.
    Count,
}

/// Where a frame that no filter matches goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// All to one target.
    To(Target),
    /// To the software queue with the number of the hardware queue on which it arrived.
    Arrival,
    /// To the queue in the place that a hash over addresses and ports numbers; there are
    /// [`SPREAD`] places, which the list fills again and again.
    Spread(Vec<u32>),
}

/// A loaded classifier.
#[derive(Debug)]
pub struct Classifier {
    gate: Option<Arc<Gate>>,
    capacity: u32,
    exact: Vec<ExactTable>,
    ordered: Vec<Rule>,
    ordered_hits: Option<Map>,
    sink: Sink,
    fallback: Fallback,
    spread: Map,
    missed: Map,
    sampling: Option<Sampling>,
    program: XdpProgram,
    link: Option<XdpLink>,
}

impl Classifier {
    /// Loads a program without filters. Each of its maps takes up to `capacity` filters.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_BPF and CAP_NET_ADMIN; [`BpfError::Setting`] for a
    /// capacity of 0 or an empty list to spread over.
    pub fn load(sink: Sink, fallback: Fallback, capacity: u32) -> Result<Classifier, BpfError> {
        Classifier::behind(None, sink, fallback, capacity)
    }

    /// The same for what `gate` lets in; the kernel gets the rest. Only then is counted how many
    /// frames went to sockets and to the kernel.
    ///
    /// # Errors
    /// As [`Classifier::load`].
    pub fn load_behind(
        gate: Arc<Gate>,
        sink: Sink,
        fallback: Fallback,
        capacity: u32,
    ) -> Result<Classifier, BpfError> {
        Classifier::behind(Some(gate), sink, fallback, capacity)
    }

    fn behind(
        gate: Option<Arc<Gate>>,
        sink: Sink,
        fallback: Fallback,
        capacity: u32,
    ) -> Result<Classifier, BpfError> {
        if capacity == 0 {
            return setting("a classifier for no filters: give a capacity of 1 or more");
        }
        let spread = Map::create(MapKind::Array, "weever_spread", 4, 4 * SPREAD as u32, 1)?;
        let missed = Map::create(MapKind::Array, "weever_missed", 4, 8, 1)?;
        write_spread(&spread, &fallback)?;
        let parts = Parts {
            gate: gate.as_deref(),
            exact: &[],
            ordered: &[],
            ordered_hits: None,
            sink: &sink,
            fallback: &fallback,
            spread: &spread,
            missed: &missed,
            sampling: None,
        };
        let program = XdpProgram::load("weever_sort", &program::emit(&parts)?)?;
        let (exact, ordered) = (Vec::new(), Vec::new());
        Ok(Classifier {
            gate,
            capacity,
            exact,
            ordered,
            ordered_hits: None,
            sink,
            fallback,
            spread,
            missed,
            sampling: None,
            program,
            link: None,
        })
    }

    /// Attaches the program to an interface; it stays until the classifier is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        self.link = Some(XdpLink::attach(&self.program, ifindex)?);
        Ok(())
    }

    /// Adds a filter without ranges, or gives the one with the same tests another target. Says
    /// whether the program had to be exchanged, which happens when no filter looked at the same
    /// bits so far. Everything that was added before stays in force meanwhile.
    ///
    /// # Errors
    /// [`BpfError::Setting`]: the rule is no rule or has a range, or there is no room for it;
    /// nothing has changed then.
    pub fn insert(&mut self, rule: &Rule) -> Result<bool, BpfError> {
        rule.check()?;
        let Some(masked) = masked(rule) else {
            return setting("a filter with a range: it belongs to the ordered ones");
        };
        let wanted = signature(&masked);
        if let Some(table) = self.exact.iter_mut().find(|t| t.signature == wanted) {
            table.insert(&masked, rule)?;
            return Ok(false);
        }
        let mut table = ExactTable::new(wanted, self.capacity)?;
        table.insert(&masked, rule)?;
        self.add_table(table)?;
        Ok(true)
    }

    fn add_table(&mut self, table: ExactTable) -> Result<(), BpfError> {
        if let Some(empty) = self.exact.iter().position(|table| table.entries == 0) {
            self.exact.remove(empty);
        }
        if self.exact.len() == MOST_MASKS {
            return setting(format!(
                "{MOST_MASKS} sets of masks are in use: give filters masks in common"
            ));
        }
        let specificity = table.specificity();
        let at = self.exact.partition_point(|other| other.specificity() >= specificity);
        self.exact.insert(at, table);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.exact.remove(at);
        }
        exchanged
    }

    /// Removes a filter that was [inserted](Self::insert), and says whether it was there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn remove(&mut self, rule: &Rule) -> Result<bool, BpfError> {
        let Some((masked, at)) = self.find(rule) else { return Ok(false) };
        self.exact[at].remove(&masked)
    }

    fn find(&self, rule: &Rule) -> Option<(Vec<layout::Masked>, usize)> {
        let masked = masked(rule)?;
        let wanted = signature(&masked);
        let at = self.exact.iter().position(|table| table.signature == wanted)?;
        Some((masked, at))
    }

    /// Sets all ordered filters; the first that matches wins. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`]: one of them is no rule, or there are too many.
    /// [`BpfError::Assemble`] if the program becomes too long. Nothing has changed then.
    pub fn set_ordered(&mut self, rules: Vec<Rule>) -> Result<(), BpfError> {
        if rules.len() > MOST_ORDERED {
            let count = rules.len();
            return setting(format!("{count} ordered filters: {MOST_ORDERED} are the most"));
        }
        rules.iter().try_for_each(Rule::check)?;
        let before = (std::mem::replace(&mut self.ordered, rules), self.ordered_hits.take());
        let exchanged = self.make_ordered_hits().and_then(|()| self.exchange());
        if exchanged.is_err() {
            (self.ordered, self.ordered_hits) = before;
        }
        exchanged
    }

    fn make_ordered_hits(&mut self) -> Result<(), BpfError> {
        let size = 8 * self.ordered.len() as u32;
        if size > 0 {
            self.ordered_hits = Some(Map::create(MapKind::Array, "weever_hits", 4, size, 1)?);
        }
        Ok(())
    }

    /// Changes where a frame goes that no filter matches. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] for an empty list to spread over; nothing has changed then.
    pub fn set_fallback(&mut self, fallback: Fallback) -> Result<(), BpfError> {
        write_spread(&self.spread, &fallback)?;
        let before = std::mem::replace(&mut self.fallback, fallback);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.fallback = before;
        }
        exchanged
    }

    /// Counts the flows of frames that no filter matches, of one in `every` such frames: those of
    /// the `entries` flows that were seen last. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless `every` is a power of two and `entries` is not 0; nothing has
    /// changed then.
    pub fn sample(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?)
    }

    /// As [`sample`](Self::sample), and also counts the flows of frames that match a filter which
    /// looks at less than addresses and ports: flows within a wider one.
    ///
    /// # Errors
    /// As there.
    pub fn sample_within_filters(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?.within_filters())
    }

    fn sample_by(&mut self, sampling: Sampling) -> Result<(), BpfError> {
        let before = self.sampling.replace(sampling);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.sampling = before;
        }
        exchanged
    }

    /// Takes out what was [counted](Self::sample) since this was called last, and says how many
    /// flows that were. Nothing if no flows are counted.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn take_missed(&self, take: impl FnMut(MissedFlow)) -> Result<usize, BpfError> {
        self.sampling.as_ref().map_or(Ok(0), |sampling| sampling.take(take))
    }

    fn exchange(&mut self) -> Result<(), BpfError> {
        let parts = Parts {
            gate: self.gate.as_deref(),
            exact: &self.exact,
            ordered: &self.ordered,
            ordered_hits: self.ordered_hits.as_ref(),
            sink: &self.sink,
            fallback: &self.fallback,
            spread: &self.spread,
            missed: &self.missed,
            sampling: self.sampling.as_ref(),
        };
        let program = XdpProgram::load("weever_sort", &program::emit(&parts)?)?;
        if let Some(link) = &self.link {
            link.replace(&program)?;
        }
        self.program = program;
        Ok(())
    }

    /// Where frames go that no filter matches.
    pub fn fallback(&self) -> &Fallback {
        &self.fallback
    }

    /// How often an inserted filter was hit; `None` if it is not there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn hits(&self, rule: &Rule) -> Result<Option<u64>, BpfError> {
        match self.find(rule) {
            Some((masked, at)) => self.exact[at].hits(&masked),
            None => Ok(None),
        }
    }

    /// How often each ordered filter was hit since they were set, in their order.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn ordered_hits(&self) -> Result<Vec<u64>, BpfError> {
        let Some(hits) = &self.ordered_hits else { return Ok(Vec::new()) };
        numbers(hits)
    }

    /// How many frames no filter matched.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn missed(&self) -> Result<u64, BpfError> {
        Ok(numbers(&self.missed)?.first().copied().unwrap_or_default())
    }

    /// As [`attach`](Self::attach), in the given mode only.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach_in(&mut self, ifindex: u32, mode: AttachMode) -> Result<(), BpfError> {
        self.link = Some(XdpLink::attach_in(&self.program, ifindex, mode)?);
        Ok(())
    }

    /// How the program is attached, if it is.
    pub fn mode(&self) -> Option<AttachMode> {
        self.link.as_ref().map(XdpLink::mode)
    }

    /// Which frames it gets, unless all.
    pub fn gate(&self) -> Option<&Arc<Gate>> {
        self.gate.as_ref()
    }

    /// Where frames go that go to a queue.
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// The loaded program.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }

    /// How many filters each map has, in the order in which they are asked.
    pub fn tables(&self) -> Vec<u32> {
        self.exact.iter().map(|table| table.entries).collect()
    }
}

fn numbers(map: &Map) -> Result<Vec<u64>, BpfError> {
    let mut values = vec![0; map.exchange_size()];
    map.lookup(&0u32.to_ne_bytes(), &mut values)?;
    Ok(values.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

fn write_spread(map: &Map, fallback: &Fallback) -> Result<(), BpfError> {
    let Fallback::Spread(queues) = fallback else { return Ok(()) };
    if queues.is_empty() {
        return setting("no queue to spread over: name one");
    }
    if let Some(queue) = queues.iter().find(|queue| **queue > layout::LAST_QUEUE) {
        return setting(format!("queue {queue}: the last one is {}", layout::LAST_QUEUE));
    }
    let places = queues.iter().cycle().take(SPREAD);
    let value: Vec<u8> = places.flat_map(|queue| queue.to_ne_bytes()).collect();
    map.update(&0u32.to_ne_bytes(), &value)
}
