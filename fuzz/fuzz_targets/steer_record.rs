//! Any bytes as the record of changes to a device: it is refused, or undoing it touches only rules that it
//! names, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_device::actions::{ConfigurationSteps, DesiredConfiguration, Record, undo};
use weever_device::ethtool::{Action, Match, RuleSpec, Simulated};
use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};

fn rule(port: u16, queue: u32) -> RuleSpec {
    let key = Key { mask: 0xffff, value: port.into() };
    let matches = Match { flow_type: FlowType::Udp4, fields: vec![(Field::L4Dst, key)] };
    matches.to_rule(Action::Queue(queue)).expect("udp has ports")
}

fuzz_target!(|file: &[u8]| {
    let Ok(record) = Record::read(file) else { return };
    let mut device = Simulated::new("sim0", 4, 16);
    // Only a record that says the very same of it may have it removed.
    device.rules.insert(3, rule(53, 1).at(3));
    let theirs = !String::from_utf8_lossy(file).contains("spec");
    let mut known = record.clone();
    if let Ok(actions) = undo(&mut device, &mut known) {
        drop(actions.commands("sim0"));
        drop(actions.apply_all(&mut device, &mut known));
    }
    assert!(!theirs || device.rules.contains_key(&3));
    let desired = DesiredConfiguration {
        receiving: 4,
        rules: vec![rule(7, 2)],
        ..DesiredConfiguration::default()
    };
    let mut known = record;
    if let Ok(actions) = ConfigurationSteps::between(&mut device, &mut known, &desired) {
        drop(actions.apply(&mut device, &mut known));
    }
    if let Ok(text) = known.write() {
        assert_eq!(Record::read(&text).expect("ours is well-formed"), known);
    }
});
