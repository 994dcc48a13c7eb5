//! Programs are exchanged under traffic, and no frame is lost.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weever_device::ethtool::KernelDriver;
use weever_device::xdp::XdpSteering;
use weever_device::{hands_over_partial_checksums, ifindex};
use weever_graph::nic::FlowType;
use weever_graph::{Field, Key};
use weever_plan::config::{Rss, Rule, Target};
use weever_plan::nic::Nic;
use weever_plan::search::{DeviceChange, RuleId};
use weever_testbed::{Fixture, allowed_cores, require_net_admin};

/// Datagrams that are on their way at once: fewer than any queue on it holds.
const WINDOW: u32 = 32;
const EXCHANGES: usize = 200;

/// The table with ordered rules.
const ORDERED: usize = 1;

/// One of several rules of different shapes; the datagrams always match some rule.
fn rule(nic: &Nic, id: u64) -> Rule {
    let model = &nic.tables[ORDERED].model;
    let mask = |field| match field {
        Field::Ip4Src => 0xffff_ff00u128 << (id % 16) & 0xffff_ffff,
        Field::L4Dst if id.is_multiple_of(3) => 0xfffe,
        _ => 0,
    };
    let value = |field| if field == Field::Ip4Src { 0x0a4d_0001 } else { 7000 };
    let key = |field| Key { mask: mask(field), value: value(field) & mask(field) };
    let keys = model.matches.iter().map(|m| key(m.field)).collect();
    let (target, priority) = (Target::Queue((id % 2) as u32), (id % 8) as u32);
    Rule { flow_type: Some(FlowType::Udp4), keys, target, priority, location: 0 }
}

fn steering(nic: &Nic) -> XdpSteering {
    let cpus: Vec<u32> = allowed_cores().unwrap().iter().map(|core| *core as u32).collect();
    XdpSteering::onto_cpus(nic, &Rss::default(), &cpus, 64).unwrap()
}

#[test]
fn no_frame_is_lost_while_the_program_is_exchanged() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    net.veth.left.set_checksum_offload(false).unwrap();
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(2).unwrap();
    let to = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 7000)).unwrap());
    let from = net.left.run(|| UdpSocket::bind((Fixture::LEFT, 5000)).unwrap());
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    // ARP is done before anything counts.
    from.send(&[0; 4]).unwrap();
    to.recv(&mut [0; 4]).unwrap();
    let mut steering = steering(&nic);
    net.right.run(|| {
        let index = ifindex("right0").unwrap();
        steering.attach(index).unwrap();
        assert!(hands_over_partial_checksums(&mut KernelDriver::open("right0").unwrap()));
    });
    let (ended, exchanges) = (AtomicBool::new(false), AtomicUsize::new(0));
    let windows = thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..EXCHANGES as u64 {
                let insert =
                    DeviceChange::Insert { table: ORDERED, id: RuleId(id), rule: rule(&nic, id) };
                let mut changes = vec![insert];
                if id >= 20 {
                    let rule = rule(&nic, id - 20);
                    changes.push(DeviceChange::Remove {
                        table: ORDERED,
                        id: RuleId(id - 20),
                        rule,
                    });
                }
                let outcome = steering.apply(&changes).unwrap();
                assert!(outcome.exchanged && outcome.failed.is_empty(), "{outcome:?}");
                exchanges.fetch_add(1, Ordering::Relaxed);
            }
            ended.store(true, Ordering::Release);
        });
        let mut windows = 0u32;
        while !ended.load(Ordering::Acquire) {
            for n in 0..WINDOW {
                from.send(&(windows * WINDOW + n).to_be_bytes()).unwrap();
            }
            let mut seen = [false; WINDOW as usize];
            for _ in 0..WINDOW {
                let mut number = [0; 4];
                let got = to.recv(&mut number);
                assert_eq!(got.ok(), Some(4), "one of window {windows} is lost: {seen:?}");
                let number = u32::from_be_bytes(number) - windows * WINDOW;
                assert!(!std::mem::replace(&mut seen[number as usize], true), "one came twice");
            }
            windows += 1;
        }
        windows
    });
    assert_eq!(exchanges.into_inner(), EXCHANGES);
    assert!(windows > 10, "there was traffic: {windows}");
    let (taken, missed) = (steering.taken().unwrap(), steering.missed().unwrap());
    let sent = u64::from(windows * WINDOW);
    // A counter may be read while the program before is still at its last frames.
    assert!(taken + missed >= sent - sent / 1000, "{taken} and {missed} of {sent}");
    assert!(taken > sent / 2, "rules were hit");
}
