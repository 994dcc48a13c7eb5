//! A program that sorts frames onto CPUs.

use std::collections::BTreeMap;

use weever_device::claim::Claim;
use weever_device::ethtool::Driver;
use weever_device::hands_over_partial_checksums;
use weever_device::xdp::{AttachMode, Outcome, XdpSteering};
use weever_plan::search::Search;
use weever_plan::watch::FiveTuple;

use crate::args::Mode;
use crate::backend::{Backend, UNSATISFIED};
use crate::{SteerArgs, SteerError};

/// The least and the most room in a map of filters.
const ROOM: (usize, usize) = (4096, 1 << 20);

/// More reasons are not shown.
const SHOWN: usize = 10;

/// The model `xdp` on a device.
pub(crate) struct Program {
    ifindex: u32,
    device: String,
    cpus: Vec<u32>,
    room: usize,
    mode: Mode,
    has_partial_checksums: bool,
    steering: Option<XdpSteering>,
    /// Given up last.
    _claim: Option<Claim>,
}

impl Program {
    pub(crate) fn new(
        args: &SteerArgs,
        driver: &mut dyn Driver,
        ifindex: u32,
        cpus: Vec<u32>,
        flows: usize,
        claim: Option<Claim>,
    ) -> Program {
        let watched = if args.watch { args.most as usize } else { 0 };
        let room = (2 * flows).max(watched).clamp(ROOM.0, ROOM.1);
        Program {
            ifindex,
            device: args.dev.clone(),
            cpus,
            room,
            mode: args.mode,
            has_partial_checksums: hands_over_partial_checksums(driver),
            steering: None,
            _claim: claim,
        }
    }

    fn load(&self, search: &Search) -> Result<XdpSteering, SteerError> {
        let room = self.room as u32;
        Ok(XdpSteering::onto_cpus(search.nic(), search.rss(), &self.cpus, room)?)
    }

    fn attach(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let mut steering = self.load(search)?;
        let outcome = steering.follow(search)?;
        satisfied(&outcome, search)?;
        // Only when all filters are there, so that no flow goes astray first.
        match self.attach_mode() {
            None => steering.attach(self.ifindex)?,
            Some(mode) => steering.attach_in(self.ifindex, mode)?,
        }
        let mode = steering.mode();
        let shown = mode.map(|mode| mode.to_string()).unwrap_or_default();
        let mut lines = vec![format!("attached to {} in {shown} mode", self.device)];
        lines.extend(self.about_checksums(mode).map(str::to_owned));
        lines.extend(told(&outcome, search));
        self.steering = Some(steering);
        Ok(lines)
    }
}

impl Program {
    /// A program in the driver makes the kernel forget that a frame's checksum is unfinished; behind
    /// it, the kernel still knows when the frame has come to its CPU.
    fn attach_mode(&self) -> Option<AttachMode> {
        match self.mode {
            Mode::Auto if self.has_partial_checksums => Some(AttachMode::Generic),
            Mode::Auto => None,
            Mode::Native => Some(AttachMode::Native),
            Mode::Generic => Some(AttachMode::Generic),
        }
    }

    fn about_checksums(&self, mode: Option<AttachMode>) -> Option<&'static str> {
        match (self.has_partial_checksums, mode) {
            (true, Some(AttachMode::Native)) => Some(
                "note: frames from a kernel of this machine come here with unfinished checksums and \
                 would be lost on their way to a CPU: switch that off at the sending end, \
                 `ethtool -K PEER tx off`, or take `--mode generic`",
            ),
            (true, Some(AttachMode::Generic)) if self.mode == Mode::Auto => Some(
                "note: behind the driver, for the sake of unfinished checksums of this machine's own \
                 frames; `--mode native` is faster where the sending end finishes them",
            ),
            _ => None,
        }
    }
}

impl Backend for Program {
    fn preview(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        // The kernel checks the program without its being attached.
        let outcome = self.load(search)?.follow(search)?;
        satisfied(&outcome, search)?;
        let mut lines = told(&outcome, search);
        lines.push(format!("a program would be attached to {}; --apply does it", self.device));
        Ok(lines)
    }

    fn update(&mut self, search: &mut Search) -> Result<Vec<String>, SteerError> {
        let Some(steering) = &mut self.steering else { return self.attach(search) };
        let outcome = steering.follow(search)?;
        Ok(told(&outcome, search))
    }

    fn watch(&mut self, flows: u32, every: u32) -> Result<(), SteerError> {
        let Some(steering) = &mut self.steering else { return Ok(()) };
        Ok(steering.sample(flows, every)?)
    }

    fn traffic(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), SteerError> {
        let Some(steering) = &mut self.steering else { return Ok(()) };
        Ok(steering.take_traffic(take)?)
    }

    fn finish(&mut self) -> Result<Vec<String>, SteerError> {
        let Some(steering) = self.steering.take() else { return Ok(Vec::new()) };
        let (taken, missed) = (steering.taken()?, steering.missed()?);
        drop(steering);
        Ok(vec![format!(
            "filters took {taken} frames, {missed} were spread; the program is gone from {}",
            self.device
        )])
    }

    fn queue(&self, queue: u32) -> String {
        let cpu = self.cpus.get(queue as usize % self.cpus.len().max(1));
        format!("queue {queue}, CPU {}", cpu.copied().unwrap_or_default())
    }

    fn filters(&self) -> usize {
        self.steering.as_ref().map_or(0, XdpSteering::rules)
    }
}

/// That the policy is satisfied without what was refused, as it was with it.
fn satisfied(outcome: &Outcome, search: &mut Search) -> Result<(), SteerError> {
    if outcome.failed.is_empty() || search.cost().is_acceptable() {
        return Ok(());
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (_, error) in &outcome.failed {
        *reasons.entry(error.to_string()).or_default() += 1;
    }
    let said = reasons.into_iter().take(SHOWN).map(|(why, n)| format!("  {n} refused: {why}"));
    let complaints = search.plan().complaints.into_iter().map(|complaint| format!("  {complaint}"));
    let lines: Vec<String> = said.chain(complaints).collect();
    Err(SteerError::Unsatisfied(lines.join("\n")))
}

fn told(outcome: &Outcome, search: &Search) -> Vec<String> {
    let Outcome { inserted, removed, retargeted, exchanged, failed } = outcome;
    let how = if *exchanged { "a new program" } else { "the maps of the program" };
    let mut lines = Vec::new();
    if inserted + removed + retargeted > 0 {
        lines.push(format!(
            "filters: {inserted} added, {removed} removed, {retargeted} changed, by {how}"
        ));
    }
    if let Some((_, first)) = failed.first() {
        let count = failed.len();
        lines.push(format!("filters: {count} were refused and planned around: {first}"));
        if !search.cost().is_acceptable() {
            lines.push(UNSATISFIED.into());
        }
    }
    lines
}
