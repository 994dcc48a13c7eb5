//! A whole stack on a TAP interface, with the kernel of its namespace at the other end.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use common::peer::{ECHO, config};
use weever_daemon::Stack;
use weever_daemon::config::LinkKind;
use weever_testbed::{Namespace, require_net_admin};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const WEEVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

#[test]
fn the_kernel_and_the_stack_exchange_datagrams_with_checksums_left_to_the_link() {
    require_net_admin!();
    let mut config = config();
    config.interfaces[0].dev = "tap7".into();
    config.interfaces[0].name = "tap7".into();
    config.interfaces[0].link = LinkKind::Tap;
    config.probe = false;
    let namespace = Namespace::new().unwrap();
    let stack = namespace.run(|| Stack::start(config)).unwrap();
    namespace.add_address("tap7", KERNEL, 24).unwrap();
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
    let counters = stack.counters();
    let udp = counters.nodes.iter().find(|node| node.name == "TxL4UDPFillHeader").unwrap();
    let left = udp.own.iter().find(|counter| counter.name == "left_to_link").unwrap();
    assert_eq!(left.value, 3, "256, 1,000 and 1,472 bytes go out whole and are long");
    assert_eq!(stack.stop().failure, None);
}
