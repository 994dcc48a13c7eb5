//! From the command to the end.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weever_commands_plan::load_model;
use weever_device::claim::{self, Claim};
use weever_device::ethtool::{Driver, EthtoolError, KernelDriver};
use weever_device::{ifindex, model_of, name_of};

use crate::backend::Backend;
use crate::nic::NicFilters;
use crate::planner::Planner;
use crate::program::Program;
use crate::signals::Ending;
use crate::{SteerArgs, SteerError, cpus};

/// How often traffic is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Steers, until a signal comes if it is to be applied.
///
/// # Errors
/// [`SteerError`]; the device is as it was found then, unless the error says otherwise.
pub fn run(args: &SteerArgs) -> Result<ExitCode, SteerError> {
    let index = ifindex(&args.dev).ok_or_else(|| SteerError::NoDevice(args.dev.clone()))?;
    let mut driver = KernelDriver::open(&args.dev)?;
    if args.undo {
        let claim = Claim::of(&args.dev, index, "`weever steer --undo`")?;
        tell(&NicFilters::new(args, driver, index, Some(claim))?.undo()?);
        return Ok(ExitCode::SUCCESS);
    }
    let name = match args.model.as_str() {
        "auto" => model_of(&mut driver)?,
        name => name,
    };
    let is_program = name == "xdp";
    if is_program && args.persist {
        let why = "the program goes with the process: run it as a service instead of --persist";
        return Err(SteerError::Usage(why.into()));
    }
    let cpus = cpus::of(args.cpus.as_deref())?;
    let queues = match is_program {
        true => args.queues.unwrap_or(cpus.len() as u32),
        false => queues(args, &mut driver)?,
    };
    let mut planner = Planner::new(args, load_model(name, Some(queues))?)?;
    let claim = claim(args, index, is_program)?;
    let mut backend: Box<dyn Backend> = match is_program {
        true => {
            let flows = planner.search.len();
            Box::new(Program::new(args, &mut driver, index, cpus, flows, claim))
        }
        false => Box::new(NicFilters::new(args, driver, index, claim)?),
    };
    let _ = planner.notes.iter().try_for_each(|note| writeln!(std::io::stderr(), "{note}"));
    tell(&planner.describe(|queue| backend.queue(queue)));
    if !args.apply {
        tell(&backend.preview(&mut planner.search)?);
        return Ok(ExitCode::SUCCESS);
    }
    apply(args, index, &mut planner, &mut *backend)?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps others from the device if something is to be done to it.
fn claim(args: &SteerArgs, index: u32, is_program: bool) -> Result<Option<Claim>, SteerError> {
    if args.apply {
        let how = if is_program { "with a program" } else { "with the NIC's filters" };
        return Ok(Some(Claim::of(&args.dev, index, &format!("`weever steer`, {how}"))?));
    }
    if let Some(holder) = claim::holder(index) {
        tell(&[format!("note: {} is steered already, by {holder}", args.dev)]);
    }
    Ok(None)
}

/// As many queues as the device has switched on, if nobody says how many.
fn queues(args: &SteerArgs, driver: &mut KernelDriver) -> Result<u32, EthtoolError> {
    match args.queues {
        Some(queues) => Ok(queues),
        None => Ok(driver.channels()?.receiving().max(1)),
    }
}

fn apply(
    args: &SteerArgs,
    index: u32,
    planner: &mut Planner,
    backend: &mut dyn Backend,
) -> Result<(), SteerError> {
    let ending = Ending::watch()?;
    tell(&backend.update(&mut planner.search)?);
    if args.persist && !args.watch {
        tell(&backend.finish()?);
        return Ok(());
    }
    let ran = steer(args, index, &ending, planner, backend);
    if planner.refused() > 0 {
        tell(&[format!(
            "new flows were left out {} times: --most is the limit",
            planner.refused()
        )]);
    }
    // Undone whatever happened, and the first error is the one to tell.
    let finished = backend.finish();
    ran?;
    tell(&finished?);
    Ok(())
}

/// Follows the traffic until a signal comes.
fn steer(
    args: &SteerArgs,
    index: u32,
    ending: &Ending,
    planner: &mut Planner,
    backend: &mut dyn Backend,
) -> Result<(), SteerError> {
    if args.watch {
        backend.watch(args.most, args.every)?;
    }
    tell(&["steering; Ctrl-C ends it".into()]);
    let start = Instant::now();
    while !ending.within(TICK) {
        is_there(args, index, backend)?;
        if args.watch {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Err(error) = follow(planner, backend, now) {
                is_there(args, index, backend)?;
                return Err(error);
            }
        }
    }
    Ok(())
}

fn follow(planner: &mut Planner, backend: &mut dyn Backend, now: u64) -> Result<(), SteerError> {
    backend.traffic(&mut |flow, packets| planner.saw(now, flow, packets))?;
    if let Some(told) = planner.follow(now) {
        tell(&[told]);
        tell(&backend.update(&mut planner.search)?);
    }
    Ok(())
}

/// That the device is there, and has the name that it had.
fn is_there(args: &SteerArgs, index: u32, backend: &dyn Backend) -> Result<(), SteerError> {
    let device = args.dev.clone();
    match name_of(index) {
        Some(name) if name == device => Ok(()),
        Some(name) => Err(SteerError::Renamed { device, name }),
        None => {
            let filters = match backend.filters() {
                0 => String::new(),
                count => format!(", and its {count} filters with it"),
            };
            Err(SteerError::Vanished { device, filters })
        }
    }
}

/// Nobody may be left to read it.
fn tell(lines: &[String]) {
    let mut out = io::stdout().lock();
    for line in lines {
        drop(writeln!(out, "{line}"));
    }
    drop(out.flush());
}
