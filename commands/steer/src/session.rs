//! From the command to the end: the steward runs until a signal comes.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use weever_device::ethtool::KernelDriver;
use weever_device::{claim, ifindex, model_of, name_of};
use weever_plan::map::Placement;
use weever_plan::search::Plan;
use weever_policy::policy::CheckedPolicy;
use weever_steward::{InitialPlan, Step, Steward, Target, TargetError, pause_after};

use crate::{SteerArgs, SteerError, setup};

/// The device and the planned part of it: what a plan for another policy needs.
struct Scene<'a> {
    args: &'a SteerArgs,
    index: u32,
    model: &'a str,
    queues: u32,
}

/// More flows are not shown one by one.
const MAX_FLOWS: usize = 40;

/// Steers, until a signal comes if the plan is to be applied.
///
/// # Errors
/// [`SteerError`]; the device is as it was found then, unless the error says otherwise.
pub fn run(args: &SteerArgs) -> Result<ExitCode, SteerError> {
    let index = ifindex(&args.dev).ok_or_else(|| SteerError::NoDevice(args.dev.clone()))?;
    let mut driver = KernelDriver::open(&args.dev)?;
    if args.undo {
        let _claim = setup::claim(args, index, false)?;
        tell(&setup::nic(args, driver, index)?.undo()?);
        return Ok(ExitCode::SUCCESS);
    }
    let model = match args.model.as_str() {
        "auto" => model_of(&mut driver, weever_models::nic_of_driver)?,
        name => name,
    };
    let is_program = model == "xdp";
    if is_program && args.persist {
        let why = "the program goes with the process: run it as a service instead of --persist";
        return Err(SteerError::Usage(why.into()));
    }
    let cpus = setup::cpus(args.cpus.as_deref())?;
    let cpus = is_program.then_some(cpus);
    let queues = setup::queues(args, &mut driver, cpus.as_deref())?;
    let (mut planned, notes) = setup::plan(args, model, queues)?;
    // Given up last.
    let _claim = setup::claim(args, index, is_program)?;
    if let Some(holder) = (!args.apply).then(|| claim::holder(index)).flatten() {
        tell(&[format!("note: {} is steered already, by {holder}", args.dev)]);
    }
    let _ = notes.iter().try_for_each(|note| writeln!(io::stderr(), "{note}"));
    let plan = planned.search().plan();
    tell(&describe(&plan, planned.policy(), |queue| shown(queue, cpus.as_deref())));
    let mut target: Box<dyn Target> = match &cpus {
        Some(cpus) => setup::program(args, &mut driver, index, cpus, &mut planned)?,
        None => Box::new(setup::nic(args, driver, index)?),
    };
    if !args.apply {
        let lines = target.preview(planned.search()).map_err(unsatisfied)?;
        tell(&lines);
        return Ok(ExitCode::SUCCESS);
    }
    apply(&Scene { args, index, model, queues }, planned, target)?;
    Ok(ExitCode::SUCCESS)
}

/// Applies the plan, and steers until a signal comes.
fn apply(
    scene: &Scene<'_>,
    planned: InitialPlan,
    target: Box<dyn Target>,
) -> Result<(), SteerError> {
    let args = scene.args;
    let ending = StopFlag::watch()?;
    let started = Steward::start(&args.dev, planned, target, setup::settings(args));
    let (mut steward, applied) = started.map_err(unsatisfied)?;
    tell(&applied.lines);
    tell_refused(&applied.refused, &mut steward);
    let ran = match args.persist && !args.watch {
        true => Ok(()),
        false => steer(scene, &ending, &mut steward),
    };
    let left_out = steward.stats().refused;
    if left_out > 0 {
        tell(&[format!("new flows were left out {left_out} times: --most is the limit")]);
    }
    // Undone in any case; the first error is reported.
    let finished = steward.finish();
    ran?;
    tell(&finished?);
    Ok(())
}

/// Runs the steward until a signal comes.
fn steer(scene: &Scene<'_>, ending: &StopFlag, steward: &mut Steward) -> Result<(), SteerError> {
    let Scene { args, index, .. } = *scene;
    tell(&["steering; Ctrl-C ends it, SIGHUP reads the files again".into()]);
    let start = Instant::now();
    let mut worked = Duration::ZERO;
    while !ending.within(pause_after(worked, Duration::ZERO)) {
        let began = Instant::now();
        is_there(args, index, steward)?;
        let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if ending.take_reload() {
            reload(scene, now, steward);
        }
        let step = steward.step(now);
        tell_step(&step, steward);
        if let Some(error) = step.failure {
            is_there(args, index, steward)?;
            return Err(error.into());
        }
        worked = began.elapsed();
    }
    Ok(())
}

/// Goes on with the files as they are now. Files that are wrong, or a policy that cannot be satisfied, leave everything
/// as it is.
fn reload(scene: &Scene<'_>, now: u64, steward: &mut Steward) {
    match setup::plan(scene.args, scene.model, scene.queues) {
        Ok((planned, notes)) => {
            tell(&notes);
            let step = steward.reload(now, planned);
            let (flows, filters) = (steward.search().len(), steward.filters());
            tell(&[format!("read again: flows {flows}, filters {filters}")]);
            tell_step(&step, steward);
            if let Some(error) = step.failure {
                tell(&[format!(
                    "the device does not take the new plan, and is tried again: {error}"
                )]);
            }
        }
        Err(error) => tell(&[format!("not read again, the former plan stays: {error}")]),
    }
}

fn tell_step(step: &Step, steward: &mut Steward) {
    if !step.came.is_empty() || step.gone > 0 {
        tell(&[format!("flows: {} came, {} went", step.came.len(), step.gone)]);
    }
    if !step.unplaced.is_empty() {
        let count = step.unplaced.len();
        tell(&[format!(
            "flows: the policy has no place for {count} more; other traffic's queues get them"
        )]);
    }
    tell(&step.applied.lines);
    tell_refused(&step.applied.refused, steward);
}

fn tell_refused(refused: &[String], steward: &mut Steward) {
    let mut lines: Vec<String> =
        refused.iter().map(|why| format!("note: planned without a filter: {why}")).collect();
    let complaints = if refused.is_empty() { Vec::new() } else { steward.complaints() };
    if !complaints.is_empty() {
        lines.push("note: without them the policy cannot be satisfied:".into());
        lines.extend(complaints.iter().map(|complaint| format!("  {complaint}")));
    }
    tell(&lines);
}

/// The device's refusal of filters at the start leaves the policy unsatisfied.
fn unsatisfied(error: TargetError) -> SteerError {
    match error {
        TargetError::Unsatisfied { reasons } => SteerError::Unsatisfied(reasons.join("\n  ")),
        error => error.into(),
    }
}

/// Checks that the device is there, and has the name that it had.
fn is_there(args: &SteerArgs, index: u32, steward: &Steward) -> Result<(), SteerError> {
    let device = args.dev.clone();
    match name_of(index) {
        Some(name) if name == device => Ok(()),
        Some(name) => Err(SteerError::Renamed { device, name }),
        None => {
            let filters = match steward.filters() {
                0 => String::new(),
                count => format!(", and its {count} filters with it"),
            };
            Err(SteerError::Vanished { device, filters })
        }
    }
}

/// The plan for people: where flows arrive, and which have no place of their own.
fn describe(plan: &Plan, policy: &CheckedPolicy, queue: impl Fn(u32) -> String) -> Vec<String> {
    let head = format!(
        "{}: queues {}, flows {}, filters {}, cost {}",
        plan.nic,
        plan.queues.len(),
        plan.flows.len(),
        plan.rules.len(),
        plan.cost
    );
    let mut lines = vec![head];
    for flow in plan.flows.iter().take(MAX_FLOWS) {
        let class = policy.document.class_name(flow.class);
        let at = match &flow.placement {
            Placement::One(at) => queue(*at),
            placement if !placement.arrives() => "dropped".into(),
            Placement::Spread(spread) => {
                let all = spread.shares.iter().map(|(at, _)| at.to_string());
                format!("spread over queues {}", all.collect::<Vec<_>>().join(" "))
            }
        };
        lines.push(format!("  {} (class {class}): {at}", flow.name));
    }
    if plan.flows.len() > MAX_FLOWS {
        lines.push(format!("  and {} more", plan.flows.len() - MAX_FLOWS));
    }
    for shortage in &plan.shortages {
        let (count, table, reason) = (shortage.flows, &shortage.table, &shortage.reason);
        let flows = if count == 1 { "flow" } else { "flows" };
        lines.push(format!("  no filter for {count} {flows}: {table}: {reason}"));
    }
    let other: Vec<String> =
        plan.queues.iter().filter(|q| q.other).map(|q| q.queue.to_string()).collect();
    lines.push(format!("  all other traffic: queues {}", other.join(" ")));
    lines
}

/// A queue, with its CPU if it is one.
fn shown(queue: u32, cpus: Option<&[u32]>) -> String {
    let cpu = cpus.and_then(|cpus| cpus.get(queue as usize % cpus.len().max(1)));
    cpu.map_or_else(|| format!("queue {queue}"), |cpu| format!("queue {queue}, CPU {cpu}"))
}

/// Prints lines. A closed standard output is no failure.
fn tell(lines: &[String]) {
    let mut out = io::stdout().lock();
    for line in lines {
        drop(writeln!(out, "{line}"));
    }
    drop(out.flush());
}

/// Exit status of a process that a second SIGINT ended (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Says when a signal has come: to end, or to read the files again.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag {
    ends: Arc<AtomicBool>,
    /// SIGHUP came.
    reloads: Arc<AtomicBool>,
}

impl StopFlag {
    /// Takes the signals over from now on. A second one ends the process at once.
    pub(crate) fn watch() -> Result<StopFlag, SteerError> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().map_err(|e| SteerError::Signals(e.into()))?;
        let ending = StopFlag::default();
        let (told, waiter) = (ending.clone(), thread::current());
        let watch = move || told.wait_for(&signals, &waiter);
        let started = thread::Builder::new().name("signals".into()).spawn(watch);
        started.map(|_| ending).map_err(SteerError::Signals)
    }

    fn wait_for(&self, signals: &SigSet, waiter: &Thread) {
        while let Ok(signal) = signals.wait() {
            if signal == Signal::SIGHUP {
                self.reloads.store(true, Ordering::Release);
            } else if self.ends.swap(true, Ordering::AcqRel) {
                std::process::exit(INTERRUPTED);
            }
            waiter.unpark();
        }
    }

    /// Whether the files are to be read again; said once.
    pub(crate) fn take_reload(&self) -> bool {
        self.reloads.swap(false, Ordering::AcqRel)
    }

    /// Sleeps for so long, or until a signal comes; says whether one came.
    pub(crate) fn within(&self, time: Duration) -> bool {
        if !self.ends.load(Ordering::Acquire) {
            thread::park_timeout(time);
        }
        self.ends.load(Ordering::Acquire)
    }
}
