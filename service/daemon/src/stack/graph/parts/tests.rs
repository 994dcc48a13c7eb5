//! A wrong plan: packets come that it does not expect.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use weever_plan::embed::Arrival;
use weever_plan::flow::Conj;
use weever_testbed::{Fixture, require_net_admin};

use super::GraphParts;
use crate::Stack;
use crate::config::{Config, Interface, Share};

const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
const ECHO: u16 = 7;
const POLICY: &str = "
[[class]]
name = \"echo\"
match = \"udp dst port 7\"
queues = { only = [1] }
";

fn config() -> Config {
    let file = std::env::temp_dir().join(format!("weever-parts-{}.toml", std::process::id()));
    std::fs::write(&file, POLICY).unwrap();
    let mut interface = Interface::new("left0", vec![format!("{STACK}/24").parse().unwrap()]);
    interface.share = Share::None;
    let mut config = Config::of(vec![interface]);
    config.services.echo = Some(ECHO);
    config.pool.frames = 8192;
    config.probe = false;
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    config.cores = vec![0, last.min(1)];
    config.control = Some(file.with_extension("sock"));
    config.policy = Some(file);
    config
}

fn come_back(client: &UdpSocket, count: usize) -> usize {
    let back =
        |i: &usize| client.send(&i.to_be_bytes()).is_ok() && client.recv(&mut [0; 9]).is_ok();
    (0..count).filter(back).count()
}

#[test]
fn strangers_are_answered_whatever_was_ordered() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    let stack = net.left.run(|| Stack::start(config())).unwrap();
    let client = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0))).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.connect((STACK, ECHO)).unwrap();
    assert!(come_back(&client, 20) >= 18);
    let handed_over = || stack.shared.host.workers[1].stats.handed_over();
    assert_eq!(handed_over(), 0, "nobody is a stranger");
    let nodes = || stack.shared.host.publisher.sizes();
    let expected = nodes()[1];

    let graph_parts = GraphParts::new(Arc::clone(&stack.shared.host.publisher), 1);
    let tcp = Conj::all().with(weever_graph::Field::Ip4Proto, 6);
    graph_parts.order(0, vec![Arrival { queue: 1, parts: vec![tcp] }]);
    assert!(nodes()[1] < expected, "it has no UDP any more: {:?}", nodes());
    assert_eq!((come_back(&client, 200), handed_over()), (200, 200));

    graph_parts.order(0, Vec::new());
    assert!(nodes()[1] < 12, "little is left: {:?}", nodes());
    assert_eq!((come_back(&client, 200), handed_over()), (200, 400));

    graph_parts.order(0, vec![Arrival { queue: 1, parts: vec![Conj::all()] }]);
    assert_eq!(nodes()[0], nodes()[1]);
    assert_eq!((come_back(&client, 200), handed_over()), (200, 400));
    assert_eq!(stack.stop().failure, None);
}
