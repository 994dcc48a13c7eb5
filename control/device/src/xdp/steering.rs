//! A plan, carried out and kept up to date.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_ebpf::sys::{AttachMode, BpfError};
use weever_ebpf::xdp::classify::{self, Classifier, Fallback, Sink, Target, Test};
use weever_graph::nic::TableOrder;
use weever_plan::config::{self, Rss, Rule};
use weever_plan::nic::Nic;
use weever_plan::search::{DeviceChange, RuleId, Search};
use weever_plan::watch::FiveTuple;

use super::rules::{tests, tuple};
use super::{XdpError, cpu_map};

/// What [`XdpSteering::apply`] did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many rules are new.
    pub inserted: usize,
    /// How many are gone.
    pub removed: usize,
    /// How many send their packets elsewhere.
    pub retargeted: usize,
    /// Whether the program was exchanged; otherwise only its maps changed.
    pub exchanged: bool,
    /// Rules that are not carried out, and why. Their packets go as if there were no such rule.
    pub failed: Vec<(RuleId, XdpError)>,
}

/// How often a search is told what the program does not take before the rest is left.
const MOST_REPLANS: usize = 16;

impl Outcome {
    fn add(&mut self, mut other: Outcome) {
        self.inserted += other.inserted;
        self.removed += other.removed;
        self.retargeted += other.retargeted;
        self.exchanged |= other.exchanged;
        self.failed.append(&mut other.failed);
    }
}

/// A rule that is carried out by an entry of a map.
#[derive(Debug)]
struct Exact {
    rule: classify::Rule,
    /// Hits that its entry no longer counts.
    before: u64,
}

/// A rule that is carried out by the program itself.
#[derive(Debug)]
struct Ordered {
    id: RuleId,
    /// Table and rank: the lowest wins, then the earlier rule.
    rank: (usize, i64),
    rule: classify::Rule,
    before: u64,
}

/// A plan that a program carries out.
#[derive(Debug)]
pub struct XdpSteering {
    classifier: Arc<Mutex<Classifier>>,
    nic: Nic,
    /// What the sink knows each queue as.
    targets: Vec<u32>,
    exact: BTreeMap<RuleId, Exact>,
    by_tests: HashMap<Vec<Test>, RuleId>,
    ordered: Vec<Ordered>,
    told: HashMap<RuleId, u64>,
    /// Hits of rules that are gone.
    retired: u64,
}

impl XdpSteering {
    /// Loads a program whose queues are CPUs, on which the kernel's stack takes the frames: queue
    /// `i` is `cpus[i]`, and when there are more queues than CPUs they begin again. What no rule
    /// takes is spread as `rss` says. Each map has room for `capacity` rules.
    ///
    /// # Errors
    /// [`XdpError`]; without CAP_BPF and CAP_NET_ADMIN it says so.
    pub fn onto_cpus(
        nic: &Nic,
        rss: &Rss,
        cpus: &[u32],
        capacity: u32,
    ) -> Result<XdpSteering, XdpError> {
        let sink = Sink::Cpus(cpu_map(cpus)?);
        let queues = nic.queues.hi as usize + 1;
        let targets = cpus.iter().copied().cycle().take(queues).collect();
        XdpSteering::new(nic, rss, sink, targets, capacity)
    }

    /// Loads a program for any sink, which knows queue `i` as `targets[i]`.
    ///
    /// # Errors
    /// As [`XdpSteering::onto_cpus`].
    pub fn new(
        nic: &Nic,
        rss: &Rss,
        sink: Sink,
        targets: Vec<u32>,
        capacity: u32,
    ) -> Result<XdpSteering, XdpError> {
        let fallback = fallback(nic, rss, &targets)?;
        let classifier = Classifier::load(sink, fallback, capacity)?;
        Ok(XdpSteering::with(Arc::new(Mutex::new(classifier)), nic, targets))
    }

    /// Takes a program that somebody else has loaded and attached, for instance for a link with
    /// several sockets on each device queue; queue `i` is its software queue `i`. Filters that it has
    /// stay.
    ///
    /// # Errors
    /// [`XdpError`] if it does not take the spreading.
    pub fn of(
        classifier: Arc<Mutex<Classifier>>,
        nic: &Nic,
        rss: &Rss,
    ) -> Result<XdpSteering, XdpError> {
        let mut steering = XdpSteering::with(classifier, nic, (0..=nic.queues.hi).collect());
        steering.set_rss(rss)?;
        Ok(steering)
    }

    fn with(classifier: Arc<Mutex<Classifier>>, nic: &Nic, targets: Vec<u32>) -> XdpSteering {
        XdpSteering {
            classifier,
            nic: nic.clone(),
            targets,
            exact: BTreeMap::new(),
            by_tests: HashMap::new(),
            ordered: Vec::new(),
            told: HashMap::new(),
            retired: 0,
        }
    }

    /// A classifier is whole after each of its calls, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Classifier> {
        self.classifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the program to an interface, until this is dropped or the process ends.
    ///
    /// # Errors
    /// [`XdpError::Bpf`] with the kernel's reason.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), XdpError> {
        Ok(self.lock().attach(ifindex)?)
    }

    /// Spreads what no rule takes differently from now on.
    ///
    /// # Errors
    /// [`XdpError`]; nothing has changed then.
    pub fn set_rss(&mut self, rss: &Rss) -> Result<(), XdpError> {
        let fallback = fallback(&self.nic, rss, &self.targets)?;
        Ok(self.lock().set_fallback(fallback)?)
    }

    /// Has the program count the flows that no rule takes ([`Classifier::sample`]).
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn sample(&mut self, flows: u32, every: u32) -> Result<(), XdpError> {
        Ok(self.lock().sample(flows, every)?)
    }

    /// Likewise, and also flows within wider rules ([`Classifier::sample_within_filters`]).
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn sample_within_rules(&mut self, flows: u32, every: u32) -> Result<(), XdpError> {
        Ok(self.lock().sample_within_filters(flows, every)?)
    }

    /// The flows that no rule took since this was called last, with their frames.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_missed(&self, mut take: impl FnMut(FiveTuple, u64)) -> Result<usize, XdpError> {
        let taken = self.lock().take_missed(|flow| {
            let (src, dst) = (flow.src.into(), flow.dst.into());
            take(FiveTuple { protocol: flow.protocol, src, dst }, flow.frames);
        });
        Ok(taken?)
    }

    /// Carries out changes, in their order. One that cannot be carried out does not keep the others
    /// from it. Only changes of ordered rules, and the first rule that looks at other bits than all
    /// before it, exchange the program.
    ///
    /// # Errors
    /// The kernel's word about something that is no rule's fault: the device or the program is gone.
    pub fn apply(&mut self, changes: &[DeviceChange]) -> Result<Outcome, XdpError> {
        let mut outcome = Outcome::default();
        let mut ordered = Vec::new();
        for change in changes {
            let (table, id) = match change {
                DeviceChange::Insert { table, id, .. }
                | DeviceChange::Remove { table, id, .. }
                | DeviceChange::Retarget { table, id, .. } => (*table, *id),
            };
            if !self.is_exact(table) {
                ordered.push(change);
                continue;
            }
            if let Err(error) = self.apply_exact(change, &mut outcome) {
                outcome.failed.push((id, error));
            }
        }
        if !ordered.is_empty() {
            self.apply_ordered(&ordered, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Carries out what changed in a search. Rules that the program does not take are told to the search
    /// ([`Search::refuse`]), and what it plans instead is carried out as well, a bounded number of times.
    /// The outcome is of all of it.
    ///
    /// # Errors
    /// As [`XdpSteering::apply`].
    pub fn follow(&mut self, search: &mut Search) -> Result<Outcome, XdpError> {
        let mut all = Outcome::default();
        for _ in 0..MOST_REPLANS {
            let outcome = self.apply(&search.take_changes())?;
            for (id, error) in &outcome.failed {
                search.refuse(*id, error.refusal(), &error.to_string());
            }
            let is_done = outcome.failed.is_empty();
            all.add(outcome);
            if is_done {
                break;
            }
        }
        Ok(all)
    }

    fn is_exact(&self, table: usize) -> bool {
        self.nic.tables.get(table).is_some_and(|t| t.model.order == TableOrder::MoreSpecific)
    }

    fn rule(&self, table: usize, rule: &Rule) -> Result<classify::Rule, XdpError> {
        let target = target_of(&self.targets, rule.target)?;
        Ok(classify::Rule { tests: tests(&self.nic.tables[table], rule)?, target })
    }

    fn apply_exact(
        &mut self,
        change: &DeviceChange,
        outcome: &mut Outcome,
    ) -> Result<(), XdpError> {
        match change {
            DeviceChange::Insert { table, id, rule } => {
                let rule = self.rule(*table, rule)?;
                if self.by_tests.contains_key(&rule.tests) {
                    return Err(XdpError::Duplicate);
                }
                outcome.exchanged |= self.lock().insert(&rule)?;
                outcome.inserted += 1;
                self.by_tests.insert(rule.tests.clone(), *id);
                self.exact.insert(*id, Exact { rule, before: 0 });
            }
            DeviceChange::Remove { id, .. } => {
                // One that could not be inserted is not there to be removed.
                let Some(gone) = self.exact.remove(id) else { return Ok(()) };
                self.by_tests.remove(&gone.rule.tests);
                self.told.remove(id);
                let hits = self.lock().hits(&gone.rule)?.unwrap_or_default();
                self.retired += gone.before + hits;
                self.lock().remove(&gone.rule)?;
                outcome.removed += 1;
            }
            DeviceChange::Retarget { table, id, rule } => {
                let rule = self.rule(*table, rule)?;
                let Some(present) = self.exact.get(id) else { return Ok(()) };
                // The entry's counter starts again with its new target.
                let hits = self.lock().hits(&present.rule)?.unwrap_or_default();
                let before = present.before + hits;
                self.lock().insert(&rule)?;
                self.exact.insert(*id, Exact { rule, before });
                outcome.retargeted += 1;
            }
        }
        Ok(())
    }

    fn apply_ordered(
        &mut self,
        changes: &[&DeviceChange],
        outcome: &mut Outcome,
    ) -> Result<(), XdpError> {
        let hits = self.lock().ordered_hits()?;
        for (rule, hits) in self.ordered.iter_mut().zip(hits) {
            rule.before += hits;
        }
        for change in changes {
            match change {
                DeviceChange::Insert { table, id, rule } => match self.rule(*table, rule) {
                    Ok(made) => {
                        let order = self.nic.tables[*table].model.order;
                        let rank = (*table, rule.rank(order));
                        self.ordered.push(Ordered { id: *id, rank, rule: made, before: 0 });
                        outcome.inserted += 1;
                    }
                    Err(error) => outcome.failed.push((*id, error)),
                },
                DeviceChange::Remove { id, .. } => {
                    let Some(at) = self.ordered.iter().position(|rule| rule.id == *id) else {
                        continue;
                    };
                    self.retired += self.ordered.remove(at).before;
                    self.told.remove(id);
                    outcome.removed += 1;
                }
                DeviceChange::Retarget { id, rule, .. } => {
                    let target = target_of(&self.targets, rule.target)?;
                    if let Some(present) = self.ordered.iter_mut().find(|r| r.id == *id) {
                        present.rule.target = target;
                        outcome.retargeted += 1;
                    }
                }
            }
        }
        self.ordered.sort_by_key(|rule| (rule.rank, rule.id));
        self.exchange_ordered(outcome)
    }

    /// Hands the ordered rules to the program; the last ones go by the board as long as it is too
    /// long.
    fn exchange_ordered(&mut self, outcome: &mut Outcome) -> Result<(), XdpError> {
        loop {
            let rules = self.ordered.iter().map(|rule| rule.rule.clone()).collect();
            // The lock is not held while looking at what came of it.
            let done = self.lock().set_ordered(rules);
            match done {
                Ok(()) => {
                    outcome.exchanged = true;
                    return Ok(());
                }
                Err(BpfError::Setting { what }) if !self.ordered.is_empty() => {
                    self.give_up_last(&what, outcome);
                }
                Err(BpfError::Assemble(why)) if !self.ordered.is_empty() => {
                    self.give_up_last(&why.to_string(), outcome);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn give_up_last(&mut self, why: &str, outcome: &mut Outcome) {
        let most = classify::MOST_ORDERED;
        let keep = if self.ordered.len() > most { most } else { self.ordered.len() * 7 / 8 };
        for gone in self.ordered.split_off(keep) {
            let error = BpfError::Setting { what: why.to_string() };
            outcome.failed.push((gone.id, error.into()));
        }
    }

    /// How often each rule was hit, in no order.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn hits(&self) -> Result<Vec<(RuleId, u64)>, XdpError> {
        let mut all = Vec::with_capacity(self.exact.len() + self.ordered.len());
        for (id, exact) in &self.exact {
            let hits = self.lock().hits(&exact.rule)?.unwrap_or_default();
            all.push((*id, exact.before + hits));
        }
        let hits = self.lock().ordered_hits()?;
        for (rule, hits) in self.ordered.iter().zip(hits) {
            all.push((rule.id, rule.before + hits));
        }
        Ok(all)
    }

    /// How often each rule was hit since this was called last; rules that were not are left out.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_hits(&mut self) -> Result<Vec<(RuleId, u64)>, XdpError> {
        let mut fresh = Vec::new();
        for (id, hits) in self.hits()? {
            let before = self.told.insert(id, hits).unwrap_or_default();
            if hits > before {
                fresh.push((id, hits - before));
            }
        }
        Ok(fresh)
    }

    /// All traffic since this was called last, as far as it is known by five-tuple: flows that no rule
    /// took, if they are [counted](Self::sample), and flows that have a rule of their own.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn take_traffic(&mut self, mut take: impl FnMut(FiveTuple, u64)) -> Result<(), XdpError> {
        self.take_missed(&mut take)?;
        for (id, hits) in self.take_hits()? {
            if let Some(flow) = self.exact.get(&id).and_then(|exact| tuple(&exact.rule.tests)) {
                take(flow, hits);
            }
        }
        Ok(())
    }

    /// How many frames rules took, those that are gone included.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn taken(&self) -> Result<u64, XdpError> {
        Ok(self.retired + self.hits()?.iter().map(|(_, hits)| hits).sum::<u64>())
    }

    /// How many frames no rule took.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn missed(&self) -> Result<u64, XdpError> {
        Ok(self.lock().missed()?)
    }

    /// How the program runs: in the driver or in the kernel's stack; nothing if it is not attached.
    pub fn mode(&self) -> Option<AttachMode> {
        self.lock().mode()
    }

    /// How many rules are carried out.
    pub fn rules(&self) -> usize {
        self.exact.len() + self.ordered.len()
    }

    /// The program, for looking at it.
    pub fn classifier(&self) -> MutexGuard<'_, Classifier> {
        self.lock()
    }
}

fn target_of(targets: &[u32], to: config::Target) -> Result<Target, XdpError> {
    match to {
        config::Target::Queue(queue) => target(targets, queue),
        config::Target::Drop => Ok(Target::Drop),
        config::Target::Context(_) => Err(XdpError::Context),
    }
}

fn target(targets: &[u32], queue: u32) -> Result<Target, XdpError> {
    let known = targets.get(queue as usize);
    let queues = targets.len();
    known.map(|t| Target::Queue(*t)).ok_or(XdpError::Queue { queue, queues })
}

fn fallback(nic: &Nic, rss: &Rss, targets: &[u32]) -> Result<Fallback, XdpError> {
    if rss.table.is_empty() {
        return Ok(Fallback::To(target(targets, nic.default_queue)?));
    }
    let places = rss.table.iter().map(|queue| match target(targets, *queue)? {
        Target::Queue(number) => Ok(number),
        _ => Err(XdpError::NoCpu),
    });
    Ok(Fallback::Spread(places.collect::<Result<_, _>>()?))
}
