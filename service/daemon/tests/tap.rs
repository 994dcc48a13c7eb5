//! A whole stack on a TAP interface, with the kernel of its namespace at the other end.

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use common::peer::{ECHO, config};
use weever_daemon::Stack;
use weever_daemon::config::LinkKind;
use weever_graph::nic::Work;
use weever_plan::nic::{Feature, Nic};
use weever_testbed::{Namespace, require_net_admin};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const WEEVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A stack on a TAP, and the kernel that has the other end.
fn stack() -> (Namespace, Stack) {
    let mut config = config();
    config.interfaces[0].dev = "tap7".into();
    config.interfaces[0].name = "tap7".into();
    config.interfaces[0].link = LinkKind::Tap;
    config.services.tcp_echo = Some(ECHO);
    config.probe = false;
    let namespace = Namespace::new().unwrap();
    let stack = namespace.run(|| Stack::start(config)).unwrap();
    namespace.add_address("tap7", KERNEL, 24).unwrap();
    (namespace, stack)
}

/// The counter `name` of a node.
fn count(stack: &Stack, node: &str, name: &str) -> u64 {
    let counters = stack.counters();
    let node = counters.nodes.iter().find(|n| n.name == node).unwrap();
    node.own.iter().find(|counter| counter.name == name).unwrap().value
}

#[test]
fn the_kernel_and_the_stack_exchange_datagrams_with_checksums_left_to_the_link() {
    require_net_admin!();
    let (namespace, stack) = stack();
    let socket = namespace.run(|| UdpSocket::bind((KERNEL, 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The longest ones arrive and leave in pieces.
    for length in [0, 18, 255, 256, 1000, 1472, 1473, 9000] {
        let sent: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        let mut received = vec![0; 10_000];
        socket.send_to(&sent, (WEEVER, ECHO)).unwrap();
        let (n, from) = socket.recv_from(&mut received).expect("an echo");
        assert_eq!((&received[..n], from.ip()), (&sent[..], WEEVER.into()), "{length} bytes");
    }
    let left = count(&stack, "TxL4UDPFillHeader", "left_to_link");
    assert_eq!(left, 3, "256, 1,000 and 1,472 bytes go out whole and are long");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn long_segments_are_summed_and_cut_by_the_link() {
    require_net_admin!();
    let (namespace, stack) = stack();
    let mut stream = namespace.run(|| TcpStream::connect((WEEVER, ECHO))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let sent: Vec<u8> =
        (0..400_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let mine = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&mine));
    let mut received = vec![0; sent.len()];
    stream.read_exact(&mut received).expect("all of it comes back");
    assert!(received == sent, "as it was");
    writing.join().unwrap().unwrap();
    let left = count(&stack, "RxL4TCPEndpoint", "left_to_link");
    assert!(left >= 200, "{left} segments were left to the link");
    assert_eq!(stack.stop().failure, None);
}

/// What the models of links say of the way out is what their links offer.
#[test]
fn links_offer_what_their_models_say() {
    require_net_admin!();
    let namespace = Namespace::new().unwrap();
    let open = || weever_link_sys::tap::Tap::open(&weever_link_sys::tap::TapConfig::new("tap8"));
    let tap = namespace.run(open).unwrap();
    let offered = weever_link::Link::info(&tap).offload;
    let model = Nic::of(&weever_models::nic("tap").unwrap()).unwrap();
    assert_eq!(offered.tx_checksum, !model.vouched(&[]).filled.is_empty());
    let cuts = |feature: &Feature| feature.model.work.iter().any(|w| matches!(w, Work::Cuts(_)));
    assert_eq!(offered.segmentation, model.features.iter().any(cuts));
}
