//! Settings on simulated devices that behave as drivers do: what models say that a setting disturbs is what it
//! disturbs, and plans come onto devices, and off them, whatever drivers do with features, queues and tables.

use std::collections::BTreeMap;

use weever_device::actions::{
    ApplyError, ConfigurationSteps, DesiredConfiguration, Record, bring, undo,
};
use weever_device::ethtool::{Driver, EthtoolError, InjectedFailure, Packet, Profile, Simulated};
use weever_device::nic::planned;
use weever_graph::Field;
use weever_graph::nic::Forms;
use weever_plan::config::Rss;
use weever_plan::flow::{ClassId, Conj, Flow};
use weever_plan::nic::{Effect, Nic, Touched};
use weever_plan::policy::{Balance, Isolate, Measure, Policy, Share};
use weever_plan::search::{Options, Search};

fn linux(model: &str) -> Nic {
    Nic::linux_of(&weever_models::nic(model).unwrap()).unwrap()
}

fn device(profile: Profile, queues: u32) -> Simulated {
    Simulated::of(profile, "sim0", queues, if profile == Profile::Igb { 0 } else { 64 })
}

/// A class with a queue of its own, for UDP to one port, or of TCP, and the rest.
fn search(nic: &Nic, protocol: u128) -> Search {
    let balance = || -> Box<dyn Policy> { Box::new(Balance::new(Measure::Flows)) };
    let class = |name: &str, share| (name.to_string(), share, balance());
    let policy =
        Isolate::new(vec![class("rest", Share::Shared), class("one", Share::Exclusive(1))]);
    let mut search = Search::new(nic.clone(), Box::new(policy), Options::default());
    let of = Conj::all().with(Field::EthType, 0x0800).with(Field::Ip4Proto, protocol);
    let of = of
        .with(Field::Ip4Src, 7)
        .with(Field::Ip4Dst, 9)
        .with(Field::L4Src, 1000)
        .with(Field::L4Dst, 53);
    let mut flow = Flow::of("flow", vec![of]);
    flow.class = ClassId(1);
    search.run(vec![flow]);
    search
}

/// A device with a rule, as the model's plan makes it.
fn with_a_rule(model: &str, profile: Profile, queues: u32) -> Simulated {
    let mut device = device(profile, queues);
    let nic = linux(model).with_queues(queues).unwrap();
    if !nic.tables.is_empty() {
        bring(&mut device, &mut Record::default(), &mut search(&nic, 17)).unwrap();
        assert_eq!(device.rules.len(), 1, "{model}");
    }
    device.announced = Default::default();
    device
}

/// What a change did, as the model's effects; a restart is `Reopens`, however hard.
fn effects(
    device: &mut Simulated,
    change: impl FnOnce(&mut Simulated) -> Result<(), EthtoolError>,
) -> Vec<Effect> {
    let before = device.clone();
    let done = change(device);
    let mut effects = Vec::new();
    let is = |yes: bool, effect: Effect| yes.then_some(effect);
    effects.extend(is(device.announced.restart, Effect::Reopens));
    effects.extend(is(device.rules.len() < before.rules.len(), Effect::Flushes));
    effects.extend(is(device.spreading != before.spreading, Effect::Table));
    if let Err(error) = done {
        assert!(error.is_unsupported(), "{error}");
        effects.push(if before.rules.is_empty() { Effect::Refused } else { Effect::Bare });
    }
    effects
}

/// The effects of the model that [`effects`] sees.
fn said(nic: &Nic, by: &Touched, what: &str) -> Vec<Effect> {
    let fact =
        nic.disturbed_by(by).unwrap_or_else(|| panic!("{what}: the model says nothing of {by}"));
    let mut seen = Vec::new();
    for effect in &fact.effects {
        match effect {
            Effect::Resets => seen.push(Effect::Reopens),
            // Seen in where packets arrive, with other features, and with more queues.
            Effect::Sizes
            | Effect::Suspends
            | Effect::Arfs
            | Effect::Atr
            | Effect::NoAtr
            | Effect::With(_) => {}
            other => seen.push(other.clone()),
        }
    }
    seen
}

fn alike(made: &[Effect], said: &[Effect], what: &str) {
    let is_in = |one: &[Effect], other: &[Effect]| one.iter().all(|effect| other.contains(effect));
    assert!(
        is_in(made, said) && is_in(said, made),
        "{what}: the driver {made:?}, the model {said:?}"
    );
}

#[test]
fn models_say_what_drivers_disturb() {
    for (model, profile) in Profile::ALL {
        let (nic, queues) = (linux(model), 6);
        let mut sim = with_a_rule(model, profile, queues);
        // The kernel refuses fewer queues than the table names.
        sim.spreading.get_mut(&0).unwrap().table.fill(1);
        // `bare` is about devices with rules; without them the rest is seen.
        let to = sim.channels.with_receiving(4);
        let is_bare = said(&nic, &Touched::Queues, model).contains(&Effect::Bare);
        if is_bare {
            assert_eq!(effects(&mut sim, |d| d.set_channels(to)), [Effect::Bare], "{model}");
        }
        let mut bare = device(profile, queues);
        bare.spreading.get_mut(&0).unwrap().table.fill(1);
        bare.spreads_as_set = true;
        let mut made = effects(&mut bare, |d| d.set_channels(to));
        made.extend(is_bare.then_some(Effect::Bare));
        alike(&made, &said(&nic, &Touched::Queues, model), &format!("{model}, queues"));
        if nic.tables.is_empty() {
            continue;
        }
        for on in [false, true] {
            let mut sim = with_a_rule(model, profile, queues);
            sim.ntuple = !on;
            let by = if on { Touched::RulesOn } else { Touched::RulesOff };
            let made = effects(&mut sim, |d| d.set_ntuple(on));
            alike(&made, &said(&nic, &by, model), &format!("{model}, {by}"));
        }
    }
}

#[test]
fn models_say_what_features_disturb() {
    for (model, profile) in Profile::ALL {
        let (nic, mut facts) = (linux(model), 0);
        for (name, on) in profile.features() {
            let mut sim = with_a_rule(model, profile, 6);
            let before = sim.features.clone();
            let made = effects(&mut sim, |d| d.set_feature(&name, !on));
            let by = Touched::Feature(name.clone());
            let what = format!("{model}, {name}");
            let fact = nic.disturbed_by(&by);
            facts += usize::from(fact.is_some());
            alike(&made, &fact.map_or(Vec::new(), |_| said(&nic, &by, model)), &what);
            // What the kernel switches along on all devices is not the driver's.
            let of_kernel =
                |other: &str| other.ends_with("segmentation") || other.starts_with("rx-");
            for (other, was) in
                before.iter().filter(|(other, _)| **other != name && !of_kernel(other))
            {
                let with = Effect::With(other.clone());
                let is_said = fact.is_some_and(|fact| fact.has(&with));
                assert_eq!(sim.features[other] != *was, is_said, "{what} and {other}");
            }
        }
        let named = nic.disturbances.iter().filter(|d| matches!(d.by, Touched::Feature(_))).count();
        assert_eq!(
            facts, named,
            "{model} says something of a feature that its driver does not have"
        );
    }
}

/// The device's settings, without its history.
fn seen(device: &Simulated) -> impl PartialEq + std::fmt::Debug + use<> {
    let d = device.clone();
    (d.channels, d.ntuple, d.features, d.spreading, d.rules.len())
}

#[test]
fn a_plan_for_fewer_queues_comes_onto_every_device_and_off_it() {
    for (model, profile) in Profile::ALL {
        let nic = linux(model).with_queues(4).unwrap();
        let mut sim = device(profile, if profile == Profile::Siena { 4 } else { 6 });
        if nic.tables.is_empty() {
            continue;
        }
        let before = seen(&sim);
        let mut record = Record::default();
        let mut search = search(&nic, 17);
        bring(&mut sim, &mut record, &mut search).unwrap_or_else(|e| panic!("{model}: {e}"));
        assert_eq!(
            (sim.channels.receiving(), sim.rules.len(), sim.ntuple),
            (4, 1, true),
            "{model}"
        );
        let wanted = search.plan().configuration(nic.tables.len()).rss.queues();
        let table = &sim.spreading[&0].table;
        // The simulated table is smaller than some models say.
        assert_eq!(*table, Rss::table_over(&wanted, table.len()), "{model}");
        assert!(!wanted.is_empty(), "{model}");
        let back = undo(&mut sim, &mut record).unwrap();
        assert!(back.apply_all(&mut sim, &mut record).is_empty(), "{model}");
        assert_eq!(seen(&sim), before, "{model}");
    }
}

/// With another number of queues, `i40e` forgets table and key if these are fewer, and `mlx5` has a table of another
/// size, or refuses the number while a table is set. Whoever set both before finds them again.
#[test]
fn a_table_that_somebody_set_survives_another_number_of_queues() {
    for (model, profile, had, has) in [
        ("x710", Profile::I40e, 2, 6),
        ("x710", Profile::I40e, 6, 2),
        ("ena", Profile::Ena, 6, 2),
        ("ena", Profile::Ena, 2, 6),
        ("connectx5", Profile::Mlx5, 2, 6),
        ("connectx5", Profile::Mlx5, 200, 4),
        ("connectx5", Profile::Mlx5, 4, 200),
    ] {
        for is_set in [true, false] {
            let nic = linux(model).with_queues(has).unwrap();
            let mut sim = device(profile, had);
            sim.channels.most[3] = 256;
            if is_set {
                let spreading = sim.spreading(0).unwrap();
                let table: Vec<u32> = spreading.table.iter().map(|queue| queue / 2).collect();
                sim.set_spreading(0, Some(&table), Some(&[9; 40])).unwrap();
            }
            let what = format!("{model} from {had} to {has} queues, set: {is_set}");
            let (before, mut record) = (seen(&sim), Record::default());
            let mut search = search(&nic, 17);
            bring(&mut sim, &mut record, &mut search).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!((sim.channels.receiving(), sim.rules.len()), (has, 1), "{what}");
            let wanted = search.plan().configuration(nic.tables.len()).rss.queues();
            let table = &sim.spreading[&0].table;
            assert_eq!(*table, Rss::table_over(&wanted, table.len()), "{what}");
            let back = undo(&mut sim, &mut record).unwrap();
            let failed = back.apply_all(&mut sim, &mut record);
            assert!(failed.is_empty(), "{what}: {failed:?}");
            assert_eq!(seen(&sim), before, "{what}");
            assert_eq!(sim.spreads_as_set, is_set, "{what}");
            assert!(record.is_empty(), "{what}: {record:?}");
        }
    }
}

/// The process is killed behind the last step, before it has recorded what became of the steps.
#[test]
fn a_table_of_another_size_is_undone_by_what_was_foreseen() {
    for (had, has, is_set) in [(200, 4, false), (4, 200, false), (200, 4, true), (4, 200, true)] {
        let nic = linux("connectx5").with_queues(has).unwrap();
        let mut sim = device(Profile::Mlx5, had);
        sim.channels.most[3] = 256;
        if is_set {
            let entries = sim.spreading(0).unwrap().table.len();
            sim.set_spreading(0, Some(&vec![1; entries]), None).unwrap();
        }
        let before = seen(&sim);
        let desired = planned(&mut search(&nic, 17)).unwrap();
        let mut record = Record::default();
        let steps = ConfigurationSteps::between(&mut sim, &mut record, &desired).unwrap();
        let mut ahead = record.foreseeing(&steps, &mut sim).unwrap();
        steps.apply(&mut sim, &mut record).unwrap();
        let back = undo(&mut sim, &mut ahead).unwrap();
        assert_eq!(back.notes, Vec::<String>::new(), "{had} to {has}");
        assert!(back.apply_all(&mut sim, &mut ahead).is_empty(), "{had} to {has}");
        assert_eq!((seen(&sim), sim.spreads_as_set), (before, is_set), "{had} to {has}");
        assert!(ahead.is_empty(), "{ahead:?}");
    }
}

/// Wherever a step fails, the device is as it was.
#[test]
fn a_number_of_queues_with_a_table_of_another_size_is_taken_back_whatever_fails() {
    for (had, has) in [(200, 4), (4, 200)] {
        let mut steps = 0;
        for at in 0.. {
            let nic = linux("connectx5").with_queues(has).unwrap();
            let mut sim = device(Profile::Mlx5, had);
            sim.channels.most[3] = 256;
            let (before, mut record) = (seen(&sim), Record::default());
            sim.failing = Some(InjectedFailure { at, count: 1, errno: libc::EIO });
            if bring(&mut sim, &mut record, &mut search(&nic, 17)).is_ok() {
                break;
            }
            assert_eq!(seen(&sim), before, "step {at} of {had} to {has}");
            assert!(!sim.spreads_as_set && record.is_empty(), "step {at}: {record:?}");
            steps = at + 1;
        }
        assert!(steps >= 4, "each of {steps} steps was made to fail");
    }
}

fn features(wanted: &[(&str, bool)]) -> DesiredConfiguration {
    let features = wanted.iter().map(|(name, on)| (name.to_string(), *on)).collect();
    DesiredConfiguration { features, ..DesiredConfiguration::default() }
}

fn switch(
    device: &mut Simulated,
    record: &mut Record,
    wanted: &[(&str, bool)],
) -> Result<ConfigurationSteps, ApplyError> {
    let steps = ConfigurationSteps::between(device, record, &features(wanted)).unwrap();
    steps.apply(device, record).map(|()| steps)
}

#[test]
fn features_that_drivers_tie_together_come_back_together() {
    for (model, profile) in Profile::ALL {
        let mut sim = device(profile, 4);
        if !sim.features.contains_key("rx-vlan-hw-parse") {
            continue;
        }
        let (before, mut record) = (sim.features.clone(), Record::default());
        switch(&mut sim, &mut record, &[("rx-vlan-hw-parse", false)]).unwrap();
        assert!(!sim.features["rx-vlan-hw-parse"], "{model}");
        assert_eq!(!sim.features["tx-vlan-hw-insert"], profile == Profile::Igb, "{model}");
        let back = undo(&mut sim, &mut record).unwrap();
        assert!(back.apply_all(&mut sim, &mut record).is_empty(), "{model}");
        assert_eq!(sim.features, before, "{model}");
    }
}

#[test]
fn features_that_drivers_keep_are_named_and_nothing_is_left_of_the_wish() {
    let with = |profile, program, off: &[&str], on: &[&str]| {
        let mut sim = device(profile, 4);
        sim.has_program = program;
        let set = |features: &mut BTreeMap<String, bool>, names: &[&str], to| {
            features.extend(names.iter().map(|name| (name.to_string(), to)));
        };
        set(&mut sim.features, off, false);
        set(&mut sim.features, on, true);
        sim
    };
    for (mut sim, name, to) in [
        (with(Profile::Mlx5, true, &[], &[]), "rx-gro-hw", true),
        (with(Profile::Mlx5, false, &["rx-checksum"], &[]), "rx-gro-hw", true),
        (with(Profile::Mlx5, false, &[], &["rx-fcs"]), "rx-lro", true),
        (with(Profile::Ixgbe, true, &[], &[]), "rx-lro", true),
        (with(Profile::Ixgbe, false, &["rx-checksum"], &[]), "rx-lro", true),
        (with(Profile::Ice, false, &[], &[]), "rx-vlan-stag-hw-parse", true),
        (with(Profile::Ice, false, &["rx-vlan-hw-parse"], &["rx-fcs"]), "rx-vlan-hw-parse", true),
        (with(Profile::Igb, false, &[], &[]), "tx-vlan-hw-insert", false),
        (
            with(Profile::Ena, false, &["tx-checksum-ipv4", "tx-tcp-segmentation"], &[]),
            "tx-tcp-segmentation",
            true,
        ),
    ] {
        let (before, mut record) = (sim.features.clone(), Record::default());
        let error = switch(&mut sim, &mut record, &[(name, to)]).unwrap_err();
        let is_named =
            matches!(&error.source, EthtoolError::Kept { name: kept, .. } if kept == name);
        assert!(is_named && error.rollback.is_empty(), "{name}: {error}");
        assert_eq!(sim.features, before, "{name}");
        assert_ne!(sim.wished.get(name), Some(&to), "{name} comes true later");
    }
}

/// TCP that no rule takes goes where the driver wants it, unless the plan ends that.
#[test]
fn no_rules_of_the_driver_take_what_a_plan_has_the_hash_spread() {
    let tcp = |field| match field {
        Field::EthType => Some(0x0800),
        Field::Ip4Proto => Some(6),
        _ => None,
    };
    let packet = Packet { field: &tcp, forms: Forms::default() };
    for (model, profile) in [("82599", Profile::Ixgbe), ("x710", Profile::I40e)] {
        let nic = linux(model).with_queues(4).unwrap();
        for (has_rules, spares) in [(false, true), (true, true), (false, false)] {
            let mut sim = device(profile, 4);
            (sim.ntuple, sim.own_rules) = (false, Some(3));
            sim.private_flags = [("flow-director-atr".to_string(), true)].into();
            let mut desired = DesiredConfiguration::of(&nic, &Default::default()).unwrap();
            let mut record = Record::default();
            if has_rules {
                bring(&mut sim, &mut record, &mut search(&nic, 17)).unwrap();
            } else {
                if spares {
                    let mut configuration = weever_plan::config::Configuration::default();
                    configuration.rss.table = vec![0, 1];
                    desired = DesiredConfiguration::of(&nic, &configuration).unwrap();
                }
                let steps = ConfigurationSteps::between(&mut sim, &mut record, &desired).unwrap();
                steps.apply(&mut sim, &mut record).unwrap();
            }
            sim.received.clear();
            (0..64).for_each(|hash| sim.receive(&packet, hash));
            let strays = sim.received[3] == 64;
            assert_eq!(strays, !spares, "{model}, rules {has_rules}: {:?}", sim.received);
            let back = undo(&mut sim, &mut record).unwrap();
            assert!(back.apply_all(&mut sim, &mut record).is_empty(), "{model}");
            assert!(!sim.ntuple && sim.private_flags["flow-director-atr"], "{model}");
        }
    }
}
