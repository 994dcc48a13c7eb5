//! The answers of a veth to `ethtool`'s calls: it has channels, and neither rules nor spreading.

use weever_device::actions::{ConfigurationSteps, DesiredConfiguration, Record, undo};
use weever_device::ethtool::{Action, Driver, EthtoolError, KernelDriver, Match};
use weever_device::{ifindex, name_of};
use weever_graph::nic::FlowType;
use weever_testbed::{Fixture, require_net_admin};

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
