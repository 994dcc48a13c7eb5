use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};

use super::*;
use crate::ethtool::{
    Action, Announced, InjectedFailure, Match, RuleSpec, SharedDevice, Simulated, Spreading,
};

fn rule(port: u16, queue: u32) -> RuleSpec {
    let key = Key { mask: 0xffff, value: port.into() };
    let matches = Match { flow_type: FlowType::Udp4, fields: vec![(Field::L4Dst, key)] };
    matches.to_rule(Action::Queue(queue)).unwrap()
}

fn desired(ports: std::ops::Range<u16>, queues: u32) -> DesiredConfiguration {
    let rules = ports.map(|port| rule(port, u32::from(port) % queues)).collect();
    DesiredConfiguration {
        receiving: queues,
        spread: vec![0, 1],
        rules,
        ..DesiredConfiguration::default()
    }
}

/// A device, and a folder for its file.
struct Scene {
    device: SharedDevice,
    folder: PathBuf,
}

impl Scene {
    fn new(device: Simulated) -> Scene {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("weever-nic-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        Scene { device: SharedDevice::new(device), folder }
    }

    fn file(&self) -> StateFile {
        StateFile::of(&self.folder, 7).unwrap()
    }

    fn steering(&self) -> NicSteering {
        NicSteering::new(Box::new(self.device.clone()), self.file()).unwrap()
    }

    /// The device as its user sees it.
    fn seen(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let d = self.device.lock().clone();
        (d.channels, d.ntuple, d.rules, d.spreading, d.fields)
    }

    fn rules(&self) -> usize {
        self.device.lock().rules.len()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn choosing() -> Simulated {
    Simulated { chooses: true, ..Simulated::new("sim0", 2, 16) }
}

#[test]
fn what_is_not_left_is_undone_when_it_is_dropped_also_by_a_panic() {
    let scene = Scene::new(Simulated::new("sim0", 2, 16));
    let before = scene.seen();
    for panics in [false, true] {
        let mut steering = scene.steering();
        let work = move || {
            steering.bring(&desired(1..5, 4)).unwrap();
            assert!(!panics, "a defect");
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert_eq!(ended.is_err(), panics);
        assert_eq!(scene.seen(), before);
        assert!(!scene.file().path().exists());
    }
    let mut steering = scene.steering();
    steering.bring(&desired(1..5, 4)).unwrap();
    steering.leave();
    drop(steering);
    assert_eq!(scene.rules(), 4, "it stays if it is to stay");
    scene.steering().undo().unwrap();
    assert_eq!(scene.seen(), before);
}

/// The process is killed after each number of changes: nothing runs afterwards, not even a drop.
#[test]
fn wherever_a_process_is_killed_the_next_one_undoes_it() {
    for device in [Simulated::new("sim0", 2, 16), choosing()] {
        let plans =
            [desired(1..5, 4), DesiredConfiguration { spread: vec![1], ..desired(3..9, 4) }];
        let mut ends = 0;
        for after in 0.. {
            let mut scene = Scene::new(device.clone());
            let before = scene.seen();
            // A rule of another process, equal to one that we are about to make.
            scene.device.lock().rules.insert(9, rule(2, 2).at(9));
            let mut steering = scene.steering();
            steering.bring(&plans[0]).unwrap();
            // From then on the device does not hear this process any more.
            let at = scene.device.lock().changes + after;
            let failing = InjectedFailure { at, count: usize::MAX / 2, errno: libc::EIO };
            scene.device.lock().failing = Some(failing);
            // The next process has only the record that is written ahead of the steps.
            let actions = steering.preview(&plans[1]).unwrap();
            let ahead = steering.record.foreseeing(&actions, &mut scene.device).unwrap();
            steering.file.save(&ahead).unwrap();
            let killed = actions.apply(&mut scene.device.clone(), &mut steering.record.clone());
            steering.leave();
            drop(steering);
            scene.device.lock().failing = None;
            scene.steering().undo().unwrap();
            assert_eq!(scene.rules(), 1, "after {after} changes: {:?}", scene.device.lock().rules);
            scene.device.lock().rules.remove(&9).unwrap();
            scene.device.lock().ntuple = false;
            assert_eq!(scene.seen(), before, "after {after} changes");
            ends = after;
            if killed.is_ok() {
                break;
            }
        }
        assert!(ends >= 5, "there were {ends} steps");
    }
}

#[test]
fn a_device_that_is_gone_needs_no_undoing_and_leaves_no_file() {
    let scene = Scene::new(Simulated::new("sim0", 2, 16));
    let mut steering = scene.steering();
    steering.bring(&desired(1..5, 4)).unwrap();
    assert!(scene.file().path().exists());
    scene.device.lock().gone = true;
    let error = steering.bring(&desired(1..6, 4)).unwrap_err();
    assert!(error.is_gone(), "{error}");
    steering.undo().unwrap();
    assert!(!scene.file().path().exists(), "a later device of the same name is another one");
}

#[test]
fn a_rule_that_was_lost_when_its_successor_was_refused_comes_back() {
    let scene = Scene::new(Simulated { removes_first: true, ..Simulated::new("sim0", 4, 16) });
    let mut steering = scene.steering();
    steering.bring(&desired(1..4, 4)).unwrap();
    let before = scene.seen();
    for nth in 0..3 {
        let at = scene.device.lock().changes + nth;
        scene.device.lock().failing = Some(InjectedFailure { at, count: 1, errno: libc::ENOSPC });
        let other = DesiredConfiguration {
            rules: (1..4).map(|n| rule(n + 20, 0)).collect(),
            ..desired(0..0, 4)
        };
        let error = steering.bring(&other).unwrap_err();
        assert!(error.to_string().contains("as it was"), "{error}");
        assert_eq!(scene.seen(), before);
    }
    scene.device.lock().failing = None;
    steering.undo().unwrap();
    assert_eq!(scene.rules(), 0);
}

/// Flows that each need a rule, since their class has a queue for itself.
fn needing_rules(ports: std::ops::Range<u16>) -> Vec<weever_plan::flow::Flow> {
    use weever_plan::flow::{Conj, Flow, Kinds};
    let udp = |port: u16| Conj::of_kinds(Kinds::of(FlowType::Udp4)).with(Field::L4Dst, port.into());
    ports.map(|port| Flow::of(format!("to {port}"), vec![udp(port)])).collect()
}

#[test]
fn a_policy_that_a_device_once_let_be_satisfied_is_followed_as_far_as_it_goes() {
    use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
    let nic = weever_plan::nic::Nic::linux_of(&weever_models::nic("ena").unwrap()).unwrap();
    let search = || {
        let balance: Box<dyn Policy> = Box::new(Balance::new(Measure::Flows));
        let policy = Isolate::new(vec![("own".into(), Share::Exclusive(1), balance)]);
        let nic = nic.with_queues(4).unwrap();
        Search::new(nic, Box::new(policy), weever_plan::search::Options::default())
    };
    // The device takes five of the rules that the model allows.
    let scene = Scene::new(Simulated::new("sim0", 4, 5));
    let before = scene.seen();
    let (mut steering, mut too_many) = (scene.steering(), search());
    too_many.run(needing_rules(1..9));
    let error = steering.follow(&mut too_many).unwrap_err();
    assert!(error.to_string().contains("the policy cannot be satisfied without"), "{error}");
    assert_eq!(scene.seen(), before, "at first it has to be satisfied");
    let mut search = search();
    search.run(needing_rules(1..4));
    assert!(steering.follow(&mut search).unwrap().refused.is_empty());
    for flow in needing_rules(4..9) {
        search.add(flow);
    }
    let brought = steering.follow(&mut search).unwrap();
    assert!(!brought.refused.is_empty());
    assert_eq!(scene.rules(), 5, "{:?}", brought.refused);
    assert!(!search.cost().is_acceptable());
    drop(steering);
    assert_eq!(scene.seen(), before);
}

#[test]
fn a_table_that_goes_with_the_number_of_queues_is_set_again() {
    let scene = Scene::new(Simulated { forgets_table: true, ..Simulated::new("sim0", 2, 16) });
    let before = scene.seen();
    let mut steering = scene.steering();
    let table = |scene: &Scene| scene.device.lock().spreading[&0].table.clone();
    // Already so, before there are more queues.
    steering.bring(&desired(1..2, 4)).unwrap();
    assert!(table(&scene).iter().all(|queue| *queue < 2), "the others are kept free");
    drop(steering);
    assert_eq!(scene.seen(), before);
    let own = Spreading { table: [[1; 64], [0; 64]].concat(), key: vec![7; 40] };
    scene.device.lock().spreading.insert(0, own);
    let before = scene.seen();
    let mut steering = scene.steering();
    steering.bring(&DesiredConfiguration { spread: vec![1, 0], ..desired(1..2, 4) }).unwrap();
    drop(steering);
    assert_eq!(scene.seen(), before, "also on the way back");
}

#[test]
fn a_driver_that_cannot_show_rules_is_believed() {
    let scene = Scene::new(Simulated { hides_rules: true, ..Simulated::new("sim0", 4, 16) });
    let mut steering = scene.steering();
    steering.bring(&desired(1..4, 4)).unwrap();
    assert!(steering.bring(&desired(1..4, 4)).unwrap().is_empty());
    steering.bring(&desired(2..7, 4)).unwrap();
    assert_eq!(scene.rules(), 5);
    drop(steering);
    assert_eq!(scene.rules(), 0);
}

#[test]
fn a_driver_that_refuses_everything_leaves_nothing_behind() {
    for errno in [libc::EINVAL, libc::EBUSY, libc::EPERM, libc::EOPNOTSUPP, libc::EIO] {
        let scene = Scene::new(Simulated::new("sim0", 4, 16));
        let before = scene.seen();
        scene.device.lock().failing = Some(InjectedFailure { at: 0, count: usize::MAX / 2, errno });
        let mut steering = scene.steering();
        let error = steering.bring(&desired(1..4, 4)).unwrap_err();
        assert!(matches!(error, NicError::Bring(_)), "{error}");
        assert!(steering.record().is_empty());
        drop(steering);
        assert_eq!(scene.seen(), before);
        assert!(!scene.file().path().exists());
    }
}

mod losses {
    use weever_plan::flow::{Conj, Flow, Kinds};
    use weever_plan::nic::Nic;
    use weever_plan::policy::Locality;
    use weever_plan::search::Options;

    use super::*;

    /// Flows of three ports, of which each has a rule.
    fn search() -> Search {
        let nic = Nic::linux_of(&weever_models::nic("ena").unwrap()).unwrap();
        let nic = nic.with_queues(2).unwrap();
        let near = |queue: u32, core: u16| u32::from(queue != u32::from(core));
        let policy = Box::new(Locality::new(near));
        let mut search = Search::new(nic, policy, Options::default());
        let flow = |port: u16| {
            let udp = Conj::of_kinds(Kinds::of(FlowType::Udp4));
            let flow = Flow::of(format!("port {port}"), vec![udp.with(Field::L4Dst, port.into())]);
            Flow { core: Some(port % 2), ..flow }
        };
        search.run((1..5).map(flow).collect());
        search
    }

    #[test]
    fn what_a_reset_took_is_made_again() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let (mut steering, mut search) = (scene.steering(), search());
        steering.follow(&mut search).unwrap();
        let before = scene.seen();
        assert_eq!(steering.look().unwrap(), Lost::Nothing);
        scene.device.lock().rules.clear();
        let rules = steering.record().locations().count();
        assert_eq!(steering.look().unwrap(), Lost::Reset(rules));
        let report = steering.follow(&mut search).unwrap();
        assert!(
            report.refused.is_empty() && report.actions.notes[0].contains("reset"),
            "{report:?}"
        );
        assert_eq!(scene.seen(), before);
        assert_eq!(steering.look().unwrap(), Lost::Nothing);
    }

    #[test]
    fn what_somebody_deleted_does_not_come_back() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let (mut steering, mut search) = (scene.steering(), search());
        steering.follow(&mut search).unwrap();
        let rules = scene.rules();
        let first = *scene.device.lock().rules.keys().next().unwrap();
        let deleted = scene.device.lock().rules.remove(&first).unwrap();
        assert!(matches!(steering.look().unwrap(), Lost::Taken(taken) if taken.len() == 1));
        let report = steering.follow(&mut search).unwrap();
        assert!(report.refused[0].contains("another program removed"), "{:?}", report.refused);
        assert_eq!(scene.rules(), rules - 1);
        assert!(!scene.device.lock().rules.values().any(|rule| rule.says_the_same(&deleted)));
        assert_eq!(steering.look().unwrap(), Lost::Nothing);
        steering.follow(&mut search).unwrap();
        assert_eq!(scene.rules(), rules - 1);
    }

    #[test]
    fn rules_that_are_switched_off_stay_off_until_somebody_switches_them_on() {
        for clears in [false, true] {
            let scene = Scene::new(Simulated::new("sim0", 2, 256));
            let (mut steering, mut search) = (scene.steering(), search());
            steering.follow(&mut search).unwrap();
            let before = scene.seen();
            scene.device.lock().ntuple = false;
            if clears {
                scene.device.lock().rules.clear();
            }
            assert_eq!(steering.look().unwrap(), Lost::SwitchedOff);
            let report = steering.follow(&mut search).unwrap();
            assert!(report.actions.notes[0].contains("switched off"), "{report:?}");
            assert!(!scene.device.lock().ntuple);
            scene.device.lock().ntuple = true;
            assert!(matches!(steering.look().unwrap(), Lost::Reset(_)));
            steering.follow(&mut search).unwrap();
            assert_eq!(scene.seen(), before);
            assert!(!steering.is_switched_off());
        }
    }

    /// The 82599's driver makes rules of its own while rules are off.
    #[test]
    fn a_plan_without_rules_notices_that_rules_are_switched_off_where_it_needs_them_on() {
        for (model, needs) in [("82599", true), ("ena", false)] {
            let scene = Scene::new(Simulated::new("sim0", 2, 256));
            let (mut steering, mut search) = (scene.steering(), exclusive_on(model, 0));
            steering.follow(&mut search).unwrap();
            assert_eq!((scene.rules(), scene.device.lock().ntuple), (0, needs), "{model}");
            scene.device.lock().ntuple = false;
            let found = if needs { Lost::SwitchedOff } else { Lost::Nothing };
            assert_eq!(steering.look().unwrap(), found, "{model}");
            steering.follow(&mut search).unwrap();
            assert_eq!((steering.is_switched_off(), scene.device.lock().ntuple), (needs, false));
            scene.device.lock().ntuple = true;
            steering.follow(&mut search).unwrap();
            assert!(!steering.is_switched_off());
            assert_eq!(steering.look().unwrap(), Lost::Nothing, "{model}");
        }
    }

    fn exclusive() -> Search {
        exclusive_on("ena", 3)
    }

    /// A policy that leaves queue 1 to one class with so many flows, so that the table of the hash matters.
    fn exclusive_on(model: &str, flows: u16) -> Search {
        use weever_plan::flow::ClassId;
        use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
        let nic = Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap();
        let balance = || -> Box<dyn Policy> { Box::new(Balance::new(Measure::Flows)) };
        let classes = vec![
            ("rest".into(), Share::Shared, balance()),
            ("own".into(), Share::Exclusive(1), balance()),
        ];
        let policy = Box::new(Isolate::new(classes));
        let mut search = Search::new(nic.with_queues(2).unwrap(), policy, Options::default());
        let mut flows = needing_rules(1..1 + flows);
        flows.iter_mut().for_each(|flow| flow.class = ClassId(1));
        search.run(flows);
        search
    }

    fn restart(scene: &Scene) {
        scene.device.lock().announced =
            Announced { anything: true, restart: true, ..Announced::default() };
    }

    #[test]
    fn a_single_rule_that_goes_with_an_announced_restart_is_made_again() {
        for announced in [false, true] {
            let scene = Scene::new(Simulated::new("sim0", 2, 256));
            let (mut steering, mut search) = (scene.steering(), search());
            steering.follow(&mut search).unwrap();
            let before = scene.seen();
            let first = *scene.device.lock().rules.keys().next().unwrap();
            scene.device.lock().rules.remove(&first).unwrap();
            if announced {
                restart(&scene);
                assert!(steering.announced().restart);
            }
            assert_eq!(matches!(steering.look().unwrap(), Lost::Reset(1)), announced);
            steering.follow(&mut search).unwrap();
            assert_eq!(scene.seen() == before, announced);
        }
    }

    #[test]
    fn a_setting_that_somebody_changes_is_told_and_left_until_it_is_taken_back() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let found = scene.seen();
        let (mut steering, mut search) = (scene.steering(), exclusive());
        steering.follow(&mut search).unwrap();
        let planned = scene.device.lock().spreading[&0].clone();
        let own = Spreading { table: vec![1; 128], ..planned.clone() };
        scene.device.lock().spreading.insert(0, own.clone());
        assert_eq!(steering.look().unwrap(), Lost::Set(vec![Setting::Table]));
        let report = steering.follow(&mut search).unwrap();
        assert!(report.actions.notes[0].contains("the table of the hash"), "{report:?}");
        // It is not fought by later plans either.
        search.add(needing_rules(9..10).remove(0));
        steering.follow(&mut search).unwrap();
        assert_eq!(scene.device.lock().spreading[&0], own);
        assert_eq!(
            (steering.look().unwrap(), steering.left()),
            (Lost::Nothing, &[Setting::Table][..])
        );
        // Once it is as it was, it is ours again.
        scene.device.lock().spreading.insert(0, planned.clone());
        assert_eq!((steering.look().unwrap(), steering.left()), (Lost::Nothing, &[][..]));
        scene.device.lock().spreading.insert(0, own);
        steering.follow(&mut search).unwrap();
        steering.take_settings_back();
        steering.follow(&mut search).unwrap();
        assert_eq!(scene.device.lock().spreading[&0], planned);
        drop(steering);
        assert_eq!(scene.seen(), found);
    }

    #[test]
    fn a_table_that_a_restart_took_is_put_back_and_a_number_of_queues_is_left() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let (mut steering, mut search) = (scene.steering(), exclusive());
        steering.follow(&mut search).unwrap();
        let planned = scene.device.lock().spreading[&0].clone();
        let spread = Spreading { table: (0..4).cycle().take(128).collect(), ..planned.clone() };
        let rules = scene.device.lock().rules.clone();
        let before = scene.device.lock().channels;
        // Somebody sets the number of queues, and the driver starts anew.
        scene.device.lock().channels = before.with_receiving(4);
        scene.device.lock().spreading.insert(0, spread);
        scene.device.lock().rules.clear();
        restart(&scene);
        assert!(matches!(steering.look().unwrap(), Lost::Reset(_)));
        steering.follow(&mut search).unwrap();
        let device = scene.device.lock().clone();
        assert_eq!((device.spreading[&0].clone(), device.rules), (planned, rules));
        assert_eq!(device.channels.receiving(), 4, "somebody wanted that");
        assert_eq!(steering.left(), [Setting::Queues]);
        assert_eq!(steering.look().unwrap(), Lost::Nothing);
    }

    #[test]
    fn who_removes_all_rules_again_and_again_is_not_fought() {
        for announced in [false, true] {
            let scene = Scene::new(Simulated::new("sim0", 2, 256));
            let (mut steering, mut search) = (scene.steering(), search());
            steering.follow(&mut search).unwrap();
            for _ in 0..3 {
                scene.device.lock().rules.clear();
                if announced {
                    restart(&scene);
                }
                steering.follow(&mut search).unwrap();
                assert!(scene.rules() > 1);
            }
            scene.device.lock().rules.clear();
            let report = steering.follow(&mut search).unwrap();
            let is_told = report.actions.notes.iter().any(|note| note.contains("several times"));
            assert_eq!((is_told, scene.rules() == 0), (!announced, !announced), "{report:?}");
        }
    }

    #[test]
    fn that_a_device_moved_is_remembered() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let mut steering = scene.steering();
        assert!(!steering.has_moved());
        scene.device.lock().announced = Announced { moved: true, ..Announced::default() };
        assert!(steering.has_moved() && steering.has_moved());
    }

    /// A rule of `esp4`, which plans do not have (`ESP_V4_FLOW`).
    fn unknown() -> RuleSpec {
        let spec = format!("{:0<336}", "0a000000");
        serde_json::from_str(&format!("{{\"spec\":\"{spec}\",\"context\":0}}")).unwrap()
    }

    #[test]
    fn rules_of_others_are_planned_around_also_those_that_come_later() {
        let scene = Scene::new(Simulated::new("sim0", 2, 256));
        let (mut steering, mut search) = (scene.steering(), search());
        let nic = search.nic().clone();
        // Another tool sends port 1 elsewhere than planned, and has a rule that no model has words for.
        scene.device.lock().rules.insert(200, rule(1, 0).at(200));
        scene.device.lock().rules.insert(201, unknown().at(201));
        let others = steering.others(&nic).unwrap();
        assert_eq!((others.known.len(), &others.unknown[..]), (1, &[201][..]));
        assert!(others.note().unwrap().starts_with("2 rules that are not ours stay"));
        let report = steering.follow(&mut search).unwrap();
        assert!(report.actions.notes[0].contains("goes around 1 of them"), "{report:?}");
        assert_eq!(search.others(), others.known);
        assert_eq!(steering.look().unwrap(), Lost::Nothing);
        let planned = search.plan();
        let first = planned.flows.iter().find(|flow| flow.name == "port 1").unwrap();
        assert_eq!(first.placement.queue(), Some(0), "it arrives where they send it");
        scene.device.lock().rules.insert(202, rule(2, 1).at(202));
        assert_eq!(steering.look().unwrap(), Lost::Others);
        steering.follow(&mut search).unwrap();
        assert_eq!((search.others().len(), steering.look().unwrap()), (2, Lost::Nothing));
        // They go again, and the plan has the packets again.
        scene.device.lock().rules.retain(|at, _| !(200..203).contains(at));
        assert_eq!(steering.look().unwrap(), Lost::Others);
        steering.follow(&mut search).unwrap();
        assert!(search.others().is_empty());
        let planned = search.plan();
        let first = planned.flows.iter().find(|flow| flow.name == "port 1").unwrap();
        assert_eq!(first.placement.queue(), Some(1));
        drop(steering);
        assert_eq!(scene.rules(), 0);
    }
}
