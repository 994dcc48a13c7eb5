//! What a steward does all day.

use std::collections::HashMap;
use std::sync::Arc;

use weever_device::xdp::{FlowCounter, Outcome, XdpSteering};
use weever_link_sys::af_xdp::Steering;
use weever_plan::embed::{Arrival, either, needs};
use weever_plan::flow::Flow;
use weever_plan::search::{DeviceChange, FlowId, RuleId, Search};
use weever_plan::watch::{Due, FiveTuple, Settings, Watch};
use weever_policy::flows::{self, FlowSpec};
use weever_policy::policy::CheckedPolicy;

use super::super::paces::Paces;
use super::super::tailor::Tailor;
use super::filters::Filters;
use super::intent::{Intent, Planned, Sorter};
use super::means::Means;
use super::nic::{Hardware, Ready};
use super::{PolicyError, tuple};
use crate::config::Services;

const SECOND: u64 = 1_000_000_000;
/// Of the packets that have no filter of their own one in so many is looked at.
const SAMPLE: u32 = 4;
/// How often filters are planned anew at once because the program does not take some.
const MOST_REPLANS: usize = 16;
/// How many flows are told apart between two looks.
const SAMPLED: u32 = 8192;

/// Who told of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The file of flows.
    File,
    /// A service of the stack's own, with its port.
    Service(&'static str, u16),
    /// Its packets.
    Traffic(FiveTuple),
}

/// What is known of a flow, beside what the search knows.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) origin: Origin,
    /// Packets of a five-tuple: those that its rule has steered, and an estimate of others.
    pub(super) packets: u64,
    /// The same per second, over about the last one.
    pub(super) rate: u64,
    /// Packets that do not count in the two above yet.
    fresh: u64,
}

impl Member {
    fn new(origin: Origin) -> Member {
        Member { origin, packets: 0, rate: 0, fresh: 0 }
    }
}

/// One device's filters, kept in step with flows that come and go.
pub(crate) struct Steward {
    /// The link's name.
    pub(super) link: String,
    pub(super) page: CheckedPolicy,
    pub(super) search: Search,
    pub(super) means: Means,
    pub(super) watch: Watch,
    pub(super) members: HashMap<FlowId, Member>,
    /// Flows that are not to be detected: they have a place.
    pub(super) tuples: HashMap<FiveTuple, FlowId>,
    /// The rules of five-tuples, whose hits show that they are alive.
    rules: HashMap<RuleId, FiveTuple>,
    filters: Filters,
    /// Who makes the workers' graphs, and what the link is called there.
    pub(super) tailor: Option<(u16, Arc<Tailor>)>,
    /// Who tells workers how to wait, and what the link is called there.
    paces: Option<(u16, Arc<Paces>)>,
    /// Whether that has been done since the plan changed; once per second is enough.
    pub(super) is_paced: bool,
    pub(super) fitting: u64,
    /// What graphs are made for.
    pub(super) arriving: Vec<Arrival>,
    /// When hits were read last.
    counted: u64,
    services: Services,
    /// Flows that the policy has no place for, so far.
    pub(super) unplaced: u64,
    /// Searches since the start.
    pub(super) searches: u64,
    /// How long the longest of them took, with the changes that followed, in nanoseconds.
    pub(super) slowest: u64,
}

/// The flows of services: everything to their ports.
pub(super) fn own_flows(services: &Services) -> Vec<(Origin, FlowSpec)> {
    let ports = [("echo", services.echo), ("discard", services.discard)];
    let bound = ports.into_iter().filter_map(|(name, port)| Some((name, port?)));
    let flow = |(name, port)| {
        let line = format!("udp dst port {port} app={name} name=service:{name}");
        let spec = flows::parse(line.as_bytes()).flows.pop()?;
        Some((Origin::Service(name, port), spec))
    };
    bound.filter_map(flow).collect()
}

impl Steward {
    /// Plans, and has the device do it.
    pub(crate) fn new(
        link: &str,
        steering: &Steering,
        intent: &Intent,
        sorter: &Sorter,
    ) -> Result<Option<Steward>, PolicyError> {
        // A single worker gets everything: there is nothing to decide.
        let Some(classifier) = steering.classifier() else { return Ok(None) };
        let device = |source| PolicyError::Device { link: link.to_owned(), source };
        let planned = intent.plan(&sorter.nic)?;
        let steering = XdpSteering::of(classifier.clone(), &sorter.nic, planned.search.rss());
        let mut steering = steering.map_err(device)?;
        steering.sample_within_rules(SAMPLED, SAMPLE).map_err(device)?;
        let means = Means::Program(Box::new(steering));
        let mut steward = Steward::with(link, means, planned, intent.services());
        steward.carry_out();
        Ok(Some(steward))
    }

    /// Has a NIC that is ready do what was planned for it. What carries its packets counts flows, if
    /// it can.
    pub(crate) fn on_nic(
        link: &str,
        ready: Ready,
        steering: Option<&Steering>,
        intent: &Intent,
    ) -> Result<Steward, PolicyError> {
        let count = |to: &Arc<_>| FlowCounter::within(Arc::clone(to), SAMPLED, SAMPLE);
        let counter = steering.and_then(Steering::classifier).map(count).transpose();
        let device = |source| PolicyError::Device { link: link.to_owned(), source };
        let Ready { kept, planned } = ready;
        let means = Means::Nic(Box::new(Hardware::new(kept, counter.map_err(device)?)));
        let mut steward = Steward::with(link, means, planned, intent.services());
        let done = steward.instruct_nic().map_err(Box::new);
        done.map_err(|source| PolicyError::Hardware { link: link.to_owned(), source })?;
        Ok(steward)
    }

    fn with(link: &str, means: Means, planned: Planned, services: Services) -> Steward {
        let Planned { search, page, flows } = planned;
        let mut steward = Steward {
            link: link.to_owned(),
            page,
            search,
            means,
            watch: Watch::new(Settings::default()),
            members: HashMap::new(),
            tuples: HashMap::new(),
            rules: HashMap::new(),
            filters: Filters::default(),
            tailor: None,
            paces: None,
            is_paced: false,
            fitting: 0,
            arriving: Vec::new(),
            counted: 0,
            services,
            unplaced: 0,
            searches: 1,
            slowest: 0,
        };
        for (id, origin, tuple) in flows {
            steward.tuples.extend(tuple.map(|tuple| (tuple, id)));
            steward.members.insert(id, Member::new(origin));
        }
        steward
    }

    /// Looks at what has come and gone, and acts on it. Time as of `monotonic`.
    pub(super) fn step(&mut self, now: u64, services: &Services) {
        let began = weever_engine::monotonic();
        let mut searched = self.follow(services);
        if self.look(now) {
            self.watch.tick(now);
            let due = self.watch.due(now);
            searched |= !due.is_empty();
            self.place(due);
        }
        if searched || self.means.is_due(now) {
            self.carry_out();
            self.searches += 1;
            let took = weever_engine::monotonic().saturating_sub(began);
            self.slowest = self.slowest.max(took.saturating_sub(self.fitting));
        }
    }

    /// Counts the packets of flows. Says whether the device could be asked.
    fn look(&mut self, now: u64) -> bool {
        let Steward { watch, tuples, members, .. } = self;
        let taken = self.means.take_missed(|flow, packets| {
            let member = tuples.get(&flow).and_then(|id| members.get_mut(id));
            // Those of the file stay whether they are seen or not.
            if member.as_ref().is_none_or(|m| matches!(m.origin, Origin::Traffic(_))) {
                watch.saw(now, flow, packets);
            }
            if let Some(member) = member {
                member.fresh += packets;
            }
        });
        if now.saturating_sub(self.counted) >= SECOND {
            self.count(now);
            if !self.is_paced {
                self.set_paces();
            }
        }
        taken.is_ok()
    }

    /// Reads how often rules were hit.
    fn count(&mut self, now: u64) {
        let since = now.saturating_sub(std::mem::replace(&mut self.counted, now)).max(1);
        let Ok(hits) = self.means.take_hits() else { return };
        for (rule, hits) in hits {
            let Some(tuple) = self.rules.get(&rule) else { continue };
            let member = self.tuples.get(tuple).and_then(|id| self.members.get_mut(id));
            let Some(member) = member else { continue };
            if matches!(member.origin, Origin::Traffic(_)) {
                self.watch.saw(now, *tuple, hits);
            }
            member.fresh += hits;
        }
        for (id, member) in &mut self.members {
            let fresh = std::mem::take(&mut member.fresh);
            member.packets += fresh;
            member.rate = (u128::from(fresh) * u128::from(SECOND) / u128::from(since)) as u64;
            if matches!(member.origin, Origin::Traffic(_)) && member.rate > 0 {
                self.search.set_rate(*id, Some(member.rate));
            }
        }
    }

    /// Registers the services that there are now. Says whether that changed anything.
    fn follow(&mut self, services: &Services) -> bool {
        if *services == self.services {
            return false;
        }
        let (old, new) = (own_flows(&self.services), own_flows(services));
        self.services = *services;
        for (gone, _) in old.iter().filter(|(o, _)| new.iter().all(|(n, _)| n != o)) {
            let id = self.members.iter().find(|(_, m)| m.origin == *gone).map(|(id, _)| *id);
            id.into_iter().for_each(|id| self.remove(id));
        }
        for (origin, spec) in new.into_iter().filter(|(n, _)| old.iter().all(|(o, _)| n != o)) {
            for flow in self.page.classify([spec]).0 {
                self.add(flow, origin);
            }
        }
        true
    }

    fn place(&mut self, due: Due) {
        for gone in due.gone {
            if let Some(id) = self.tuples.remove(&gone) {
                self.remove(id);
            }
        }
        let came = due.came.into_iter().filter(|(tuple, _)| !self.tuples.contains_key(tuple));
        let seen = came.filter_map(|(tuple, rate)| Some((tuple, FlowSpec::seen(tuple, rate)?)));
        let (tuples, specs): (Vec<_>, Vec<_>) = seen.unzip();
        let (flows, _) = self.page.classify(specs);
        for (tuple, flow) in tuples.into_iter().zip(flows) {
            match self.add(flow, Origin::Traffic(tuple)) {
                Some(id) => drop(self.tuples.insert(tuple, id)),
                None => self.unplaced += 1,
            }
        }
    }

    /// A flow that would break the policy stays where unregistered traffic goes.
    fn add(&mut self, flow: Flow, origin: Origin) -> Option<FlowId> {
        let name = flow.name.clone();
        let before = self.search.cost().is_acceptable();
        let id = self.search.add(flow);
        if before && !self.search.cost().is_acceptable() {
            self.search.remove(id);
            tracing::warn!(link = self.link, flow = name, "the policy has no place for a flow");
            return None;
        }
        tracing::debug!(link = self.link, flow = name, "a flow came");
        self.members.insert(id, Member::new(origin));
        Some(id)
    }

    fn remove(&mut self, id: FlowId) {
        self.members.remove(&id);
        if let Some(flow) = self.search.remove(id) {
            tracing::debug!(link = self.link, flow = flow.name, "a flow has gone");
        }
    }

    /// Whether workers are to run parts of the graph.
    pub(in super::super) fn simplifies(&self) -> bool {
        self.page.simplify
    }

    /// From now on, workers run what flows need of the graph, and wait as classes want.
    pub(in super::super) fn lead(&mut self, link: u16, tailor: Arc<Tailor>, paces: Arc<Paces>) {
        self.paces = Some((link, paces));
        self.set_paces();
        if self.page.simplify {
            self.tailor = Some((link, tailor));
            self.arriving = self.needs();
            self.order(self.arriving.clone());
        }
    }

    /// Each worker waits as the most impatient class wants whose flows arrive at it.
    fn set_paces(&mut self) {
        self.is_paced = true;
        let Some((link, paces)) = &self.paces else { return };
        let (queues, document) = (self.search.queues(), &self.page.document);
        let last = queues.last().map_or(0, |queue| queue.queue as usize);
        let mut modes = vec![None; last + 1];
        for queue in queues {
            let classes = queue.classes.iter().map(|(class, _)| *class);
            modes[queue.queue as usize] = document.mode_of(classes);
        }
        paces.want(*link, modes);
    }

    /// What can arrive at each worker, as far as graphs can tell.
    fn needs(&self) -> Vec<Arrival> {
        let Some((_, tailor)) = &self.tailor else { return Vec::new() };
        let nic = self.search.nic();
        let configuration = match &self.means {
            Means::Program(_) => {
                self.filters.configuration(nic.tables.len(), self.search.rss().clone())
            }
            Means::Nic(hardware) => hardware.configuration(),
        };
        needs(nic, &configuration, &tailor.fields())
    }

    fn order(&mut self, arriving: Vec<Arrival>) {
        order(self.tailor.as_ref(), &mut self.fitting, arriving);
    }

    /// How long workers' graphs took since this was asked last, in nanoseconds.
    pub(super) fn take_fitting(&mut self) -> u64 {
        std::mem::take(&mut self.fitting)
    }

    /// Tells the device what has changed, between two changes of what workers run: before it they learn
    /// what is new, after it they forget what is over. What the device refuses is planned around.
    fn carry_out(&mut self) {
        if matches!(self.means, Means::Nic(_)) {
            // What went wrong was said, and is tried again.
            return drop(self.instruct_nic());
        }
        for _ in 0..MOST_REPLANS {
            let changes = self.search.take_changes();
            if changes.is_empty() {
                break;
            }
            self.is_paced = false;
            self.remember(&changes);
            self.filters.note(&changes);
            let arriving = self.needs();
            self.order(either(&self.arriving, &arriving));
            self.arriving = arriving;
            let Means::Program(steering) = &mut self.means else { return };
            match steering.apply(&changes) {
                Ok(outcome) => self.plan_around(outcome),
                Err(error) => {
                    return tracing::error!(link = self.link, "filters are not set: {error}");
                }
            }
        }
        self.arriving = self.needs();
        self.order(self.arriving.clone());
    }

    fn plan_around(&mut self, outcome: Outcome) {
        let Outcome { inserted, removed, retargeted: moved, exchanged: reloaded, failed } = outcome;
        tracing::debug!(link = self.link, inserted, removed, moved, reloaded, "filters");
        let was_acceptable = self.search.cost().is_acceptable();
        for (rule, error) in &failed {
            tracing::warn!(link = self.link, rule = rule.0, "a filter is not set: {error}");
            self.filters.forget(*rule);
            self.search.refuse(*rule, error.refusal(), &error.to_string());
        }
        if was_acceptable && !self.search.cost().is_acceptable() {
            let complaints = self.search.plan().complaints.join("; ");
            tracing::warn!(
                link = self.link,
                "the policy is not satisfied without them: {complaints}"
            );
        }
    }

    fn remember(&mut self, changes: &[DeviceChange]) {
        for change in changes {
            match change {
                DeviceChange::Insert { table, id, rule } => {
                    let packets = rule.matches(&self.search.nic().tables[*table].model);
                    if let Some(tuple) = tuple::of(&packets) {
                        self.rules.insert(*id, tuple);
                    }
                }
                DeviceChange::Remove { id, .. } => drop(self.rules.remove(id)),
                DeviceChange::Retarget { .. } => {}
            }
        }
    }
}

/// Has workers' graphs made, and adds how long that took to `fitting`.
pub(super) fn order(
    tailor: Option<&(u16, Arc<Tailor>)>,
    fitting: &mut u64,
    arriving: Vec<Arrival>,
) {
    if let Some((link, tailor)) = tailor {
        let began = weever_engine::monotonic();
        tailor.order(*link, arriving);
        *fitting += weever_engine::monotonic().saturating_sub(began);
    }
}
