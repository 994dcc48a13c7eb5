//! Filters in a program that sorts frames into software queues.

use std::collections::{BTreeMap, HashMap};

use weever_device::actions::switches;
use weever_device::xdp::{AttachMode, ProgramReport, XdpSteering};
use weever_plan::config::{Configuration, Rss, Rule, Target as To};
use weever_plan::nic::Nic;
use weever_plan::search::{DeviceChange, Refused, RuleId, Search};
use weever_plan::watch::FiveTuple;

use crate::attach::Attachment;
use crate::features::Features;
use crate::nic::SharedNicSteering;
use crate::target::{Applied, Arrivals, NoReceivers, Receivers, Switch, Target, TargetError};

/// How often filters are planned anew at once because the program refuses some.
const MAX_REPLANS: usize = 16;
/// What is said of a program that somebody detached.
const DETACHED: &str = "another program detached the program (`bpftool link detach`), or the device is gone: nothing is \
                        sorted until the policy is read again (SIGHUP)";
/// What happens in the driver to tags that the device keeps stripping.
const LOSES_TAGS: &str = "the tags of frames are lost on their way to a CPU; where VLANs are in use, take `--mode generic`";
/// More reasons of refused filters are not shown.
const MAX_REASONS: usize = 10;

/// A program that sorts frames: in front of the sockets of weever's workers, which are its queues, or
/// onto CPUs, for the kernel's stack. It counts its packets and changes.
pub struct ProgramTarget {
    /// Gone once [finished](Target::finish).
    steering: Option<XdpSteering>,
    attachment: Option<Attachment>,
    /// Those of the device, if it is known.
    features: Option<Features>,
    /// Whether somebody detached the program, and it is left so.
    is_detached: bool,
    /// Whether it is to be attached again.
    must_attach: bool,
    /// Whether the first plan is in place, and the program attached if it is to be.
    has_started: bool,
    /// The filters that the program has, or is about to have, with their tables.
    filters: BTreeMap<RuleId, (usize, Rule)>,
    /// The filters of five-tuples; their hits show that the flows are alive.
    tuples: HashMap<RuleId, FiveTuple>,
}

impl ProgramTarget {
    /// The sampling of a stack's own program: the number of flows distinguished between two reads, and
    /// the number of packets of which one is sampled.
    pub const SAMPLING: [u32; 2] = [8192, 4];

    /// A program that is attached elsewhere, for instance for the sockets of a link.
    pub fn attached(steering: XdpSteering) -> ProgramTarget {
        ProgramTarget {
            steering: Some(steering),
            attachment: None,
            features: None,
            is_detached: false,
            must_attach: false,
            has_started: false,
            filters: BTreeMap::new(),
            tuples: HashMap::new(),
        }
    }

    /// A program that is attached once its first filters are in place, and detached at the end.
    pub fn to_attach(steering: XdpSteering, attachment: Attachment) -> ProgramTarget {
        ProgramTarget { attachment: Some(attachment), ..ProgramTarget::attached(steering) }
    }

    /// Has features of the device switched (`ethtool -K`) as the program needs them, and given back at the end.
    #[must_use]
    pub fn with_features_of(mut self, device: SharedNicSteering) -> ProgramTarget {
        self.features = Some(Features::new(device));
        self
    }

    /// The features that have to be on or off. A tag that the device takes out of a frame is invisible to the rules,
    /// and lost on the way to a CPU, unless the program runs behind the driver, where it stays beside the frame.
    fn wanted_features(&self, search: &Search) -> BTreeMap<String, bool> {
        let nic = search.nic();
        let mut wanted = switches(&nic.settings(&self.configuration(search)));
        let mode = self.steering.as_ref().and_then(XdpSteering::mode);
        let mode = mode.or_else(|| self.attachment.as_ref()?.attach_mode());
        if self.attachment.is_some() && mode != Some(AttachMode::Generic) {
            wanted.extend(nic.strips().into_iter().map(|name| (name, false)));
        }
        wanted
    }

    /// Switches features for the filters that the program has. Filters that look for what a device takes out of frames all
    /// the same are planned around.
    fn follow_features(&mut self, search: &mut Search) -> Result<Applied, TargetError> {
        let wanted = self.wanted_features(search);
        let Some(features) = &mut self.features else { return Ok(Applied::default()) };
        let (lines, kept) = features.follow(&wanted)?;
        let mut applied = Applied { lines, refused: Vec::new() };
        for name in kept {
            let why = features.why(&name);
            let nic = search.nic();
            let blind = self.filters.iter().filter(|(_, (at, rule))| nic.hides(&name, *at, rule));
            let blind: Vec<_> = blind.map(|(id, _)| (*id, Refused::Kind, why.to_owned())).collect();
            match search.refuse_all(&blind) {
                true => applied.refused.push(why.to_owned()),
                false => applied.lines.push(format!("note: {why}: {LOSES_TAGS}")),
            }
        }
        Ok(applied)
    }

    /// Attaches the program again if it is to be, and says how things are if somebody detached it.
    fn attach_again(&mut self) -> Result<Option<String>, TargetError> {
        let Some(steering) = self.steering.as_mut().filter(|_| self.is_detached) else {
            return Ok(None);
        };
        if !std::mem::take(&mut self.must_attach) {
            return Ok(Some(format!("note: {DETACHED}")));
        }
        steering.attach_again()?;
        self.is_detached = false;
        Ok(Some("the program is attached again".into()))
    }

    /// Follows changes of the plan.
    fn note(&mut self, nic: &Nic, changes: &[DeviceChange]) {
        for change in changes {
            match change {
                DeviceChange::Insert { table, id, rule }
                | DeviceChange::Retarget { table, id, rule } => {
                    let packets = rule.matches(&nic.tables[*table].model);
                    self.tuples.extend(FiveTuple::of(&packets).map(|tuple| (*id, tuple)));
                    self.filters.insert(*id, (*table, rule.clone()));
                }
                DeviceChange::Remove { id, .. } => self.forget(*id),
            }
        }
    }

    fn forget(&mut self, id: RuleId) {
        self.filters.remove(&id);
        self.tuples.remove(&id);
    }

    /// Applies all changes to the program, and plans around refused ones.
    fn update(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
        switches: bool,
    ) -> Result<(ProgramReport, Applied), TargetError> {
        let (mut all, mut switched) = (ProgramReport::default(), Applied::default());
        for _ in 0..MAX_REPLANS {
            let changes = search.take_changes();
            if changes.is_empty() {
                break;
            }
            self.note(search.nic(), &changes);
            receivers.prepare(search.nic(), &self.configuration(search));
            let Some(steering) = &mut self.steering else { break };
            let outcome = match steering.apply(&changes) {
                Ok(outcome) => outcome,
                Err(error) => {
                    receivers.abandon();
                    return Err(error.into());
                }
            };
            outcome.failed.iter().for_each(|(id, _)| self.forget(*id));
            outcome.tell(search);
            receivers.commit(search.nic(), &self.configuration(search));
            all.add(outcome);
            if switches {
                switched.add(self.follow_features(search)?);
            }
        }
        Ok((all, switched))
    }

    /// The first plan: it satisfies the policy, or nothing is attached.
    fn start(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
        attach: bool,
    ) -> Result<Applied, TargetError> {
        let (outcome, mut applied) = self.update(search, receivers, attach)?;
        if attach {
            // Before the program is there, so that no tag is lost.
            applied.add(self.follow_features(search)?);
        }
        let has_failed = !outcome.failed.is_empty() || !applied.refused.is_empty();
        if has_failed && !search.cost().is_acceptable() {
            let mut reasons = reasons(&outcome);
            reasons.append(&mut applied.refused);
            reasons.extend(search.plan().complaints);
            return Err(TargetError::Unsatisfied { reasons });
        }
        if let (true, Some(attachment), Some(steering)) =
            (attach, &self.attachment, &mut self.steering)
        {
            // Only when all filters are there, so that no flow goes astray first.
            applied.lines.extend(attachment.attach(steering)?);
        }
        applied.add(applied_of(&outcome));
        self.has_started = attach;
        Ok(applied)
    }
}

impl Target for ProgramTarget {
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, TargetError> {
        // The kernel checks the program without its being attached.
        let applied = self.start(search, &mut NoReceivers, false)?;
        let device = self.attachment.as_ref().map(|a| a.device.as_str()).unwrap_or_default();
        let mut lines = applied.lines;
        if let Some(features) = &self.features {
            lines.extend(features.preview(self.wanted_features(search))?);
        }
        lines.push(format!("a program would be attached to {device}; --apply does it"));
        Ok(lines)
    }

    fn apply(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
    ) -> Result<Applied, TargetError> {
        match self.has_started {
            false => self.start(search, receivers, true),
            true => {
                let again = self.attach_again()?;
                let (outcome, mut applied) = self.update(search, receivers, true)?;
                applied.lines.splice(..0, again);
                applied.add(applied_of(&outcome));
                Ok(applied)
            }
        }
    }

    fn look(&mut self) -> Result<bool, TargetError> {
        let Some(steering) = &self.steering else { return Ok(false) };
        let was = std::mem::replace(&mut self.is_detached, steering.is_detached()?);
        // Said once; it is somebody's wish.
        Ok(self.is_detached && !was)
    }

    fn shortfall(&self) -> Option<String> {
        self.is_detached.then(|| DETACHED.into())
    }

    fn renew(&mut self) {
        self.must_attach = self.is_detached;
    }

    fn configuration(&self, search: &Search) -> Configuration {
        let mut rules = vec![Vec::new(); search.nic().tables.len()];
        for (table, rule) in self.filters.values() {
            rules[*table].push(rule.clone());
        }
        // The program has one hash and no contexts.
        Configuration { rules, rss: search.rss().clone(), ..Configuration::default() }
    }

    fn take_missed(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        let Some(steering) = &self.steering else { return Ok(()) };
        Ok(steering.take_missed(take).map(drop)?)
    }

    fn take_hits(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        let Some(steering) = &mut self.steering else { return Ok(()) };
        for (id, hits) in steering.take_hits()? {
            self.tuples.get(&id).into_iter().for_each(|tuple| take(*tuple, hits));
        }
        Ok(())
    }

    fn hits(&self) -> Option<Vec<(RuleId, u64)>> {
        Some(self.steering.as_ref()?.hits().unwrap_or_default())
    }

    fn switches(&mut self, search: &Search) -> Result<Vec<Switch>, TargetError> {
        let wanted = self.wanted_features(search);
        self.features.as_ref().map_or(Ok(Vec::new()), |features| features.found(wanted))
    }

    fn arrivals(&mut self, search: &Search) -> Result<Arrivals, TargetError> {
        let mut arrivals = Arrivals { counts_by_filter: true, ..Arrivals::default() };
        arrivals.queues.resize(search.nic().queues.hi as usize + 1, 0);
        let Some(steering) = &self.steering else { return Ok(arrivals) };
        arrivals.spread = steering.missed()?;
        for (id, hits) in steering.hits()? {
            match self.filters.get(&id).map(|(_, rule)| rule.target) {
                Some(To::Queue(queue)) => arrivals.queues[queue as usize] += hits,
                Some(To::Drop) => arrivals.dropped += hits,
                // The program has no contexts.
                Some(To::Context(_)) | None => {}
            }
        }
        Ok(arrivals)
    }

    fn counts_flows(&self) -> bool {
        true
    }

    fn filters(&self) -> usize {
        self.filters.len()
    }

    fn gather(&mut self, search: &Search, all: bool) -> Result<bool, TargetError> {
        let Some(steering) = &mut self.steering else { return Ok(false) };
        let planned = search.rss();
        let to_default = Rss { table: Vec::new(), ..planned.clone() };
        steering.set_rss(if all { &to_default } else { planned })?;
        Ok(true)
    }

    fn finish(&mut self) -> Result<Vec<String>, TargetError> {
        let Some(steering) = self.steering.take() else { return Ok(Vec::new()) };
        let counted = steering.taken().and_then(|taken| Ok((taken, steering.missed()?)));
        drop(steering);
        let mut lines = self.features.as_mut().map_or(Ok(Vec::new()), Features::give_back)?;
        let Some(Attachment { device, .. }) = &self.attachment else { return Ok(lines) };
        let (taken, missed) = counted?;
        lines.push(format!(
            "filters took {taken} frames, {missed} were spread; the program is gone from {device}"
        ));
        Ok(lines)
    }
}

fn applied_of(outcome: &ProgramReport) -> Applied {
    let ProgramReport { inserted, removed, retargeted, exchanged, failed } = outcome;
    let how = if *exchanged { "a new program" } else { "the maps of the program" };
    let mut lines = Vec::new();
    if inserted + removed + retargeted > 0 {
        lines.push(format!(
            "filters: {inserted} added, {removed} removed, {retargeted} changed, by {how}"
        ));
    }
    let refused = if failed.is_empty() { Vec::new() } else { reasons(outcome) };
    Applied { lines, refused }
}

/// Why filters were refused, with the number of filters for each reason.
fn reasons(outcome: &ProgramReport) -> Vec<String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, error) in &outcome.failed {
        *reasons.entry(error.to_string()).or_default() += 1;
    }
    reasons.into_iter().take(MAX_REASONS).map(|(why, n)| format!("{n} refused: {why}")).collect()
}
