//! The answers of a veth to `ethtool`'s calls: it has channels, and neither rules nor spreading.

use weever_device::actions::{ConfigurationSteps, DesiredConfiguration, Record, undo};
use weever_device::ethtool::{Action, Announced, Driver, EthtoolError, KernelDriver, Match};
use weever_device::{ifindex, name_of};
use weever_graph::nic::FlowType;
use weever_plan::nic::Nic;
use weever_testbed::{Fixture, Namespace, require_net_admin};

fn inside<T: Send>(net: &Fixture, work: impl FnOnce(&mut KernelDriver) -> T + Send) -> T {
    net.left.run(|| work(&mut KernelDriver::open("left0").unwrap()))
}

#[test]
fn channels_are_told_and_changed() {
    require_net_admin!();
    let net = Fixture::pair(4).unwrap();
    inside(&net, |driver| {
        assert_eq!(driver.identity().unwrap().driver, "veth");
        let found = driver.channels().unwrap();
        assert_eq!((found.receiving(), found.most[0]), (4, 4));
        driver.set_channels(found.with_receiving(2)).unwrap();
        assert_eq!(driver.channels().unwrap().receiving(), 2);
        let error = driver.set_channels(found.with_receiving(5)).unwrap_err();
        assert!(matches!(error, EthtoolError::Refused { .. }), "{error}");
        driver.set_channels(found).unwrap();
        assert_eq!(driver.channels().unwrap(), found);
    });
}

#[test]
fn what_it_cannot_is_named_with_the_remedy() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    inside(&net, |driver| {
        let rule = Match { flow_type: FlowType::Udp4, fields: vec![] };
        let rule = rule.to_rule(Action::Queue(0)).unwrap();
        let all = [
            driver.table().map(drop),
            driver.locations().map(drop),
            driver.rule(0).map(drop),
            driver.insert(&rule).map(drop),
            driver.remove(0),
            driver.spreading(0).map(drop),
            driver.add_context(&[0, 1]).map(drop),
            driver.hash_fields(FlowType::Tcp4).map(drop),
        ];
        for answer in all {
            let error = answer.unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            assert!(error.to_string().contains("--model xdp"), "{error}");
        }
        assert!(!driver.ntuple().unwrap());
        assert!(driver.set_ntuple(true).is_err());
    });
}

#[test]
fn queues_are_brought_to_a_plan_and_back() {
    require_net_admin!();
    let net = Fixture::pair(4).unwrap();
    inside(&net, |driver| {
        let found = driver.channels().unwrap();
        let mut record = Record::default();
        let desired = DesiredConfiguration { receiving: 3, ..DesiredConfiguration::default() };
        let actions = ConfigurationSteps::between(driver, &mut record, &desired).unwrap();
        assert_eq!(actions.commands("left0"), ["ethtool -L left0 rx 3"]);
        actions.apply(driver, &mut record).unwrap();
        assert_eq!(driver.channels().unwrap().receiving(), 3);
        let back = undo(driver, &mut record).unwrap();
        assert!(back.apply_all(driver, &mut record).is_empty() && record.is_empty());
        assert_eq!(driver.channels().unwrap(), found);
    });
}

#[test]
fn features_are_switched_and_given_back() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    inside(&net, |driver| {
        let names =
            ["tx-checksum-ip-generic", "rx-gro", "tx-vlan-hw-insert", "tx-tcp-segmentation"];
        let mut state = || names.map(|name| driver.feature(name).unwrap().unwrap());
        let found = state();
        let features = names.iter().zip(found).take(3).map(|(n, on)| ((*n).to_owned(), !on));
        let desired = DesiredConfiguration {
            features: features.collect(),
            ..DesiredConfiguration::default()
        };
        let mut record = Record::default();
        let actions = ConfigurationSteps::between(driver, &mut record, &desired).unwrap();
        assert_eq!(actions.steps.len(), 3, "{actions:?}");
        actions.apply(driver, &mut record).unwrap();
        for (name, was) in names.iter().zip(found).take(3) {
            assert_eq!(driver.feature(name).unwrap(), Some(!was), "{name}");
        }
        // What needs checksums went with them, and comes back with them.
        assert_eq!(driver.feature(names[3]).unwrap(), Some(false));
        let back = undo(driver, &mut record).unwrap();
        assert!(back.apply_all(driver, &mut record).is_empty() && record.is_empty());
        assert_eq!(names.map(|name| driver.feature(name).unwrap().unwrap()), found);
    });
}

/// The model says what a new veth has: each feature exists, and is on or off as it says.
#[test]
fn the_model_has_the_features_of_the_device() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    let model = Nic::of(&weever_models::nic("veth").unwrap()).unwrap();
    inside(&net, |driver| {
        for feature in &model.features {
            for name in &feature.model.ethtool {
                assert_eq!(driver.feature(name).unwrap(), Some(feature.model.starts_on), "{name}");
            }
        }
        // Segments are cut only where they are summed.
        driver.set_feature("tx-checksum-ip-generic", false).unwrap();
        let found = weever_device::as_found(driver, model.clone()).unwrap();
        assert!(found.vouched(&[]).filled.is_empty());
        let cuts = found.features.iter().find(|feature| feature.name == "TxSegmentation").unwrap();
        assert!(!cuts.model.starts_on && !model.vouched(&[]).filled.is_empty());
    });
}

#[test]
fn features_that_a_driver_keeps_are_refused() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    inside(&net, |driver| {
        // The driver has neither (`veth_setup`, `hw_features`).
        for (name, on) in [("rx-all", true), ("loopback", true)] {
            let found = driver.feature(name).unwrap();
            let features = [(name.to_owned(), on)].into();
            let desired = DesiredConfiguration { features, ..DesiredConfiguration::default() };
            let mut record = Record::default();
            let actions = ConfigurationSteps::between(driver, &mut record, &desired).unwrap();
            let error = actions.apply(driver, &mut record).unwrap_err();
            assert!(error.rollback.is_empty(), "{error}");
            assert!(record.is_empty());
            assert_eq!(driver.feature(name).unwrap(), found);
        }
        assert_eq!(driver.feature("no-such-feature").unwrap(), None);
        assert!(driver.set_feature("no-such-feature", true).is_err());
    });
}

#[test]
fn a_device_stays_itself_when_names_change() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    inside(&net, |driver| {
        let index = ifindex("left0").unwrap();
        net.left.rename("left0", "other0").unwrap();
        assert_eq!(name_of(index).as_deref(), Some("other0"));
        assert_eq!(driver.channels().unwrap().receiving(), 2);
        let namesake = KernelDriver::open("left0").unwrap().channels();
        assert!(namesake.unwrap_err().is_gone());
    });
}

#[test]
fn a_device_that_vanishes_is_gone() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.left.run(|| {
        let mut driver = KernelDriver::open("left0").unwrap();
        assert!(ifindex("left0").is_some());
        driver.channels().unwrap();
        net.veth.clone().delete().unwrap();
        assert!(driver.channels().unwrap_err().is_gone());
        assert_eq!(ifindex("left0"), None);
    });
    assert_eq!(ifindex("lo\0"), None);
}

/// What was announced by and by, until `enough`.
fn heard(driver: &mut KernelDriver, enough: impl Fn(&Announced) -> bool) -> Announced {
    let mut all = Announced::default();
    // Announcements come with the change, or from a thread of the kernel's soon after it.
    for _ in 0..1000 {
        let more = driver.announced();
        all.anything |= more.anything;
        all.restart |= more.restart;
        all.moved |= more.moved;
        if enough(&all) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    all
}

#[test]
fn changes_of_a_device_are_announced_and_those_of_others_are_not() {
    require_net_admin!();
    let net = Fixture::pair(4).unwrap();
    inside(&net, |driver| {
        driver.listen();
        driver.announced();
        assert_eq!(driver.announced(), Announced::default());
        net.left.set_feature("left0", "tx-checksum-ip-generic", false).unwrap();
        let features = heard(driver, |heard| heard.anything);
        assert!(features.anything && !features.restart, "{features:?}");
        let channels = driver.channels().unwrap();
        driver.set_channels(channels.with_receiving(2)).unwrap();
        assert!(heard(driver, |heard| heard.restart).restart, "its queues are other ones");
        net.left.set_up("lo").unwrap();
        driver.announced();
        net.left.set_down("lo").unwrap();
        assert_eq!(driver.announced(), Announced::default(), "another device");
        net.left.set_down("left0").unwrap();
        assert!(heard(driver, |heard| heard.restart).restart, "it went down");
        net.left.rename("left0", "other0").unwrap();
        assert!(heard(driver, |heard| heard.anything).anything);
    });
}

#[test]
fn a_device_that_moves_to_another_namespace_says_so_and_one_that_ends_does_not() {
    require_net_admin!();
    for moves in [false, true] {
        let (net, other) = (Fixture::pair(1).unwrap(), Namespace::new().unwrap());
        inside(&net, |driver| {
            driver.listen();
            driver.channels().unwrap();
            match moves {
                true => net.left.move_link("left0", &other).unwrap(),
                false => net.veth.clone().delete().unwrap(),
            }
            assert!(driver.channels().unwrap_err().is_gone());
            assert_eq!(heard(driver, |heard| heard.anything).moved, moves);
        });
    }
}
