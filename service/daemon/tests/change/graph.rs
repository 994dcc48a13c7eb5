//! The graph is changed and replaced while it runs, by one operator or several.

use std::time::Instant;

use weever_blocks_std::testing::frames;
use weever_blocks_std::testing::frames::{PEER, PEER_MAC};
use weever_daemon::config::{Config, Prefix};
use weever_service_api::{ApplyRequest, Client, CountersRequest, GraphFormat, GraphRequest};

use super::operator::{client, lost, refusal, set, unprobed};
use crate::common::peer::{PATIENCE, Peer, config, start, start_with, try_start};

#[test]
fn the_graph_that_runs_can_be_changed_and_applied() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    assert_eq!(client.call(&ApplyRequest::new("same.unicorn", &text)).unwrap().steps, 0);
    peer.echo(b"before");
    // A counter between the echo service and its answers.
    let changed = text.replace("port echo[Echo]", "port echo[Count]").replace(
        "node Echo {",
        "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
    );
    let published = client.call(&ApplyRequest::new("counted.unicorn", &changed)).unwrap();
    assert!(published.steps >= 2 && published.epoch == 1, "{published:?}");
    peer.echo(b"after");
    let counters = client.call(&CountersRequest {}).unwrap();
    let packets = |name: &str| counters.nodes.iter().find(|n| n.name == name).map(|n| n.packets);
    assert_eq!((packets("RxL4UDPCount"), packets("RxL4UDPEcho")), (Some(1), Some(2)));
    assert_eq!(client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text, changed);
    client.call(&ApplyRequest::new("host.unicorn", &text)).unwrap();
    peer.echo(b"as it was");
}

#[test]
fn a_graph_that_cannot_run_changes_nothing_and_is_named() {
    let (stack, mut peer) = start(config());
    let mut client = client(&stack);
    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
    for (from, to, word) in [
        ("port echo[Echo]", "port echo[Ecko]", "Ecko"),
        ("implementation UdpEcho", "implementation UdpEkko", "RxL4UDPEcho"),
        (
            "attr \"drop drop: UDP echo refused: its answer could loop\"",
            "attr \"x=1\"",
            "RxL4UDPEcho",
        ),
        (
            "node Queue {\n            attr \"source\"",
            "node Kueue {\n            implementation RxQueue\n            attr \"source\"",
            "start at `RxQueue`",
        ),
        ("config Sockets {", "config Socks {", "Sockets"),
    ] {
        assert!(text.contains(from), "{from}");
        let message =
            refusal(client.call(&ApplyRequest::new("mine.unicorn", text.replace(from, to))));
        assert!(message.contains(word), "{from}: {message}");
    }
    let long = "/".repeat(weever_service_api::MAX_MESSAGE);
    assert!(client.call(&ApplyRequest::new("long.unicorn", &long)).is_err());
    let mut client = self::client(&stack);
    assert_eq!(client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text, text);
    peer.echo(b"still there");
}

#[test]
fn ten_operators_at_once_leave_one_graph() {
    let (stack, mut peer) = start(config());
    let path = stack.control_path().unwrap().to_owned();
    std::thread::scope(|scope| {
        for operator in 0..10u16 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect_within(path, PATIENCE).unwrap();
                for round in 0..5 {
                    set(&mut client, &format!("services.discard={}", 100 + operator)).unwrap();
                    let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
                    let more = format!("{text}\n// {operator} {round}\n");
                    client.call(&ApplyRequest::new("same.unicorn", &more)).unwrap();
                }
            });
        }
        for _ in 0..50 {
            peer.echo(b"all the while");
        }
    });
    assert_eq!(stack.counters().drops.iter().map(|d| d.packets).sum::<u64>(), 0);
    assert_eq!(stack.stop().failure, None);
}

/// A parameter of a block that shares its limit with others counts from the change on.
#[test]
fn a_limit_that_is_set_holds() {
    let mut config = unprobed();
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peer) = start(config);
    let mut client = client(&stack);
    for limit in ["burst=2", "per_second=1"] {
        set(&mut client, &format!("node.RxL3ICMPNeedsResponse.{limit}")).unwrap();
    }
    for number in 0..20 {
        peer.send(&frames::echo_request(1, number, b"ping"));
    }
    let limited = || {
        let drops = lost(&stack).into_iter();
        drops.filter(|d| d.reason == "too many ICMP echo requests").map(|d| d.packets).sum::<u64>()
    };
    let deadline = Instant::now() + PATIENCE;
    while limited() == 0 {
        assert!(Instant::now() < deadline, "{:?}", lost(&stack));
    }
}

#[test]
fn two_workers_serve_two_queues_and_both_change() {
    let mut config: Config = config();
    config.cores = vec![0, 0];
    config.neighbours = vec![(PEER.into(), PEER_MAC)];
    let (stack, mut peers) = start_with(config, 2);
    assert_eq!(stack.status().workers.len(), 2);
    peers.iter_mut().for_each(|peer: &mut Peer| peer.echo(b"either"));
    set(&mut client(&stack), "services.echo=70").unwrap();
    peers.iter_mut().for_each(|peer| peer.echo_to(70, b"way"));
    let queues: Vec<u64> = stack.stop().counters.links.iter().map(|l| l.rx_packets).collect();
    assert!(queues.len() == 2 && queues.iter().all(|n| *n >= 2), "{queues:?}");
}

#[test]
fn a_link_too_few_is_an_error() {
    let mut config = config();
    let other = weever_daemon::config::Interface::new("memory9", Vec::<Prefix>::new());
    config.interfaces.push(other);
    let error = try_start(config).map(drop).unwrap_err().to_string();
    assert!(error.contains("1 links for 2 devices"), "{error}");
}
