//! The loop.

mod questions;
mod registration;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weever_plan::flow::Conj;
use weever_plan::search::{FlowId, Search};
use weever_plan::watch::{self, DueFlow, FiveTuple, Watch};
use weever_policy::policy::CheckedPolicy;

use crate::applications::AppPackets;
use crate::plan::{InitialPlan, Origin};
use crate::target::{Applied, NoReceivers, Receivers, Target, TargetError};

const SECOND: u64 = 1_000_000_000;
/// The pause between two looks at what others did to the device, if nothing is announced.
const LOOK: u64 = 2 * SECOND;
/// After an announcement, the look waits until there was none for so long, because a restart has many steps.
const QUIET: u64 = SECOND / 10;
/// It does not wait longer than this.
const MAX_QUIET: u64 = SECOND;
/// The longest pause between two attempts to apply a plan.
const MAX_RETRY_PAUSE: u64 = 64 * SECOND;

/// How flows are found by their traffic.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// When a five-tuple is worth a filter, and when it has ended.
    pub watch: watch::Settings,
    /// Whether five-tuples within flows that are known at the start are left to those. Otherwise each
    /// gets a place of its own, so that the connections of one service are spread over queues.
    pub skip_registered: bool,
}

/// The counts of a registered flow, beside the search's knowledge of it.
#[derive(Clone, Copy, Debug)]
pub struct FlowCount {
    /// The origin of the flow.
    pub origin: Origin,
    /// Packets of a five-tuple: steered by its filter, or estimated by sampling.
    pub packets: u64,
    /// Packets per second, over about the last second.
    pub rate: u64,
    /// Packets that are not in the other two yet.
    fresh: u64,
    /// The five-tuple of a flow that was registered while the steward runs.
    tuple: Option<FiveTuple>,
}

/// The counts of a steward since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Searches.
    pub searches: u64,
    /// The longest of them with the changes that followed, without the receivers' time.
    pub slowest: Duration,
    /// Five-tuples that the policy has no place for.
    pub unplaced: u64,
    /// How often a new five-tuple was left out because the watch was full.
    pub refused: u64,
}

/// The result of one step.
#[derive(Debug, Default)]
pub struct Step {
    /// Five-tuples that were added to the plan.
    pub came: Vec<FiveTuple>,
    /// The number of five-tuples that ended.
    pub gone: usize,
    /// Five-tuples that the policy has no place for.
    pub unplaced: Vec<FiveTuple>,
    /// The changes made to the device.
    pub applied: Applied,
    /// Why that failed, or why traffic could not be read. It was logged.
    pub failure: Option<TargetError>,
}

/// Why the device is not as planned.
struct Failure {
    message: String,
    /// When it is tried again; never for a device that is gone.
    retry: Option<u64>,
    pause: u64,
    is_gone: bool,
}

/// One device's filters, kept in step with flows that come and go.
pub struct Steward {
    /// The device, for logs.
    name: String,
    policy: CheckedPolicy,
    search: Search,
    watch: Watch,
    /// The packets of registered flows to which five-tuples within them are left.
    covered: Vec<Conj>,
    /// The packets of applications.
    app_packets: AppPackets,
    target: Box<dyn Target>,
    receivers: Box<dyn Receivers>,
    flows: HashMap<FlowId, FlowCount>,
    /// Five-tuples that have a place, registered ones included.
    tuples: HashMap<FiveTuple, FlowId>,
    /// Whether the plan has to be applied: registered flows have changed, or it failed.
    has_changed: bool,
    /// Whether all flows are to be searched for again.
    wants_search: bool,
    /// Whether the receivers have the wait modes of the present plan.
    modes_are_set: bool,
    /// When hits were read last.
    counted: u64,
    /// When the device was looked at last.
    looked: u64,
    /// The first and the last announcement since.
    news: Option<(u64, u64)>,
    failure: Option<Failure>,
    /// The part of the policy that fails because of the device's refusals.
    shortfall: Option<String>,
    /// Whether the last reading of traffic failed, which is logged once.
    is_blind: bool,
    /// The receivers' time since [`Steward::take_receivers_time`].
    waited: Duration,
    stats: Stats,
}

impl Steward {
    /// Brings a plan onto a target, and returns the changes that were made. The device is left as it
    /// was found when the target is dropped.
    ///
    /// # Errors
    /// [`TargetError`]: the plan cannot be applied, or the device refuses a rule that the policy needs.
    pub fn start(
        name: &str,
        planned: InitialPlan,
        target: Box<dyn Target>,
        settings: Settings,
    ) -> Result<(Steward, Applied), TargetError> {
        let InitialPlan { search, policy, flows, packets, app_packets } = planned;
        let mut steward = Steward {
            name: name.to_owned(),
            policy,
            search,
            watch: Watch::new(settings.watch),
            covered: if settings.skip_registered { packets } else { Vec::new() },
            app_packets,
            target,
            receivers: Box::new(NoReceivers),
            flows: HashMap::new(),
            tuples: HashMap::new(),
            has_changed: false,
            wants_search: false,
            modes_are_set: false,
            counted: 0,
            looked: 0,
            news: None,
            failure: None,
            shortfall: None,
            is_blind: false,
            waited: Duration::ZERO,
            stats: Stats { searches: 1, ..Stats::default() },
        };
        for (id, origin, tuple) in flows {
            steward.tuples.extend(tuple.map(|tuple| (tuple, id)));
            steward.flows.insert(id, count_from(origin));
        }
        let applied = steward.target.apply(&mut steward.search, &mut *steward.receivers)?;
        steward.log(&applied);
        Ok((steward, applied))
    }

    /// Makes `receivers` adapt to the plan from now on.
    pub fn attach_receivers(&mut self, receivers: Box<dyn Receivers>) {
        self.receivers = receivers;
        let present = self.target.configuration(&self.search);
        self.receivers.commit(self.search.nic(), &present);
        self.set_modes();
    }

    /// Goes on with another policy and other registered flows. Flows that were found by their traffic stay, as far as
    /// the policy has a place for them. Filters that both plans have stay untouched. If the device does not take the
    /// plan, later steps try again.
    pub fn reload(&mut self, now: u64, planned: InitialPlan) -> Step {
        let InitialPlan { mut search, policy, flows, packets, app_packets } = planned;
        let respread = search.rss() != self.search.rss();
        std::mem::swap(&mut search, &mut self.search);
        self.search.succeed(search);
        (self.policy, self.app_packets) = (policy, app_packets);
        if !self.covered.is_empty() {
            self.covered = packets;
        }
        let found =
            std::mem::take(&mut self.flows).into_values().filter_map(|flow| match flow.origin {
                Origin::Traffic(tuple) => Some((tuple, flow)),
                _ => None,
            });
        let found: Vec<(FiveTuple, FlowCount)> = found.collect();
        self.tuples.clear();
        for (id, origin, tuple) in flows {
            self.tuples.extend(tuple.map(|tuple| (tuple, id)));
            self.flows.insert(id, count_from(origin));
        }
        let mut step = Step::default();
        for (tuple, count) in found {
            self.place(DueFlow { came: vec![(tuple, count.rate)], gone: Vec::new() }, &mut step);
            if let Some(flow) = self.tuples.get(&tuple).and_then(|id| self.flows.get_mut(id)) {
                *flow = FlowCount { origin: flow.origin, ..count };
            }
        }
        step.came.clear();
        (self.shortfall, self.failure) = (None, None);
        self.target.renew();
        self.apply(now, &mut step);
        if respread && step.failure.is_none() {
            step.failure = self.target.gather(&self.search, false).err();
        }
        step
    }

    /// Has the next step search for all flows from the beginning, because their rates have changed or a search was
    /// requested.
    pub fn search_again(&mut self) {
        self.wants_search = true;
    }

    /// Processes the flows that came and went. `now` is in nanoseconds of any clock that does not run
    /// backwards.
    pub fn step(&mut self, now: u64) -> Step {
        let began = Instant::now();
        let mut step = Step::default();
        match self.read_traffic(now) {
            Ok(()) => {
                self.is_blind = false;
                self.watch.tick(now);
                let due = self.watch.due(now);
                self.has_changed |= !due.is_empty();
                self.place(due, &mut step);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_blind, true) {
                    tracing::warn!(link = self.name, "flows cannot be counted: {error}");
                }
                step.failure = Some(error);
            }
        }
        if std::mem::take(&mut self.wants_search) {
            self.search.search_again();
            self.has_changed = true;
        }
        self.look(now);
        let retry = self.failure.as_ref().and_then(|failure| failure.retry);
        self.has_changed |= retry.is_some_and(|retry| now >= retry);
        if self.has_changed && self.receivers.expect(self.search.nic(), &self.search.changing()) {
            self.has_changed = false;
            self.apply(now, &mut step);
            let waited = self.receivers.take_time();
            self.waited += waited;
            self.stats.searches += 1;
            self.stats.slowest = self.stats.slowest.max(began.elapsed().saturating_sub(waited));
        }
        step
    }

    /// Has the plan applied again if others changed the device.
    fn look(&mut self, now: u64) {
        if self.target.has_news() {
            let first = self.news.map_or(now, |(first, _)| first);
            self.news = Some((first, now));
        }
        let is_due = match self.news {
            Some((first, last)) => {
                now.saturating_sub(last) >= QUIET || now.saturating_sub(first) >= MAX_QUIET
            }
            None => now.saturating_sub(self.looked) >= LOOK,
        };
        if !is_due || self.failure.as_ref().is_some_and(|failure| failure.is_gone) {
            return;
        }
        (self.looked, self.news) = (now, None);
        match self.target.look() {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(link = self.name, "another program, or a reset, changed the device");
                self.has_changed = true;
            }
            // Applying the next change reports what is wrong.
            Err(error) => tracing::debug!(link = self.name, "cannot look at the device: {error}"),
        }
    }

    /// Counts packets per flow, and tells the watch the five-tuples that are alive.
    fn read_traffic(&mut self, now: u64) -> Result<(), TargetError> {
        let Steward { target, watch, tuples, flows, .. } = self;
        let mut count = |tuple, packets| {
            let flow = tuples.get(&tuple).and_then(|id| flows.get_mut(id));
            // Registered ones stay whether they are seen or not.
            if flow.as_ref().is_none_or(|flow| matches!(flow.origin, Origin::Traffic(_))) {
                watch.saw(now, tuple, packets);
            }
            if let Some(flow) = flow {
                flow.fresh += packets;
            }
        };
        let missed = target.take_missed(&mut count);
        let since = now.saturating_sub(self.counted);
        if since >= SECOND {
            self.counted = now;
            target.take_hits(&mut count)?;
            self.work_out_rates(since);
            if !self.modes_are_set {
                self.set_modes();
            }
        }
        missed
    }

    /// Turns the packets of the last `since` nanoseconds into rates.
    fn work_out_rates(&mut self, since: u64) {
        for (id, flow) in &mut self.flows {
            let fresh = std::mem::take(&mut flow.fresh);
            flow.packets += fresh;
            flow.rate = (u128::from(fresh) * u128::from(SECOND) / u128::from(since)) as u64;
            if matches!(flow.origin, Origin::Traffic(_)) && flow.rate > 0 {
                self.search.set_rate(*id, Some(flow.rate));
            }
        }
    }

    /// Has the target apply the present plan. If that fails it is tried again later, less and less
    /// often, except on a device that is gone.
    fn apply(&mut self, now: u64, step: &mut Step) {
        // The excess may also be flows without a filter of their own.
        if self.search.cost().is_acceptable() {
            self.shortfall = None;
        }
        if self.failure.as_ref().is_some_and(|failure| failure.is_gone) {
            return;
        }
        self.modes_are_set = false;
        match self.target.apply(&mut self.search, &mut *self.receivers) {
            Ok(applied) => {
                self.failure = None;
                self.log(&applied);
                self.note_shortfall(&applied);
                step.applied = applied;
            }
            Err(error) => {
                self.fail(now, &error);
                step.failure = Some(error);
            }
        }
    }

    fn fail(&mut self, now: u64, error: &TargetError) {
        let (mut message, before) = (error.to_string(), self.failure.take());
        if error.is_gone() && self.target.has_moved() {
            message.push_str("; it was moved to another one, with the filters that it had");
        }
        // Once for as long as it stays the same.
        if before.as_ref().is_none_or(|before| before.message != message) {
            tracing::error!(link = self.name, "the device's filters are not set: {message}");
        }
        let pause = before.map_or(SECOND, |before| (2 * before.pause).min(MAX_RETRY_PAUSE));
        let retry = error.is_worth_retrying().then_some(now.saturating_add(pause));
        self.failure = Some(Failure { message, retry, pause, is_gone: error.is_gone() });
    }

    /// Notes the shortfall of the policy, when it begins.
    fn note_shortfall(&mut self, applied: &Applied) {
        if self.shortfall.is_none()
            && !applied.refused.is_empty()
            && !self.search.cost().is_acceptable()
        {
            let refused = applied.refused.join("; ");
            let shortfall =
                format!("the policy is not satisfied without the refused rules: {refused}");
            tracing::warn!(link = self.name, "{shortfall}");
            self.shortfall = Some(shortfall);
        }
    }

    fn log(&self, applied: &Applied) {
        applied.lines.iter().for_each(|line| tracing::debug!(link = self.name, "{line}"));
        for refused in &applied.refused {
            tracing::warn!(link = self.name, "a filter is not set: {refused}");
        }
    }

    /// Each worker uses the wait mode of the most impatient class among its flows.
    fn set_modes(&mut self) {
        self.modes_are_set = true;
        let (queues, document) = (self.search.queues(), &self.policy.document);
        let last = queues.last().map_or(0, |queue| queue.queue as usize);
        let mut modes = vec![None; last + 1];
        for queue in queues {
            let classes = queue.classes.iter().map(|(class, _)| *class);
            modes[queue.queue as usize] = document.mode_of(classes);
        }
        self.receivers.set_modes(modes);
    }

    /// From now on, packets that no filter takes all come to the default queue, or are spread as planned
    /// again. Returns whether the device can do that.
    ///
    /// # Errors
    /// [`TargetError`]; nothing has changed then.
    pub fn gather(&mut self, all: bool) -> Result<bool, TargetError> {
        self.target.gather(&self.search, all)
    }

    /// How long receivers took since the last call; for [`pause_after`](crate::pause_after).
    pub fn take_receivers_time(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Leaves the device as it was found, or as the target was configured to; returns which, a line
    /// each.
    ///
    /// # Errors
    /// [`TargetError`] if something could not be undone.
    pub fn finish(mut self) -> Result<Vec<String>, TargetError> {
        self.target.finish()
    }
}

fn count_from(origin: Origin) -> FlowCount {
    FlowCount { origin, packets: 0, rate: 0, fresh: 0, tuple: None }
}
