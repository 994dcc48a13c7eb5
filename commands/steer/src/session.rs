//! From the command to the end: the steward runs until a signal comes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::signal::{SigSet, Signal};
use weever_device::ethtool::KernelDriver;
use weever_device::{claim, ifindex, model_of, name_of};
use weever_link_sys::netdev::Interface;
use weever_plan::flow::Conj;
use weever_steward::{Applied, InitialPlan, Step, Steward, Target, TargetError, pause_after};

use crate::output::Output;
use crate::verify::{self, Peer};
use crate::{SteerArgs, SteerError, setup};

/// A link that is down for longer does not come back by itself.
const CARRIER: Duration = Duration::from_secs(60);
const CARRIER_PAUSE: Duration = Duration::from_millis(50);

/// The device and the planned part of it: what a plan for another policy needs.
struct Scene<'a> {
    args: &'a SteerArgs,
    index: u32,
    model: &'a str,
    queues: u32,
    out: Output,
}

/// Steers, until a signal comes if the plan is to be applied.
///
/// # Errors
/// [`SteerError`]; the device is as it was found then, unless the error says otherwise.
pub fn run(args: &SteerArgs) -> Result<ExitCode, SteerError> {
    if let (Some(device), Some(to)) = (&args.probe_from, args.to) {
        verify::serve(device, to)?;
        return Ok(ExitCode::SUCCESS);
    }
    let index = ifindex(&args.dev).ok_or_else(|| SteerError::NoDevice(args.dev.clone()))?;
    let mut driver = KernelDriver::open(&args.dev)?;
    let out = Output::new(args.json);
    if args.undo {
        let _claim = setup::claim(args, index, false)?;
        out.lines("undone", &setup::nic(args, driver, index)?.undo()?);
        return Ok(ExitCode::SUCCESS);
    }
    let model = match args.model.as_str() {
        "auto" => model_of(&mut driver, weever_models::nic_of_driver)?,
        name => name,
    };
    if args.show {
        out.state(&setup::state(&mut driver, index, model)?, model);
        return Ok(ExitCode::SUCCESS);
    }
    let is_program = model == "xdp";
    if is_program && args.persist {
        let why = "the program goes with the process: run it as a service instead of --persist";
        return Err(SteerError::Usage(why.into()));
    }
    let cpus = setup::cpus(args.cpus.as_deref())?;
    let cpus = is_program.then_some(cpus);
    let queues = setup::queues(args, &mut driver, cpus.as_deref())?;
    let (mut planned, mut notes) = setup::plan(args, model, queues)?;
    if !is_program {
        notes.extend(setup::around_others(args, index, &mut planned)?);
    }
    // Given up last.
    let claimed = setup::claim(args, index, is_program)?;
    if let Some(holder) = claimed.is_none().then(|| claim::holder(index)).flatten() {
        let note = format!("note: {} is steered already, by {holder}", args.dev);
        out.lines("note", &[note]);
    }
    let _ = notes.iter().try_for_each(|note| writeln!(io::stderr(), "{note}"));
    let plan = planned.search().plan();
    out.plan(&plan, planned.policy(), cpus.as_deref());
    let mut target: Box<dyn Target> = match &cpus {
        Some(cpus) => setup::program(args, &mut driver, index, cpus, &mut planned)?,
        None => Box::new(setup::nic(args, driver, index)?),
    };
    if !args.apply && args.verify.is_none() {
        let lines = target.preview(planned.search()).map_err(unsatisfied)?;
        out.lines("preview", &lines);
        return Ok(ExitCode::SUCCESS);
    }
    apply(&Scene { args, index, model, queues, out }, planned, target)
}

/// Applies the plan, and steers until a signal comes.
fn apply(
    scene: &Scene<'_>,
    mut planned: InitialPlan,
    mut target: Box<dyn Target>,
) -> Result<ExitCode, SteerError> {
    let Scene { args, out, .. } = *scene;
    let flows = planned.packets().to_vec();
    if args.verify.is_some() {
        if !verify::has_probes(&flows) {
            let why =
                "nothing to verify: give flows of IP with --flows, whose frames the peer sends";
            return Err(SteerError::Usage(why.into()));
        }
        // A device without counters is left as it is.
        target.arrivals(planned.search())?;
    }
    // Before anything is changed, since it waits for a person.
    let peer = args.verify.map(|at| accept(at, out)).transpose()?;
    let ending = StopFlag::watch(left_by_a_second_signal(scene))?;
    let started = Steward::start(&args.dev, planned, target, setup::settings(args));
    let (mut steward, applied) = started.map_err(unsatisfied)?;
    tell_applied(out, &applied, &mut steward);
    let ran = match peer {
        Some(peer) => verified(scene, &ending, &mut steward, &flows, peer),
        None if args.persist && !args.watch => Ok(ExitCode::SUCCESS),
        None => steer(scene, &ending, &mut steward).map(|()| ExitCode::SUCCESS),
    };
    let left_out = steward.stats().refused;
    if left_out > 0 {
        let note = format!("new flows were left out {left_out} times: --most is the limit");
        out.lines("note", &[note]);
    }
    // Undone in any case; the first error is reported.
    let finished = steward.finish();
    let code = ran?;
    out.lines("finished", &finished?);
    Ok(code)
}

/// What remains on the device if a second signal ends the process before the device is given back.
fn left_by_a_second_signal(scene: &Scene<'_>) -> String {
    let device = &scene.args.dev;
    match scene.model {
        "xdp" => format!("ended at once: the program is gone from {device}"),
        _ => format!(
            "ended at once, perhaps before {device} was given back: `weever steer --dev {device} --undo` does the rest"
        ),
    }
}

/// Waits for the peer that is to send probes.
fn accept(at: SocketAddr, out: Output) -> Result<Peer, SteerError> {
    Peer::accept(at, |at| {
        let line =
            format!("waiting for the peer: run `weever steer --probe-from DEVICE --to {at}` there");
        out.lines("waiting", &[line]);
    })
}

/// Compares the plan with where probes arrive; the exit status is 0 only if the sheet shows that it is right.
fn verified(
    scene: &Scene<'_>,
    ending: &StopFlag,
    steward: &mut Steward,
    flows: &[Conj],
    mut peer: Peer,
) -> Result<ExitCode, SteerError> {
    let Scene { args, model, out, .. } = *scene;
    let interface = Interface::find(&args.dev);
    let Interface { mac, driver, .. } =
        interface.map_err(|error| SteerError::Peer(error.to_string()))?;
    let patience = Duration::from_secs(args.patience);
    let ends = || ending.within(Duration::ZERO);
    wait_for_carrier(args, ending)?;
    let sheet = verify::verify(steward, flows, &mut peer, mac, patience, &ends)?;
    out.sheet(&sheet, model, &driver);
    Ok(if sheet.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Drivers may take the link down for a change.
fn wait_for_carrier(args: &SteerArgs, ending: &StopFlag) -> Result<(), SteerError> {
    let start = Instant::now();
    loop {
        let mut addresses = getifaddrs().map_err(|error| SteerError::Peer(error.to_string()))?;
        let has_carrier = addresses.any(|address| {
            address.interface_name == args.dev
                && address.flags.contains(InterfaceFlags::IFF_RUNNING)
        });
        if has_carrier || ending.within(CARRIER_PAUSE) {
            return Ok(());
        }
        if start.elapsed() > CARRIER {
            let seconds = CARRIER.as_secs();
            let why = format!("{} has had no carrier for {seconds} s since its change", args.dev);
            return Err(SteerError::Peer(why));
        }
    }
}

/// Runs the steward until a signal comes.
fn steer(scene: &Scene<'_>, ending: &StopFlag, steward: &mut Steward) -> Result<(), SteerError> {
    let Scene { args, index, out, .. } = *scene;
    out.lines("steering", &["steering; Ctrl-C ends it, SIGHUP reads the files again".into()]);
    let start = Instant::now();
    let (mut worked, mut told) = (Duration::ZERO, None);
    while !ending.within(pause_after(worked, Duration::ZERO)) {
        let began = Instant::now();
        is_there(args, index, steward)?;
        let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if ending.take_reload() {
            reload(scene, now, steward);
        }
        let step = steward.step(now);
        tell_step(out, &step, steward);
        if let Some(error) = step.failure {
            is_there(args, index, steward)?;
            if !error.is_worth_retrying() {
                return Err(error.into());
            }
            // Once for as long as it stays the same.
            let problem = steward.problem();
            if problem != told {
                out.lines("note", &[format!("note: it is tried again: {error}")]);
                told = problem;
            }
        }
        worked = began.elapsed();
    }
    Ok(())
}

/// Goes on with the files as they are now. Files that are wrong, or a policy that cannot be satisfied, leave everything
/// as it is.
fn reload(scene: &Scene<'_>, now: u64, steward: &mut Steward) {
    let out = scene.out;
    match setup::plan(scene.args, scene.model, scene.queues) {
        Ok((planned, notes)) => {
            out.lines("note", &notes);
            let step = steward.reload(now, planned);
            let (flows, filters) = (steward.search().len(), steward.filters());
            out.reloaded(flows, filters);
            tell_step(out, &step, steward);
            if let Some(error) = step.failure {
                let note =
                    format!("the device does not take the new plan, and is tried again: {error}");
                out.lines("note", &[note]);
            }
        }
        Err(error) => {
            out.lines("not reloaded", &[format!("not read again, the former plan stays: {error}")]);
        }
    }
}

fn tell_step(out: Output, step: &Step, steward: &mut Steward) {
    out.flows(step);
    tell_applied(out, &step.applied, steward);
}

fn tell_applied(out: Output, applied: &Applied, steward: &mut Steward) {
    let complaints = if applied.refused.is_empty() { Vec::new() } else { steward.complaints() };
    out.applied(applied, &complaints);
}

/// The device's refusal of filters at the start leaves the policy unsatisfied.
fn unsatisfied(error: TargetError) -> SteerError {
    match error {
        TargetError::Unsatisfied { reasons } => SteerError::Unsatisfied(reasons.join("\n  ")),
        error => error.into(),
    }
}

/// Checks that the device is there, and has the name that it had.
fn is_there(args: &SteerArgs, index: u32, steward: &mut Steward) -> Result<(), SteerError> {
    let device = args.dev.clone();
    match name_of(index) {
        Some(name) if name == device => Ok(()),
        Some(name) => Err(SteerError::Renamed { device, name }),
        None if steward.has_moved() => {
            Err(SteerError::Moved { device, filters: steward.filters() })
        }
        None => {
            let filters = match steward.filters() {
                0 => String::new(),
                count => format!(", and its {count} filters with it"),
            };
            Err(SteerError::Vanished { device, filters })
        }
    }
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
    /// Takes the signals over from now on. A second one ends the process at once, with these last words.
    pub(crate) fn watch(last_words: String) -> Result<StopFlag, SteerError> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().map_err(|e| SteerError::Signals(e.into()))?;
        let ending = StopFlag::default();
        let (told, waiter) = (ending.clone(), thread::current());
        let watch = move || told.wait_for(&signals, &waiter, &last_words);
        let started = thread::Builder::new().name("signals".into()).spawn(watch);
        started.map(|_| ending).map_err(SteerError::Signals)
    }

    fn wait_for(&self, signals: &SigSet, waiter: &Thread, last_words: &str) {
        while let Ok(signal) = signals.wait() {
            if signal == Signal::SIGHUP {
                self.reloads.store(true, Ordering::Release);
            } else if self.ends.swap(true, Ordering::AcqRel) {
                let _closed = writeln!(io::stderr(), "weever: {last_words}");
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
