//! A plan, carried out and kept up to date.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_ebpf::sys::AttachMode;
use weever_ebpf::xdp::classify::{self, Classifier, Fallback, Sink, Target};
use weever_graph::nic::TableOrder;
use weever_plan::config::{self, Rss, Rule};
use weever_plan::nic::Nic;
use weever_plan::search::{DeviceChange, RuleId};

use super::exact::ExactRules;
use super::ordered::tests;
use super::ordered::{Change, OrderedRules};
use super::{ProgramReport, XdpError, cpu_map};

/// A plan that a program carries out.
#[derive(Debug)]
pub struct XdpSteering {
    classifier: Arc<Mutex<Classifier>>,
    nic: Nic,
    /// The sink's number for each queue.
    targets: Vec<u32>,
    pub(super) exact: ExactRules,
    pub(super) ordered: OrderedRules,
    /// Hits that were reported.
    pub(super) told: HashMap<RuleId, u64>,
}

impl XdpSteering {
    /// Loads a program with CPUs as queues, on which the kernel's stack takes the frames: queue `i` is
    /// `cpus[i]`, and when there are more queues than CPUs they begin again. Packets that no rule takes
    /// are spread as `rss` says. Each map has room for `capacity` rules.
    ///
    /// # Errors
    /// [`XdpError`], also if CAP_BPF or CAP_NET_ADMIN is missing.
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

    /// Loads a program for any sink whose number for queue `i` is `targets[i]`.
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

    /// Takes a program that is loaded and attached elsewhere, for instance for a link with
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
            exact: ExactRules::default(),
            ordered: OrderedRules::default(),
            told: HashMap::new(),
        }
    }

    /// Attaches the program to an interface in one mode only, until this is dropped or the process
    /// ends.
    ///
    /// # Errors
    /// [`XdpError::Bpf`] with the kernel's reason.
    pub fn attach_in(&mut self, ifindex: u32, mode: AttachMode) -> Result<(), XdpError> {
        Ok(self.classifier().attach_in(ifindex, mode)?)
    }

    /// Attaches the program to an interface, until this is dropped or the process ends.
    ///
    /// # Errors
    /// [`XdpError::Bpf`] with the kernel's reason.
    pub fn attach(&mut self, ifindex: u32) -> Result<(), XdpError> {
        Ok(self.classifier().attach(ifindex)?)
    }

    /// Whether the program is no longer attached although it was.
    ///
    /// # Errors
    /// [`XdpError::Bpf`].
    pub fn is_detached(&self) -> Result<bool, XdpError> {
        Ok(self.classifier().is_detached()?)
    }

    /// Attaches it as it was attached before.
    ///
    /// # Errors
    /// [`XdpError::Bpf`] with the kernel's reason.
    pub fn attach_again(&mut self) -> Result<(), XdpError> {
        Ok(self.classifier().attach_again()?)
    }

    /// Changes the spreading of packets that no rule takes from now on.
    ///
    /// # Errors
    /// [`XdpError`]; nothing has changed then.
    pub fn set_rss(&mut self, rss: &Rss) -> Result<(), XdpError> {
        let fallback = fallback(&self.nic, rss, &self.targets)?;
        Ok(self.classifier().set_fallback(fallback)?)
    }

    /// Carries out changes, in their order. A change that cannot be carried out does not stop the
    /// others.
    /// Only changes of ordered rules, and the first rule that tests other bits than all before it,
    /// exchange the program.
    ///
    /// # Errors
    /// The kernel's error, if it is no rule's fault: the device or the program is gone.
    pub fn apply(&mut self, changes: &[DeviceChange]) -> Result<ProgramReport, XdpError> {
        let mut outcome = ProgramReport::default();
        let mut ordered = Vec::new();
        for change in changes {
            let (table, id) = match change {
                DeviceChange::Insert { table, id, .. }
                | DeviceChange::Retarget { table, id, .. } => (*table, *id),
                DeviceChange::Remove { table, id, .. } => {
                    self.told.remove(id);
                    (*table, *id)
                }
            };
            let done = match self.is_exact(table) {
                true => self.apply_exact(change, &mut outcome),
                false => self.ordered(change).map(|change| ordered.push(change)),
            };
            if let Err(error) = done {
                outcome.failed.push((id, error));
            }
        }
        if !ordered.is_empty() {
            let mut classifier = lock(&self.classifier);
            self.ordered.change(&mut classifier, ordered, &mut outcome)?;
        }
        Ok(outcome)
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
        outcome: &mut ProgramReport,
    ) -> Result<(), XdpError> {
        let made = match change {
            DeviceChange::Insert { table, rule, .. }
            | DeviceChange::Retarget { table, rule, .. } => Some(self.rule(*table, rule)?),
            DeviceChange::Remove { .. } => None,
        };
        let classifier = &mut *lock(&self.classifier);
        match (change, made) {
            (DeviceChange::Insert { table, id, rule: said }, Some(rule)) => {
                // The program asks maps in the plan's order, of which the number of bits is only a part.
                let rank = said.rank(self.nic.tables[*table].model.order);
                self.exact.insert(classifier, *id, (rule, rank), outcome)
            }
            (DeviceChange::Retarget { id, .. }, Some(rule)) => {
                self.exact.retarget(classifier, *id, rule, outcome)
            }
            (DeviceChange::Remove { id, .. }, _) => self.exact.remove(classifier, *id, outcome),
            (_, None) => Ok(()),
        }
    }

    fn ordered(&self, change: &DeviceChange) -> Result<Change, XdpError> {
        Ok(match change {
            DeviceChange::Insert { table, id, rule } => {
                let rank = (*table, rule.rank(self.nic.tables[*table].model.order));
                Change::Insert(*id, rank, self.rule(*table, rule)?)
            }
            DeviceChange::Remove { id, .. } => Change::Remove(*id),
            DeviceChange::Retarget { id, rule, .. } => {
                Change::Retarget(*id, target_of(&self.targets, rule.target)?)
            }
        })
    }

    /// How the program runs: in the driver or in the kernel's stack; nothing if it is not attached.
    pub fn mode(&self) -> Option<AttachMode> {
        self.classifier().mode()
    }

    /// How many rules are carried out.
    pub fn rules(&self) -> usize {
        self.exact.len() + self.ordered.len()
    }

    /// The program, for looking at it.
    pub fn classifier(&self) -> MutexGuard<'_, Classifier> {
        lock(&self.classifier)
    }
}

fn target_of(targets: &[u32], to: config::Target) -> Result<Target, XdpError> {
    match to {
        config::Target::Queue(queue) => target(targets, queue),
        config::Target::Drop => Ok(Target::Drop),
        config::Target::Context(_) => Err(XdpError::Context),
    }
}

/// A classifier is whole after each of its calls, so a panic elsewhere does not spoil it.
pub(super) fn lock(classifier: &Mutex<Classifier>) -> MutexGuard<'_, Classifier> {
    classifier.lock().unwrap_or_else(PoisonError::into_inner)
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
