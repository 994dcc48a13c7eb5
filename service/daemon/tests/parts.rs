//! Workers that run parts of the graph, on devices that a policy steers: the part of each, that
//! users notice no difference, and that nothing is lost while plans change.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::steered::{Bench, STACK, config, echo};
use weever_daemon::config::{Mode, Share};
use weever_service_api::{
    ApplyRequest, Client, GraphFormat, GraphRequest, QueueStatus, SetRequest, StatusRequest,
};
use weever_testbed::{Fixture, require_net_admin};

/// Worker 1 receives the packets for the services' ports, and nothing else.
const POLICY: &str = "
[[class]]
name = \"services\"
match = \"udp dst port 7 or udp dst port 9\"
queues = { only = [1] }
";

fn bench(policy: &str) -> Bench {
    Bench::start(config(policy, None, Share::None))
}

fn part(worker: u32) -> GraphRequest {
    let (format, worker) = (GraphFormat::Text, Some(worker));
    GraphRequest { format, worker, ..GraphRequest::default() }
}

fn graph(bench: &Bench, worker: u32) -> String {
    bench.ask(|client| client.call(&part(worker)).unwrap().text)
}

fn row(bench: &Bench, worker: usize) -> QueueStatus {
    bench.queues().queues[worker].clone()
}

fn set(client: &mut Client, text: &str) {
    client.call(&text.parse::<SetRequest>().unwrap()).unwrap();
}

/// A closed port is answered by ICMP, which the kernel tells the socket.
fn is_refused(bench: &Bench) -> bool {
    let socket = bench.net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect((STACK, 4999)).unwrap();
    let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    socket.send(b"anybody?").unwrap();
    socket.recv(&mut [0; 10]).is_err_and(refused)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Nodes of ARP's and ICMP's receive side.
fn has_arp_or_icmp(graph: &str) -> bool {
    graph.contains("RxL3ARPInitResponse") || graph.contains("RxL3ICMPNeedsResponse")
}

#[test]
fn a_worker_with_two_ports_has_neither_arp_nor_icmp() {
    require_net_admin!();
    let bench = bench(POLICY);
    let client = bench.client(5000);
    assert!(echo(&client, 100) >= 98);
    assert!(is_refused(&bench), "the host is whole");
    let (first, second) = (row(&bench, 0), row(&bench, 1));
    assert_eq!(first.nodes, first.nodes_of_all);
    assert!(second.nodes + 20 < second.nodes_of_all, "{second:?}");
    assert!(has_arp_or_icmp(&graph(&bench, 0)) && !has_arp_or_icmp(&graph(&bench, 1)));
    assert!(graph(&bench, 1).contains("RxL4UDPEcho") && graph(&bench, 1).contains("RxForeign"));
    assert!(!graph(&bench, 1).contains("RxL4UDPDiscard"));

    // Any change of the graph changes the parts of it.
    bench.ask(|client| {
        set(client, "services.discard=9");
        let text = client.call(&GraphRequest::from(GraphFormat::Unicorn)).unwrap().text;
        let counted = text.replace("port echo[Echo]", "port echo[Count]").replace(
            "node Echo {",
            "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
        );
        client.call(&ApplyRequest::new("counted.unicorn", &counted)).unwrap();
    });
    until("the part with another service", || graph(&bench, 1).contains("RxL4UDPDiscard"));
    assert!([0, 1].iter().all(|worker| graph(&bench, *worker).contains("RxL4UDPCount")));
    assert!(!has_arp_or_icmp(&graph(&bench, 1)));
    let before = bench.settled();
    assert_eq!(echo(&client, 100), 100);
    let after = bench.settled();
    let got = |worker: usize| after.queues[worker].received - before.queues[worker].received;
    assert!(got(1) == 100 && got(0) < 20, "{after:?}");
    let refused = bench.ask(|client| client.call(&part(2))).unwrap_err();
    assert!(refused.to_string().contains("no worker 2"), "{refused}");
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn a_policy_may_have_all_run_everything() {
    require_net_admin!();
    let bench = bench(&format!("simplify = false\n{POLICY}"));
    assert!(echo(&bench.client(5000), 100) >= 98);
    let (first, second) = (row(&bench, 0), row(&bench, 1));
    assert_eq!((first.nodes, second.nodes), (second.nodes_of_all, second.nodes_of_all));
    assert!(has_arp_or_icmp(&graph(&bench, 1)) && !graph(&bench, 0).contains("RxWhole"));
    assert!(bench.settled().queues[1].received >= 98);
}

#[test]
fn workers_wait_as_classes_want() {
    require_net_admin!();
    let mut config = config(&format!("{POLICY}mode = \"busy\"\n"), None, Share::None);
    config.mode = Mode::Interrupt;
    let bench = Bench::start(config);
    let modes = || -> Vec<String> {
        let workers = bench.ask(|client| client.call(&StatusRequest {}).unwrap().workers);
        workers.into_iter().map(|worker| worker.mode).collect()
    };
    assert_eq!(modes(), ["interrupt", "busy"]);
    let client = bench.client(5000);
    assert!(echo(&client, 20) >= 18);
    let sleeps = row(&bench, 1).sleeps;
    bench.ask(|client| set(client, "services.echo=none"));
    until("no class is left to want anything", || modes() == ["interrupt", "interrupt"]);
    until("it sleeps", || row(&bench, 1).sleeps > sleeps);
    bench.ask(|client| set(client, "services.echo=7"));
    until("the class is back", || modes() == ["interrupt", "busy"]);
    assert!(echo(&client, 20) >= 18);
}

/// How often the plan changes.
const PLANS: usize = 100;

/// Packets on their way at once.
const WINDOW: u64 = 8;

/// Has echoes on their way until told to stop; returns how many were sent and how many came back.
fn talk(client: &UdpSocket, stop: &AtomicBool) -> (u64, u64) {
    let (mut sent, mut back, mut buffer) = (0u64, 0, [0; 100]);
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    loop {
        while sent - back < WINDOW && !stop.load(Ordering::Relaxed) {
            client.send(&sent.to_be_bytes()).unwrap();
            sent += 1;
        }
        if sent == back || client.recv(&mut buffer).is_err() {
            return (sent, back);
        }
        back += 1;
        if back % WINDOW == 0 {
            // Others need the processor as well.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_hundred_plans_and_not_a_packet_is_lost() {
    require_net_admin!();
    let bench = bench(POLICY);
    let clients: Vec<UdpSocket> = (0..2).map(|i| bench.client(5000 + i)).collect();
    clients.iter().for_each(|client| assert!(echo(client, 20) >= 18));
    let frames = |bench: &Bench| bench.stack.status().pools[0].available;
    let stop = AtomicBool::new(false);
    let epoch = |client: &mut Client| {
        client.call(&"forwarding=off".parse::<SetRequest>().unwrap()).unwrap().epoch
    };
    let before = bench.ask(epoch);
    let talked: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let stop = &stop;
        let talks: Vec<_> =
            clients.iter().map(|client| scope.spawn(move || talk(client, stop))).collect();
        let sized = |nodes: u64| until("another part", || row(&bench, 1).nodes == nodes);
        let small = row(&bench, 1).nodes;
        for change in 0..PLANS {
            // The class's second port comes and goes, and with it the filter and the nodes that the
            // part needs.
            bench.ask(|client| {
                set(client, ["services.discard=9", "services.discard=none"][change % 2]);
            });
            match change % 2 {
                0 => until("more", || row(&bench, 1).nodes > small),
                _ => sized(small),
            }
        }
        stop.store(true, Ordering::Relaxed);
        talks.into_iter().map(|talk| talk.join().unwrap()).collect()
    });
    for (sent, back) in &talked {
        assert_eq!(sent, back, "{:?}", bench.stack.counters().drops);
    }
    assert!(talked.iter().map(|(sent, _)| sent).sum::<u64>() > 1000, "{talked:?}");
    assert!(
        bench.ask(epoch) >= before + 2 * PLANS as u64,
        "each is a change of the graph and one of the part"
    );
    until("every frame is where it was", || frames(&bench) > 0);
    assert!(echo(&clients[0], 50) == 50 && is_refused(&bench));
    let report = bench.stack.stop();
    let lost = ["node was removed", "ring to another worker is full", "queue of tasks is full"];
    let drops = &report.counters.drops;
    assert!(!drops.iter().any(|d| lost.contains(&d.reason.as_str())), "{drops:?}");
    assert_eq!(report.failure, None);
}
