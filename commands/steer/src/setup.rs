//! From the command line to a plan, and to the target that will have it.

use std::path::Path;

use weever_commands_plan::{Model, load_flows, load_model, load_policy};
use weever_device::actions::StateFile;
use weever_device::claim::Claim;
use weever_device::ethtool::{Driver, EthtoolError, KernelDriver};
use weever_device::nic::NicSteering;
use weever_device::state::DeviceState;
use weever_device::xdp::{FlowCounter, XdpSteering};
use weever_device::{as_found, hands_over_partial_checksums};
use weever_plan::search::Options;
use weever_plan::watch;
use weever_policy::Problems;
use weever_policy::flows::FlowList;
use weever_steward::{
    Attachment, InitialPlan, NicTarget, Origin, ProgramTarget, Settings, SharedNicSteering, Target,
};

use crate::{SteerArgs, SteerError};

const SECOND: u64 = 1_000_000_000;
const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";
/// No machine has more CPUs.
const MAX_CPUS: u32 = 8192;
/// The least and the most room in a map of filters.
const FILTER_ROOM: (usize, usize) = (4096, 1 << 20);

/// Reads policy and flows, and plans. The notes are warnings about the files, a line each.
///
/// # Errors
/// A file is wrong, or the policy cannot be satisfied.
pub(crate) fn plan(
    args: &SteerArgs,
    model: &str,
    queues: u32,
) -> Result<(InitialPlan, Vec<String>), SteerError> {
    let mut policy = load_policy(args.policy.as_deref())?;
    let list = match &args.flows {
        Some(path) => load_flows(path, args.keep_going)?,
        None => FlowList::default(),
    };
    let mut notes = Vec::new();
    note(&mut notes, "left out", &list.problems);
    note(&mut notes, "warning", &policy.warnings);
    if policy.document.paths.is_some() {
        notes.push("left out: `[paths]` is about weever's own graph, not the kernel's".into());
    }
    if policy.document.sharing.take().is_some() {
        notes.push("left out: `[sharing]` is about weever's own workers, not the kernel's".into());
    }
    let Model { mut nic, silicon, .. } = load_model(model, Some(queues))?;
    if model != "xdp" {
        nic = as_found(&mut KernelDriver::open(&args.dev)?, nic)?;
    }
    let options = Options { seed: args.seed, silicon, ..Options::default() };
    let flows = list.flows.into_iter().map(|flow| (Origin::File, flow));
    let (mut planned, problems) = InitialPlan::new(policy, flows, nic, options, None);
    note(&mut notes, "class of the packets used instead", &problems);
    let complaints = planned.complaints();
    match complaints.is_empty() {
        true => Ok((planned, notes)),
        false => Err(SteerError::Unsatisfied(complaints.join("\n  "))),
    }
}

/// Plans around the rules that others have on a NIC, and returns a note on them.
///
/// # Errors
/// Beside them the policy cannot be satisfied, or the device cannot be read.
pub(crate) fn around_others(
    args: &SteerArgs,
    ifindex: u32,
    planned: &mut InitialPlan,
) -> Result<Option<String>, SteerError> {
    let (driver, file) = (KernelDriver::open(&args.dev)?, state_file(ifindex)?);
    let others = NicSteering::new(Box::new(driver), file)?.others(planned.search().nic())?;
    let note = others.note();
    planned.plan_around(others.known);
    let mut complaints = planned.complaints();
    complaints.splice(..0, note.clone());
    match planned.search().cost().is_acceptable() {
        true => Ok(note),
        false => Err(SteerError::Unsatisfied(complaints.join("\n  "))),
    }
}

fn state_file(ifindex: u32) -> Result<StateFile, SteerError> {
    Ok(StateFile::of(Path::new(StateFile::FOLDER), ifindex)?)
}

fn note(notes: &mut Vec<String>, what: &str, problems: &Problems) {
    if !problems.is_empty() {
        notes.extend(problems.to_string().lines().map(|line| format!("{what}: {line}")));
    }
}

/// How flows are found by their traffic. The flows of a file stand as they are.
pub(crate) fn settings(args: &SteerArgs) -> Settings {
    let watch = watch::Settings {
        most: args.most as usize,
        rate: args.rate,
        stale: args.stale.max(1).saturating_mul(SECOND),
        ..watch::Settings::default()
    };
    Settings { watch, skip_registered: true }
}

/// What a device has now, with what an earlier process left on it.
pub(crate) fn state(
    driver: &mut KernelDriver,
    ifindex: u32,
    model: &str,
) -> Result<DeviceState, SteerError> {
    let record = state_file(ifindex)?.load()?;
    let nic = load_model(model, None).ok().map(|model| model.nic);
    Ok(DeviceState::read(driver, nic.as_ref(), &record)?)
}

/// The number of queues: as the command line says, as many as the device has switched on, or one for
/// each CPU.
pub(crate) fn queues(
    args: &SteerArgs,
    driver: &mut KernelDriver,
    cpus: Option<&[u32]>,
) -> Result<u32, EthtoolError> {
    match (args.queues, cpus) {
        (Some(queues), _) => Ok(queues),
        (None, Some(cpus)) => Ok(cpus.len() as u32),
        (None, None) => Ok(driver.channels()?.receiving().max(1)),
    }
}

/// A program that sends frames to CPUs, loaded but not attached.
pub(crate) fn program(
    args: &SteerArgs,
    driver: &mut dyn Driver,
    ifindex: u32,
    cpus: &[u32],
    planned: &mut InitialPlan,
) -> Result<Box<dyn Target>, SteerError> {
    let search = planned.search();
    let watched = if args.watch { args.most as usize } else { 0 };
    let room = (2 * search.len()).max(watched).clamp(FILTER_ROOM.0, FILTER_ROOM.1);
    let steering = XdpSteering::onto_cpus(search.nic(), search.rss(), cpus, room as u32);
    let mut steering = steering?;
    if args.watch {
        steering.sample(args.most, args.every)?;
    }
    let attachment = Attachment {
        device: args.dev.clone(),
        ifindex,
        mode: args.mode.into(),
        partial_checksums: hands_over_partial_checksums(driver),
    };
    let device = NicSteering::new(Box::new(KernelDriver::open(&args.dev)?), state_file(ifindex)?)?;
    let target = ProgramTarget::to_attach(steering, attachment);
    Ok(Box::new(target.with_features_of(SharedNicSteering::new(device))))
}

/// The filters of a NIC, with those that an earlier process left on it.
pub(crate) fn nic(
    args: &SteerArgs,
    driver: KernelDriver,
    ifindex: u32,
) -> Result<NicTarget, SteerError> {
    let file = state_file(ifindex)?;
    let steering = SharedNicSteering::new(NicSteering::new(Box::new(driver), file)?);
    let counter = match args.watch {
        true => Some(FlowCounter::attach(ifindex, args.most, args.every)?),
        false => None,
    };
    Ok(NicTarget::new(steering, counter, args.persist))
}

/// Keeps other processes from the device if something is to be done to it.
pub(crate) fn claim(
    args: &SteerArgs,
    ifindex: u32,
    is_program: bool,
) -> Result<Option<Claim>, SteerError> {
    let how = match (args.undo, is_program) {
        (true, _) => "`weever steer --undo`",
        (_, true) => "`weever steer`, with a program",
        (_, false) => "`weever steer`, with the NIC's filters",
    };
    let wanted = args.apply || args.undo || args.verify.is_some();
    Ok(wanted.then(|| Claim::of(&args.dev, ifindex, how)).transpose()?)
}

/// The CPUs of the command line's list, or all that are online.
pub(crate) fn cpus(list: Option<&str>) -> Result<Vec<u32>, SteerError> {
    match list {
        Some(list) => parse_cpus(list).ok_or_else(|| SteerError::Cpus(list.into())),
        None => {
            let online = std::fs::read_to_string(ONLINE_CPUS).unwrap_or_else(|_| "0".into());
            Ok(parse_cpus(online.trim()).unwrap_or_else(|| vec![0]))
        }
    }
}

fn parse_cpus(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    let is_repeated = |at: usize| cpus[..at].contains(&cpus[at]);
    (!(0..cpus.len()).any(is_repeated)).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse_cpus;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpus("0"), Some(vec![0]));
        assert_eq!(parse_cpus("3,0-1"), Some(vec![3, 0, 1]));
        for wrong in ["", "a", "1-0", "0,0", "0-99999999", "1,,2", "-1"] {
            assert_eq!(parse_cpus(wrong), None, "{wrong}");
        }
    }
}
