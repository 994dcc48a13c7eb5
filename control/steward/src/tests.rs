//! The loop over a device that is not there.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use weever_device::ethtool::EthtoolError;
use weever_device::nic::NicError;
use weever_plan::config::{Configuration, Rule};
use weever_plan::map::Placement;
use weever_plan::nic::Nic;
use weever_plan::policy::QueueMode;
use weever_plan::search::{DeviceChange, Options, Refused, RuleId, Search};
use weever_plan::watch::FiveTuple;
use weever_policy::{flows, policy};

use crate::{Applied, InitialPlan, Origin, Receivers, Settings, Steward, Target, TargetError};

const SECOND: u64 = 1_000_000_000;
/// Class `fast` has queue 1 for itself.
const POLICY: &str = "[[class]]\nname = \"fast\"\nmatch = \"udp src portrange 4000-4099\"\n\
                      queues = { only = [1] }\nmode = \"busy\"\n";

/// The state of the device, and the changes made to it.
#[derive(Default)]
struct State {
    rules: Vec<RuleId>,
    /// Traffic that the target will report: without a filter, and with one.
    missed: Vec<(FiveTuple, u64)>,
    hits: Vec<(FiveTuple, u64)>,
    /// The device takes no more rules than this.
    room: Option<usize>,
    failing: Option<bool>,
    applied: usize,
    finished: bool,
    /// So many times more, receivers are not ready for a change.
    unready: usize,
    /// The calls to receivers, in words.
    told: Vec<String>,
    /// Whether something was announced since it was asked.
    news: bool,
    /// Whether others changed the device, and how often somebody looked.
    changed: bool,
    looks: usize,
}

#[derive(Clone, Default)]
struct Device(Arc<Mutex<State>>);

impl Device {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    fn start(&self, text: &str, lines: &str) -> Result<(Steward, Applied), TargetError> {
        self.start_with(text, lines, Settings::default())
    }

    fn start_with(
        &self,
        text: &str,
        lines: &str,
        settings: Settings,
    ) -> Result<(Steward, Applied), TargetError> {
        let policy = policy::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(3).unwrap();
        let file = flows::parse(lines.as_bytes()).flows.into_iter().map(|f| (Origin::File, f));
        let (planned, problems) = InitialPlan::new(policy, file, nic, Options::default(), None);
        assert!(problems.is_empty(), "{problems}");
        Steward::start("sim0", planned, Box::new(self.clone()), settings)
    }
}

impl Target for Device {
    fn preview(&mut self, _: &mut Search) -> Result<Vec<String>, TargetError> {
        Ok(Vec::new())
    }

    fn apply(
        &mut self,
        search: &mut Search,
        receivers: &mut dyn Receivers,
    ) -> Result<Applied, TargetError> {
        self.with(|state| state.applied += 1);
        if let Some(is_gone) = self.with(|state| state.failing) {
            let device = "sim0".into();
            let error = match is_gone {
                true => EthtoolError::Gone { device },
                false => EthtoolError::Denied { device, what: "set rules".into() },
            };
            receivers.abandon();
            return Err(NicError::Device(error).into());
        }
        let mut applied = Applied::default();
        loop {
            let changes = search.take_changes();
            if changes.is_empty() {
                return Ok(applied);
            }
            receivers.prepare(search.nic(), &Configuration::default());
            for change in changes {
                let (id, is_new) = match change {
                    DeviceChange::Insert { id, .. } => (id, true),
                    DeviceChange::Retarget { id, .. } => (id, false),
                    DeviceChange::Remove { id, .. } => {
                        self.with(|state| state.rules.retain(|rule| *rule != id));
                        applied.lines.push("removed".into());
                        continue;
                    }
                };
                let is_full = self.with(|state| state.room.is_some_and(|r| state.rules.len() >= r));
                if is_new && is_full {
                    search.refuse(id, Refused::Full { room: None }, "no room");
                    applied.refused.push("no room".into());
                } else if is_new {
                    self.with(|state| state.rules.push(id));
                    applied.lines.push("added".into());
                }
            }
            receivers.commit(search.nic(), &Configuration::default());
        }
    }

    fn look(&mut self) -> Result<bool, TargetError> {
        self.with(|state| {
            state.looks += 1;
            Ok(state.changed)
        })
    }

    fn has_news(&mut self) -> bool {
        self.with(|state| std::mem::take(&mut state.news))
    }

    fn configuration(&self, _: &Search) -> Configuration {
        Configuration::default()
    }

    fn take_missed(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        self.with(|state| state.missed.drain(..).for_each(|(tuple, n)| take(tuple, n)));
        Ok(())
    }

    fn take_hits(&mut self, take: &mut dyn FnMut(FiveTuple, u64)) -> Result<(), TargetError> {
        self.with(|state| state.hits.drain(..).for_each(|(tuple, n)| take(tuple, n)));
        Ok(())
    }

    fn hits(&self) -> Option<Vec<(RuleId, u64)>> {
        None
    }

    fn arrivals(&mut self, _: &Search) -> Result<crate::Arrivals, TargetError> {
        Ok(crate::Arrivals::default())
    }

    fn counts_flows(&self) -> bool {
        true
    }

    fn filters(&self) -> usize {
        self.with(|state| state.rules.len())
    }

    fn finish(&mut self) -> Result<Vec<String>, TargetError> {
        self.with(|state| state.finished = true);
        Ok(vec!["done".into()])
    }
}

/// Receivers that record their calls.
struct Recorder(Device);

impl Receivers for Recorder {
    fn expect(&mut self, _: &Nic, changing: &[(usize, Rule)]) -> bool {
        assert!(!changing.is_empty());
        self.0.with(|state| {
            let is_ready = state.unready == 0;
            state.unready = state.unready.saturating_sub(1);
            is_ready
        })
    }

    fn prepare(&mut self, _: &Nic, _: &Configuration) {
        self.0.with(|state| state.told.push("prepare".into()));
    }

    fn commit(&mut self, _: &Nic, _: &Configuration) {
        self.0.with(|state| state.told.push("commit".into()));
    }

    fn abandon(&mut self) {
        self.0.with(|state| state.told.push("abandon".into()));
    }

    fn set_modes(&mut self, modes: Vec<Option<QueueMode>>) {
        let busy: Vec<bool> = modes.iter().map(|mode| *mode == Some(QueueMode::Busy)).collect();
        self.0.with(|state| state.told.push(format!("{busy:?}")));
    }

    fn take_time(&mut self) -> Duration {
        Duration::from_millis(1)
    }
}

fn tuple(port: u16) -> FiveTuple {
    FiveTuple { protocol: 17, src: ([10, 0, 0, 1], port).into(), dst: ([10, 0, 0, 2], 7).into() }
}

fn queue_of(steward: &mut Steward, port: u16) -> Option<Placement> {
    let name = tuple(port).to_string();
    let plan = steward.plan();
    plan.flows.into_iter().find(|flow| flow.name == name).map(|flow| flow.placement)
}

#[test]
fn a_change_waits_for_receivers_between_steps() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    steward.attach_receivers(Box::new(Recorder(device.clone())));
    device.with(|state| (state.missed, state.unready) = (vec![(tuple(4000), 100)], 2));
    let step = steward.step(SECOND);
    assert_eq!((&step.came[..], step.applied.is_empty()), (&[tuple(4000)][..], true));
    assert!(steward.step(SECOND).applied.is_empty());
    assert_eq!(device.with(|state| (state.rules.len(), state.applied)), (0, 1), "as at the start");
    assert_eq!(steward.step(SECOND).applied.lines, ["added"]);
    assert_eq!(device.with(|state| (state.rules.len(), state.applied)), (1, 2));
    steward.step(SECOND);
    assert_eq!(device.with(|state| state.applied), 2, "once");
}

#[test]
fn a_flow_is_found_placed_counted_and_forgotten() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    steward.attach_receivers(Box::new(Recorder(device.clone())));
    assert_eq!(device.with(|state| state.told.split_off(0)), ["commit", "[false, false, false]"]);
    device.with(|state| state.missed = vec![(tuple(4000), 100)]);
    let step = steward.step(SECOND);
    assert_eq!((&step.came[..], step.gone), (&[tuple(4000)][..], 0));
    assert_eq!((device.with(|state| state.rules.len()), step.applied.lines.len()), (1, 1));
    assert_eq!(queue_of(&mut steward, 4000), Some(Placement::One(1)));
    assert_eq!(steward.take_receivers_time(), Duration::from_millis(1));
    // Its filter's hits keep it alive, and count.
    for second in 2..=30 {
        device.with(|state| state.hits = vec![(tuple(4000), 50)]);
        let step = steward.step(second * SECOND);
        assert!(step.came.is_empty() && step.gone == 0 && step.applied.is_empty());
    }
    let id = steward.counted_flows()[0];
    let flow = steward.flow(id).unwrap();
    assert_eq!((flow.rate, flow.packets >= 29 * 50), (50, true), "{flow:?}");
    let told = device.with(|state| state.told.split_off(0));
    assert_eq!(told, ["prepare", "commit", "[false, true, false]"], "modes follow the flow");
    assert_eq!(steward.step(41 * SECOND).gone, 1);
    assert_eq!(queue_of(&mut steward, 4000), None);
    assert_eq!(steward.finish().unwrap(), ["done"]);
    assert!(device.with(|state| state.finished));
}

#[test]
fn registered_flows_stay_and_those_within_them_may_be_left_to_them() {
    let registered = "udp 10.0.0.1:4000 -> 10.0.0.2:7\nudp *:* -> *:7\n";
    for skip_registered in [false, true] {
        let device = Device::default();
        let settings = Settings { skip_registered, ..Settings::default() };
        let (mut steward, _) = device.start_with(POLICY, registered, settings).unwrap();
        device.with(|state| state.missed = vec![(tuple(4000), 100), (tuple(5000), 100)]);
        let came = steward.step(SECOND).came;
        assert_eq!(came.contains(&tuple(5000)), !skip_registered, "within the second flow");
        assert!(!came.contains(&tuple(4000)), "it is in the file");
        let gone = steward.step(60 * SECOND).gone;
        assert_eq!(gone, usize::from(!skip_registered), "the file's do not go");
        assert_eq!(steward.plan().flows.len(), 2);
    }
}

#[test]
fn services_come_and_go() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    let service = |port: u16| {
        let line = format!("udp dst port {port} name=service");
        let spec = flows::parse(line.as_bytes()).flows.remove(0);
        vec![(Origin::Service("echo", port), spec)]
    };
    steward.set_services(service(7));
    steward.step(SECOND);
    assert_eq!((steward.plan().flows.len(), device.with(|state| state.applied)), (1, 2));
    steward.set_services(service(7));
    steward.step(2 * SECOND);
    assert_eq!(device.with(|state| state.applied), 2, "nothing is new");
    steward.set_services(service(8));
    assert_eq!(steward.plan().flows.len(), 1);
    steward.set_services(Vec::new());
    assert_eq!(steward.plan().flows.len(), 0);
}

/// Flows of an application, registered with rates.
fn registered(flows: &[(&str, u64)]) -> Vec<(Origin, flows::FlowSpec)> {
    let flow = |(number, (packets, rate)): (usize, &(&str, u64))| {
        let line = format!("{packets} rate={rate} app=kv");
        let spec = flows::parse(line.as_bytes()).flows.remove(0);
        (Origin::Application { socket: 1, flow: number as u32 }, spec)
    };
    flows.iter().enumerate().map(flow).collect()
}

#[test]
fn registered_rates_move_flows_with_the_next_search_for_all() {
    let device = Device::default();
    let (mut steward, _) = device.start("objective = \"balance-rate\"\n", "").unwrap();
    let ports = ["udp dst port 1", "udp dst port 2", "udp dst port 3", "udp dst port 4"];
    let with = |rates: [u64; 4]| registered(&[0, 1, 2, 3].map(|nth| (ports[nth], rates[nth])));
    let places = |steward: &mut Steward| {
        let flows = steward.plan().flows.into_iter();
        flows.map(|flow| (flow.name, flow.placement)).collect::<Vec<_>>()
    };
    steward.set_services(with([10, 10, 10, 1000]));
    steward.step(SECOND);
    let (before, good) = (places(&mut steward), steward.search().cost());
    steward.set_services(with([1000, 1000, 1000, 10]));
    steward.step(2 * SECOND);
    let worse = steward.search().cost();
    assert!(worse > good, "{worse:?} {good:?}");
    assert_eq!(places(&mut steward), before, "rates alone move nothing");
    steward.search_again();
    steward.step(3 * SECOND);
    assert!(steward.search().cost() < worse && places(&mut steward) != before);
}

#[test]
fn a_registered_five_tuple_is_one_flow_whether_it_is_seen_or_not() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    let seen = |port| device.with(|state| state.missed = vec![(tuple(port), 100)]);
    seen(4000);
    assert_eq!(steward.step(SECOND).came, [tuple(4000)]);
    let line = tuple(4000).to_string();
    steward.set_services(registered(&[(&line, 70)]));
    let flows = |steward: &mut Steward| {
        let all = steward.plan().flows.into_iter().map(|flow| flow.id);
        let origins = all.filter_map(|id| steward.flow(id).map(|count| count.origin));
        origins.collect::<Vec<_>>()
    };
    let application = Origin::Application { socket: 1, flow: 0 };
    assert_eq!(flows(&mut steward), [application], "it takes the place of what was seen");
    seen(4000);
    assert!(steward.step(2 * SECOND).came.is_empty());
    for second in [60, 120] {
        assert_eq!(steward.step(second * SECOND).gone, 0, "it stays while nothing comes");
    }
    assert_eq!(flows(&mut steward), [application]);
    steward.set_services(Vec::new());
    assert!(flows(&mut steward).is_empty());
    seen(4000);
    assert_eq!(steward.step(121 * SECOND).came, [tuple(4000)], "it is traffic again");
}

#[test]
fn what_somebody_has_registered_nobody_else_takes() {
    let device = Device::default();
    let line = tuple(4000).to_string();
    let (mut steward, _) = device.start(POLICY, &line).unwrap();
    steward.step(SECOND);
    let applied = device.with(|state| state.applied);
    for round in 2..4 {
        steward.set_services(registered(&[(&line, 70), (&line, 80)]));
        steward.step(round * SECOND);
    }
    let ids: Vec<_> = steward.plan().flows.into_iter().map(|flow| flow.id).collect();
    let origins: Vec<_> = ids.iter().map(|id| steward.flow(*id).map(|flow| flow.origin)).collect();
    assert_eq!(origins, [Some(Origin::File)], "the file's stays");
    assert_eq!(device.with(|state| state.applied), applied, "and nothing is searched for again");
}

#[test]
fn a_flow_that_would_break_the_policy_is_treated_as_unregistered() {
    // A device without room for filters leaves every flow at the default queue's.
    let device = Device::default();
    device.with(|state| state.room = Some(0));
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    device.with(|state| state.missed = vec![(tuple(4000), 100)]);
    let step = steward.step(SECOND);
    assert!(!step.applied.refused.is_empty(), "{step:?}");
    assert!(steward.problem().unwrap().contains("no room"));
    assert!(!steward.complaints().is_empty());
    // The search has learned that, so the next one of the class has no place at all.
    assert_eq!(steward.step(60 * SECOND).gone, 1);
    assert_eq!(steward.problem(), None, "the policy is satisfied again");
    device.with(|state| state.missed = vec![(tuple(4001), 100)]);
    let step = steward.step(61 * SECOND);
    assert_eq!((&step.unplaced[..], steward.stats().unplaced), (&[tuple(4001)][..], 1));
}

#[test]
fn a_failure_is_reported_and_tried_again_less_and_less_often() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    device.with(|state| (state.failing, state.missed) = (Some(false), vec![(tuple(4000), 100)]));
    assert!(steward.step(SECOND).failure.is_some());
    let message = steward.problem().unwrap();
    let mut attempts = Vec::new();
    for second in 2..=20 {
        let before = device.with(|state| state.applied);
        // Flows that are alive, so that nothing else is to be done.
        device.with(|state| state.missed = vec![(tuple(4000), 100)]);
        steward.step(second * SECOND);
        if device.with(|state| state.applied) > before {
            attempts.push(second);
        }
        assert_eq!(steward.problem().as_ref(), Some(&message));
    }
    assert_eq!(attempts, [2, 4, 8, 16]);
    device.with(|state| state.failing = None);
    for second in 21..=32 {
        device.with(|state| state.missed = vec![(tuple(4000), 100)]);
        steward.step(second * SECOND);
    }
    assert_eq!((steward.problem(), device.with(|state| state.rules.len())), (None, 1));
}

#[test]
fn a_device_that_is_gone_is_left_alone() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    device.with(|state| (state.failing, state.missed) = (Some(true), vec![(tuple(4000), 100)]));
    assert!(steward.step(SECOND).failure.is_some_and(|error| error.is_gone()));
    let applied = device.with(|state| state.applied);
    for second in 2..40 {
        steward.step(second * SECOND);
    }
    assert_eq!(device.with(|state| state.applied), applied);
    assert!(steward.problem().unwrap().contains("sim0"));
}

#[test]
fn an_announcement_brings_the_look_forward_once_it_is_quiet() {
    let device = Device::default();
    let (mut steward, _) = device.start(POLICY, "").unwrap();
    let looks = |device: &Device| device.with(|state| state.looks);
    let milli = SECOND / 1000;
    steward.step(10 * SECOND);
    assert_eq!(looks(&device), 1);
    steward.step(11 * SECOND);
    assert_eq!(looks(&device), 1, "nothing was announced, and it was not long ago");
    device.with(|state| state.news = true);
    steward.step(11 * SECOND + 20 * milli);
    steward.step(11 * SECOND + 100 * milli);
    assert_eq!(looks(&device), 1, "more may come");
    steward.step(11 * SECOND + 120 * milli);
    assert_eq!(looks(&device), 2);
    // It does not wait for ever.
    for at in 0..60 {
        device.with(|state| state.news = true);
        steward.step(12 * SECOND + at * 20 * milli);
    }
    assert_eq!(looks(&device), 3);
    device.with(|state| state.changed = true);
    let applied = device.with(|state| state.applied);
    steward.step(16 * SECOND);
    assert_eq!((looks(&device), device.with(|state| state.applied)), (4, applied + 1));
}

#[test]
fn a_device_is_looked_at_while_a_failure_stands_unless_it_is_gone() {
    for is_gone in [false, true] {
        let device = Device::default();
        let (mut steward, _) = device.start(POLICY, "").unwrap();
        device.with(|state| {
            (state.failing, state.missed) = (Some(is_gone), vec![(tuple(4000), 100)]);
        });
        assert!(steward.step(SECOND).failure.is_some());
        let (looks, applied) = device.with(|state| (state.looks, state.applied));
        // The pauses between attempts grow, and others change the device meanwhile.
        device.with(|state| (state.failing, state.changed) = (None, true));
        steward.step(SECOND + SECOND / 2);
        device.with(|state| state.news = true);
        steward.step(SECOND + SECOND / 2);
        steward.step(SECOND + 3 * SECOND / 4);
        let now = device.with(|state| (state.looks - looks, state.applied - applied));
        assert_eq!(now, if is_gone { (0, 0) } else { (1, 1) });
        assert_eq!(steward.problem().is_none(), !is_gone);
    }
}
