use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};
use weever_plan::ethtool;
use weever_plan::flow::{Conj, Flow, Kinds};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{Options, Search};

use super::*;
use crate::ethtool::{
    ANY_LOCATION, Action, Channels, Driver, HashFields, InjectedFailure, Match, RuleSpec, Simulated,
};

const QUEUES: u32 = 4;

fn rule(port: u16, queue: u32) -> RuleSpec {
    let key = Key { mask: 0xffff, value: port.into() };
    let matches = Match { flow_type: FlowType::Udp4, fields: vec![(Field::L4Dst, key)] };
    matches.to_rule(Action::Queue(queue)).unwrap()
}

/// Spread over the first two queues, these rules.
fn desired(rules: Vec<RuleSpec>) -> DesiredConfiguration {
    DesiredConfiguration {
        receiving: QUEUES,
        spread: vec![0, 1],
        key: None,
        fields: vec![(FlowType::Udp4, HashFields(0xf0))],
        contexts: Vec::new(),
        rules,
        ..DesiredConfiguration::default()
    }
}

fn device(chooses: bool) -> Simulated {
    let mut device = Simulated::new("sim0", 2, 16);
    device.chooses = chooses;
    device
}

/// The device as its user sees it.
fn seen(device: &Simulated) -> impl PartialEq + std::fmt::Debug + use<> {
    let d = device.clone();
    (d.channels, d.ntuple, d.rules, d.spreading, d.fields.into_iter().find(|(_, f)| f.0 != 0x30))
}

fn bring(
    device: &mut Simulated,
    record: &mut Record,
    desired: &DesiredConfiguration,
) -> Result<ConfigurationSteps, ApplyError> {
    let actions = ConfigurationSteps::between(device, record, desired).unwrap();
    actions.apply(device, record).map(|()| actions)
}

fn take_back(device: &mut Simulated, record: &mut Record) -> ConfigurationSteps {
    let actions = undo(device, record).unwrap();
    assert!(actions.apply_all(device, record).is_empty());
    actions
}

#[test]
fn a_device_is_brought_to_a_plan_and_back() {
    for chooses in [false, true] {
        let mut device = device(chooses);
        let before = seen(&device);
        let mut record = Record::default();
        let rules = vec![rule(53, 2), rule(80, 3)];
        let actions = bring(&mut device, &mut record, &desired(rules.clone())).unwrap();
        let commands = actions.commands("sim0");
        let place = |n: u32| if chooses { String::new() } else { format!(" loc {n}") };
        let expected = [
            "ethtool -L sim0 combined 4".to_string(),
            "ethtool -N sim0 rx-flow-hash udp4 sdfn".into(),
            // Already so, but drivers forget it when there are more queues.
            "ethtool -X sim0 equal 2".into(),
            "ethtool -K sim0 ntuple on".into(),
            format!("ethtool -N sim0 flow-type udp4 dst-port 53 action 2{}", place(0)),
            format!("ethtool -N sim0 flow-type udp4 dst-port 80 action 3{}", place(1)),
        ];
        assert_eq!(commands, expected);
        assert_eq!((device.channels.combined, device.ntuple, device.rules.len()), (4, true, 2));
        assert!(bring(&mut device, &mut record, &desired(rules)).unwrap().is_empty());
        take_back(&mut device, &mut record);
        assert_eq!(seen(&device), before);
        assert!(record.is_empty());
    }
}

#[test]
fn features_are_switched_read_back_and_given_back() {
    let mut device = device(true);
    device.features = [("rxvlan", true), ("rx-gro", false), ("rx-lro", true)]
        .map(|(name, on)| (name.to_owned(), on))
        .into();
    let before = device.features.clone();
    let mut record = Record::default();
    let with = |features: &[(&str, bool)]| DesiredConfiguration {
        features: features.iter().map(|(name, on)| ((*name).into(), *on)).collect(),
        ..DesiredConfiguration::default()
    };
    let wanted = with(&[("rxvlan", false), ("rx-gro", true), ("rx-lro", true), ("no-such", false)]);
    let actions = bring(&mut device, &mut record, &wanted).unwrap();
    assert_eq!(
        actions.commands("sim0"),
        ["ethtool -K sim0 rx-gro on", "ethtool -K sim0 rxvlan off"]
    );
    assert!(actions.notes.iter().any(|note| note.contains("for all who use the device")));
    assert!(bring(&mut device, &mut record, &wanted).unwrap().is_empty());
    // The next plan needs one of them only.
    let actions = bring(&mut device, &mut record, &with(&[("rxvlan", false)])).unwrap();
    assert_eq!(actions.commands("sim0"), ["ethtool -K sim0 rx-gro off"]);
    let written = Record::read(&record.write().unwrap()).unwrap();
    assert_eq!(written, record);
    take_back(&mut device, &mut record);
    assert_eq!(device.features, before);
    assert!(record.is_empty());
    // Somebody switches it back meanwhile.
    bring(&mut device, &mut record, &with(&[("rxvlan", false)])).unwrap();
    device.features.insert("rxvlan".into(), true);
    assert!(take_back(&mut device, &mut record).is_empty());
}

#[test]
fn a_feature_that_stays_as_it_is_fails_and_what_went_before_is_taken_back() {
    let mut device = device(true);
    device.features = [("a", true), ("b", true)].map(|(name, on)| (name.to_owned(), on)).into();
    device.fixed = vec!["b".into()];
    let before = device.features.clone();
    let mut record = Record::default();
    let mut deaf = Simulated { has_no_netlink: true, ..device.clone() };
    let features = [("a".to_owned(), false)].into();
    let wanted = DesiredConfiguration { features, ..DesiredConfiguration::default() };
    let error = bring(&mut deaf, &mut record, &wanted).unwrap_err();
    assert!(error.to_string().contains("leaves the feature `a` on"), "{error}");
    let features = [("a".to_owned(), false), ("b".to_owned(), false)].into();
    let wanted = DesiredConfiguration { features, ..DesiredConfiguration::default() };
    let error = bring(&mut device, &mut record, &wanted).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("leaves the feature `b` on") && said.contains("as it was"), "{said}");
    assert!(device.features == before && record.is_empty());
}

#[test]
fn only_what_differs_is_changed() {
    for chooses in [false, true] {
        let mut device = device(chooses);
        let mut record = Record::default();
        let rules = vec![rule(1, 0), rule(2, 1), rule(3, 2)];
        bring(&mut device, &mut record, &desired(rules)).unwrap();
        let changes = device.changes;
        let rules = vec![rule(1, 0), rule(2, 3), rule(3, 2), rule(4, 1)];
        let actions = bring(&mut device, &mut record, &desired(rules.clone())).unwrap();
        // Where the driver chooses locations there is no replacing at one.
        assert_eq!(actions.steps.len(), if chooses { 3 } else { 2 }, "{actions:?}");
        assert_eq!(device.changes - changes, actions.steps.len());
        let has = |rule: &RuleSpec| device.rules.values().any(|r| r.says_the_same(rule));
        assert!(device.rules.len() == 4 && rules.iter().all(has));
        take_back(&mut device, &mut record);
        assert!(device.rules.is_empty());
    }
}

#[test]
fn rules_of_others_are_never_touched() {
    for chooses in [false, true] {
        let mut device = device(chooses);
        device.rules = [0, 2].map(|at| (at, rule(9000 + at as u16, 0).at(at))).into();
        let others = device.rules.clone();
        let mut record = Record::default();
        let planned = (0..4).map(|n| rule(n as u16 + 1, n)).collect::<Vec<_>>();
        let located = planned.iter().zip(0..).map(|(rule, at)| rule.clone().at(at));
        let wanted = if chooses { planned.clone() } else { located.collect() };
        bring(&mut device, &mut record, &desired(wanted)).unwrap();
        assert_eq!(record.locations().collect::<Vec<_>>(), [1, 3, 4, 5]);
        for (rule, at) in planned.iter().zip([1, 3, 4, 5]) {
            assert!(device.rules[&at].says_the_same(rule), "the order stays");
        }
        assert!(others.iter().all(|(at, rule)| device.rules[at] == *rule));
        take_back(&mut device, &mut record);
        assert_eq!(device.rules, others);
    }
}

#[test]
fn a_rule_of_ours_that_somebody_changed_is_theirs() {
    let mut device = device(false);
    let mut record = Record::default();
    bring(&mut device, &mut record, &desired(vec![rule(1, 0), rule(2, 0)])).unwrap();
    device.rules.insert(0, rule(7, 1).at(0));
    let actions = take_back(&mut device, &mut record);
    assert!(actions.notes[0].contains("rule 0 was ours"), "{:?}", actions.notes);
    assert_eq!(device.rules.len(), 1, "a rule that others changed stays, ours goes");
    assert!(device.rules[&0].says_the_same(&rule(7, 1)));
}

#[test]
fn settings_that_somebody_changed_since_are_left() {
    let mut device = device(false);
    let mut record = Record::default();
    let mut wanted = desired(vec![]);
    wanted.spread = vec![1];
    bring(&mut device, &mut record, &wanted).unwrap();
    device.spreading.get_mut(&0).unwrap().table = vec![0; 128];
    let actions = undo(&mut device, &mut record).unwrap();
    assert_eq!(actions.notes, ["the table of the hash changed since: it is left as it is"]);
}

#[test]
fn a_table_that_was_the_drivers_own_becomes_that_again() {
    for (was_set, shrinks) in [(false, false), (false, true), (true, false)] {
        let mut device = device(false);
        if was_set {
            device.spreading.get_mut(&0).unwrap().table[0] = 1;
        }
        let before = (device.channels, device.spreading.clone());
        let mut record = Record::default();
        let mut wanted = desired(vec![]);
        wanted.spread = vec![1];
        wanted.receiving = if shrinks { 3 } else { wanted.receiving };
        bring(&mut device, &mut record, &wanted).unwrap();
        assert!(device.spreads_as_set);
        let actions = take_back(&mut device, &mut record);
        assert_eq!((device.channels, device.spreading.clone()), before, "{actions:?}");
        assert_eq!(device.spreads_as_set, was_set, "{actions:?}");
        assert!(record.is_empty());
    }
}

#[test]
fn private_flags_are_off_while_a_plan_wants_that() {
    for found in [true, false] {
        let mut device = device(false);
        device.private_flags = [("atr".to_string(), found)].into();
        let mut record = Record::default();
        let mut wanted = desired(vec![rule(1, 0)]);
        bring(&mut device, &mut record, &wanted).unwrap();
        assert_eq!(device.private_flags["atr"], found);
        wanted.off = vec!["atr".into(), "unknown".into()];
        let actions = bring(&mut device, &mut record, &wanted).unwrap();
        assert!(!device.private_flags["atr"]);
        let command = "ethtool --set-priv-flags sim0 atr off".to_string();
        assert_eq!(actions.commands("sim0").contains(&command), found);
        take_back(&mut device, &mut record);
        assert_eq!(device.private_flags["atr"], found);
        assert!(record.is_empty(), "{record:?}");
    }
}

#[test]
fn disturbances_are_told_beforehand() {
    let mut device = device(false);
    device.steers_sockets = true;
    let wanted = desired(vec![rule(1, 0)]);
    let steps = ConfigurationSteps::between(&mut device, &mut Record::default(), &wanted).unwrap();
    let told = |what: &str| steps.notes.iter().any(|note| note.contains(what));
    assert!(
        told("`-L` reopens") && told("`-K ntuple on` resets") && told("aRFS"),
        "{:?}",
        steps.notes
    );
}

#[test]
fn a_failure_at_any_step_takes_back_what_came_before() {
    let rules: Vec<_> = (1..5).map(|n| rule(n, u32::from(n) % 4)).collect();
    let (none, other) = (vec![], vec![rule(1, 3), rule(9, 2), rule(3, 3), rule(4, 0)]);
    for (chooses, start) in [(false, &none), (true, &none), (false, &other), (true, &other)] {
        let mut steps = 0;
        for at in 0.. {
            let mut device = device(chooses);
            let mut record = Record::default();
            bring(&mut device, &mut record, &desired(start.clone())).unwrap();
            let (before, known) = (seen(&device), record.clone());
            let mut wanted = desired(rules.clone());
            wanted.spread = vec![2, 3];
            device.failing =
                Some(InjectedFailure { at: device.changes + at, count: 1, errno: libc::ENOSPC });
            let Err(error) = bring(&mut device, &mut record, &wanted) else { break };
            assert!(error.rollback.is_empty(), "{error}");
            let text = error.to_string();
            assert!(text.contains("table is full") && text.contains("as it was"), "{text}");
            let has = |rule: &RuleSpec| device.rules.values().any(|r| r.says_the_same(rule));
            assert!(device.rules.len() == start.len() && start.iter().all(has));
            // A driver that chooses locations may choose others.
            assert!(chooses || (seen(&device) == before && record == known));
            device.failing = None;
            take_back(&mut device, &mut record);
            assert!(device.rules.is_empty());
            steps = at + 1;
        }
        assert!(steps >= 3, "each of {steps} steps was made to fail");
    }
}

#[test]
fn when_the_way_back_fails_too_both_errors_are_told() {
    let mut device = device(false);
    let mut record = Record::default();
    device.failing = Some(InjectedFailure { at: 5, count: 2, errno: libc::EIO });
    let error =
        bring(&mut device, &mut record, &desired(vec![rule(1, 0), rule(2, 0)])).unwrap_err();
    assert_eq!(error.rollback.len(), 1);
    let text = error.to_string();
    assert!(text.contains("action 0 loc 1`") && text.contains("taking back"), "{text}");
    assert_eq!(record.locations().collect::<Vec<_>>(), [0], "the record has the device's rules");
}

#[test]
fn a_device_that_vanishes_is_named() {
    let mut device = device(false);
    let mut record = Record::default();
    bring(&mut device, &mut record, &desired(vec![rule(1, 0)])).unwrap();
    device.gone = true;
    let error =
        ConfigurationSteps::between(&mut device, &mut record, &desired(vec![])).unwrap_err();
    assert!(error.to_string().contains("no device `sim0`"), "{error}");
    assert!(undo(&mut device, &mut record).unwrap_err().is_gone());
    let actions =
        ConfigurationSteps { steps: vec![Step::Insert { rule: rule(1, 0) }], notes: vec![] };
    let error = actions.apply(&mut device, &mut record).unwrap_err();
    assert!(error.source.is_gone() && !error.to_string().contains("as it was"), "{error}");
}

#[test]
fn what_does_not_fit_is_told_before_anything_is_changed() {
    let mut device = device(false);
    let before = seen(&device);
    let mut record = Record::default();
    let many: Vec<_> = (0..100_000u32).map(|n| rule(n as u16, 0)).collect();
    let error = ConfigurationSteps::between(&mut device, &mut record, &desired(many)).unwrap_err();
    assert!(matches!(error, ConfigurationError::NoRoom { wanted: 100_000, .. }), "{error}");
    let queues = DesiredConfiguration { receiving: 65, ..DesiredConfiguration::default() };
    let error = ConfigurationSteps::between(&mut device, &mut record, &queues).unwrap_err();
    assert!(matches!(error, ConfigurationError::Queues { most: 64, wanted: 65, .. }), "{error}");
    device.spreading.clear();
    let error =
        ConfigurationSteps::between(&mut device, &mut record, &desired(vec![])).unwrap_err();
    assert!(matches!(error, ConfigurationError::Spreading { .. }), "{error}");
    device = self::device(false);
    assert_eq!(seen(&device), before);
    device.size = 0;
    let error = ConfigurationSteps::between(&mut device, &mut record, &desired(vec![rule(1, 1)]))
        .unwrap_err();
    assert!(error.to_string().contains("--model xdp"), "the remedy: {error}");
}

#[test]
fn fewer_queues_come_last_and_more_first() {
    let mut device = Simulated::new("sim0", 8, 16);
    let before = seen(&device);
    let mut record = Record::default();
    let wanted = DesiredConfiguration {
        receiving: 2,
        spread: vec![0, 1],
        rules: vec![rule(1, 1)],
        ..DesiredConfiguration::default()
    };
    let actions = bring(&mut device, &mut record, &wanted).unwrap();
    assert!(matches!(actions.steps.last(), Some(Step::Channels { .. })));
    assert_eq!(device.channels.combined, 2);
    take_back(&mut device, &mut record);
    assert_eq!(seen(&device), before);
    let separate = Channels { rx: 4, tx: 4, most: [8, 8, 0, 0], ..Channels::default() };
    assert_eq!(separate.with_receiving(6).rx, 6);
}

#[test]
fn a_record_survives_in_its_file_and_garbage_is_told() {
    let folder = std::env::temp_dir().join(format!("weever-device-{}", std::process::id()));
    let file = StateFile::of(&folder, 7).unwrap();
    assert_eq!(file.load().unwrap(), Record::default());
    let mut device = device(false);
    let before = seen(&device);
    let mut record = Record::default();
    bring(&mut device, &mut record, &desired(vec![rule(1, 0), rule(2, 1)])).unwrap();
    file.save(&record).unwrap();
    let mut loaded = file.load().unwrap();
    assert_eq!(loaded, record);
    take_back(&mut device, &mut loaded);
    assert_eq!(seen(&device), before);
    std::fs::write(file.path(), "{\"ours\": 7").unwrap();
    let error = file.load().unwrap_err().to_string();
    assert!(error.contains("no record of steering") && error.contains("remove it"), "{error}");
    file.save(&loaded).unwrap();
    assert!(!file.path().exists(), "an empty record has no file");
    std::fs::remove_dir(&folder).unwrap();
}

fn search(model: &str, flows: u16) -> Search {
    let nic = Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap();
    let nic = nic.with_queues(QUEUES).unwrap();
    let policy = Box::new(Balance::new(Measure::Flows));
    let mut search = Search::new(nic, policy, Options::default());
    let conj = |n: u16| {
        let udp = Conj::of_kinds(Kinds::of(FlowType::Udp4));
        let from = udp.with(Field::Ip4Src, 0x0a00_0100 + u128::from(n)).with(Field::L4Src, 7);
        from.with(Field::Ip4Dst, 0x0a00_0001).with(Field::L4Dst, 11211)
    };
    search.run((1..=flows).map(|n| Flow::of(format!("f{n}"), vec![conj(n)])).collect());
    search
}

#[test]
fn plans_of_models_become_the_commands_that_the_planner_prints() {
    for model in ["82599", "x710", "e810", "connectx5", "ena", "gvnic", "sfc9020"] {
        let mut search = search(model, 12);
        let plan = search.plan();
        let nic = search.nic().clone();
        let configuration = plan.configuration(nic.tables.len());
        let desired = DesiredConfiguration::of(&nic, &configuration).unwrap();
        assert!(!desired.rules.is_empty(), "{model}");
        let mut device = Simulated::new("sim0", QUEUES, 9000);
        device.chooses = desired.rules.iter().all(|rule| rule.location() == ANY_LOCATION);
        let actions =
            ConfigurationSteps::between(&mut device, &mut Record::default(), &desired).unwrap();
        let rules = |lines: Vec<String>| -> Vec<String> {
            let rules = lines.into_iter().filter(|line| line.contains("flow-type"));
            rules.collect()
        };
        let printed = rules(ethtool::commands(&nic, &configuration, "sim0"));
        assert_eq!(rules(actions.commands("sim0")), printed, "{model}");
        actions.apply(&mut device, &mut Record::default()).unwrap();
        assert_eq!(device.locations().unwrap().len(), desired.rules.len());
    }
}

#[test]
fn a_driver_with_one_mask_refuses_and_is_put_back() {
    let mut device = device(false);
    device.one_mask = true;
    let before = seen(&device);
    let mut record = Record::default();
    let key = Key { mask: 0xff00, value: 0x100 };
    let matches = Match { flow_type: FlowType::Udp4, fields: vec![(Field::L4Dst, key)] };
    let wide = matches.to_rule(Action::Queue(1)).unwrap();
    let error = bring(&mut device, &mut record, &desired(vec![rule(1, 0), wide])).unwrap_err();
    assert!(error.to_string().contains("mask"), "{error}");
    assert_eq!(seen(&device), before);
}

/// Rules of two contexts, and one that drops.
fn with_contexts(sets: [&[u32]; 2]) -> DesiredConfiguration {
    let sending = |port: u16, action: Action| rule(port, 0).sending(action);
    let spread = |context: u32| Action::Context { context, queue: 0 };
    let rules = vec![sending(1, spread(0)), sending(2, spread(1)), sending(3, Action::Drop)];
    let contexts = sets.map(<[u32]>::to_vec).to_vec();
    DesiredConfiguration { contexts, ..desired(rules) }
}

#[test]
fn contexts_come_before_their_rules_and_go_behind_them() {
    let mut device = device(false);
    let before = seen(&device);
    let mut record = Record::default();
    let actions = bring(&mut device, &mut record, &with_contexts([&[1, 2], &[2, 3]])).unwrap();
    let commands = actions.commands("sim0");
    let expected = [
        "ethtool -X sim0 weight 0 1 1 context new",
        "ethtool -X sim0 weight 0 0 1 1 context new",
        "ethtool -K sim0 ntuple on",
        "ethtool -N sim0 flow-type udp4 dst-port 1 context 1 loc 0",
        "ethtool -N sim0 flow-type udp4 dst-port 2 context 2 loc 1",
        "ethtool -N sim0 flow-type udp4 dst-port 3 action -1 loc 2",
    ];
    assert_eq!(commands[commands.len() - expected.len()..], expected);
    assert_eq!(device.spreading[&1].table, [[1; 64], [2; 64]].concat(), "as the printed command");
    let again = bring(&mut device, &mut record, &with_contexts([&[1, 2], &[2, 3]])).unwrap();
    assert!(again.is_empty(), "{again:?}");
    // One stays, one is exchanged.
    let actions = bring(&mut device, &mut record, &with_contexts([&[0, 1], &[2, 3]])).unwrap();
    let commands = actions.commands("sim0");
    let expected = [
        "ethtool -X sim0 equal 2 context new",
        "ethtool -N sim0 flow-type udp4 dst-port 1 context 3 loc 0",
        "ethtool -X sim0 context 1 delete",
    ];
    assert_eq!(commands, expected);
    assert_eq!(device.spreading.keys().collect::<Vec<_>>(), [&0, &2, &3]);
    let text = serde_json::to_string(&record).unwrap();
    let mut record: Record = serde_json::from_str(&text).unwrap();
    take_back(&mut device, &mut record);
    assert_eq!(seen(&device), before);
    assert!(record.is_empty());
}

#[test]
fn a_context_is_not_mistaken_for_another_whose_number_was_its_name() {
    let mut device = device(false);
    // The first number is taken, so that our contexts get other numbers than planned.
    let of_others = device.spreading[&0].clone();
    device.spreading.insert(1, of_others);
    let mut record = Record::default();
    let queues_of = |device: &Simulated, at: u32| match device.rules[&at].action() {
        Action::Context { context, .. } => {
            let mut table = device.spreading[&context].table.clone();
            table.dedup();
            table
        }
        other => panic!("{other:?}"),
    };
    let first = with_contexts([&[1, 2], &[2, 3]]);
    bring(&mut device, &mut record, &first).unwrap();
    assert_eq!((queues_of(&device, 0), queues_of(&device, 1)), (vec![1, 2], vec![2, 3]));
    let mut more = first.clone();
    more.rules.push(rule(9, 0).sending(Action::Context { context: 0, queue: 0 }));
    bring(&mut device, &mut record, &more).unwrap();
    let ninth = device.rules.iter().find(|(_, r)| r.matches() == rule(9, 0).matches());
    assert_eq!(queues_of(&device, *ninth.unwrap().0), [1, 2]);
    take_back(&mut device, &mut record);
    assert_eq!(device.spreading.keys().collect::<Vec<_>>(), [&0, &1]);
    assert!(record.is_empty());
}

#[test]
fn contexts_are_taken_back_whatever_fails() {
    for at in 0..8 {
        let mut device = device(false);
        let mut record = Record::default();
        bring(&mut device, &mut record, &with_contexts([&[1, 2], &[2, 3]])).unwrap();
        let before = device.clone();
        let found = record.clone();
        let changes = device.changes;
        device.failing = Some(InjectedFailure { at: changes + at, count: 1, errno: libc::EBUSY });
        let wanted = with_contexts([&[0, 3], &[0, 1]]);
        match bring(&mut device, &mut record, &wanted) {
            Ok(_) => assert!(at >= 6, "six steps: two contexts, two rules, two contexts less"),
            Err(error) => {
                assert!(error.rollback.is_empty(), "{error}");
                let rules =
                    |d: &Simulated| d.rules.values().map(|r| r.matches()).collect::<Vec<_>>();
                assert_eq!(rules(&device), rules(&before));
                let tables = |d: &Simulated| {
                    let mut all: Vec<_> = d.spreading.values().map(|s| s.table.clone()).collect();
                    all.sort();
                    all
                };
                assert_eq!(tables(&device), tables(&before), "step {at}");
                assert_eq!(record.contexts.len(), found.contexts.len());
                // Every rule names a context that is there.
                for rule in device.rules.values() {
                    if let Action::Context { context, .. } = rule.action() {
                        assert!(device.spreading.contains_key(&context), "step {at}");
                    }
                }
            }
        }
        device.failing = None;
        take_back(&mut device, &mut record);
        assert!(device.rules.is_empty() && device.spreading.len() == 1, "step {at}");
    }
}
