//! Applications tell the policy how fast their flows are, and ask for a search.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::steered::{Bench, STACK, config};
use common::temporary_path;
use weever_app_sockets::{AppQueue, Error, Flow, QueueConfig, UdpSocket, control};
use weever_daemon::config::Share;
use weever_service_api::{FlowStatus, Flows};
use weever_testbed::require_net_admin;

const CLIENTS: [u16; 4] = [4000, 4001, 4002, 4003];

/// Two tokens, and a new one after a minute.
const POLICY: &str = "
objective = \"balance-rate\"
assumed_rate = 10

[searches]
tokens = 2
refill = 1
";

fn started(policy: &str) -> (Bench, AppQueue) {
    let mut config = config(policy, None, Share::None);
    config.services.echo = None;
    let path = temporary_path();
    config.apps = Some(path.clone());
    let bench = Bench::start(config);
    let settings = QueueConfig { path, name: "kv".into(), ..QueueConfig::default() };
    (bench, AppQueue::connect(&settings).unwrap())
}

fn of_application(flows: &Flows) -> Vec<FlowStatus> {
    flows.flows.iter().filter(|flow| flow.origin == "application").cloned().collect()
}

/// Waits until the report of flows is as wanted.
fn await_flows(bench: &Bench, what: &str, wanted: impl Fn(&[FlowStatus]) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let flows = bench.flows();
        if wanted(&of_application(&flows)) {
            return;
        }
        assert!(Instant::now() < end, "{what}: {flows:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The queues of the flows from these ports, and the rates that they were registered with.
fn places(flows: &[FlowStatus]) -> Vec<(Vec<u32>, Option<u64>)> {
    let place = |port: &u16| {
        let to = format!("kv: udp dst port 5000 and dst host {STACK}");
        let name = format!("{to} and src host 10.77.0.1 and src port {port}");
        let flow = flows.iter().find(|flow| flow.name == name)?;
        Some((flow.queues.clone(), flow.registered_rate))
    };
    CLIENTS.iter().filter_map(place).collect()
}

fn flow_of(socket: UdpSocket, client: usize) -> Flow {
    Flow::to(socket).peer(SocketAddr::from(([10, 77, 0, 1], CLIENTS[client])))
}

#[test]
fn registered_rates_count_with_the_next_search_and_searches_take_tokens() {
    require_net_admin!();
    let (bench, queue) = started(POLICY);
    let socket = queue.bind_udp(SocketAddr::from((STACK, 5000))).unwrap();
    let slow = [0, 1, 2, 3].map(|client| flow_of(socket, client).rate(10));
    queue.register_flows(&slow).unwrap();
    queue.request_plan().unwrap();
    let at_one = |flows: &[FlowStatus]| {
        let places = places(flows);
        places.len() == 4 && places.iter().all(|(at, rate)| at.len() == 1 && *rate == Some(10))
    };
    await_flows(&bench, "the clients are flows", at_one);
    let before = places(&of_application(&bench.flows()));

    // Two flows that share a queue are fast.
    let same = (1..4).find(|nth| before[*nth].0 == before[0].0).expect("four at two queues");
    queue.register_flows(&[0, same].map(|client| flow_of(socket, client).rate(50_000))).unwrap();
    queue.request_plan().unwrap();
    let apart = |flows: &[FlowStatus]| {
        let now = places(flows);
        now[0].1 == Some(50_000) && now[same].1 == Some(50_000) && now[0].0 != now[same].0
    };
    await_flows(&bench, "the fast ones are apart", apart);
    let rates: Vec<_> = bench.queues().queues.iter().map(|queue| queue.registered_rate).collect();
    assert!(rates.iter().filter(|rate| **rate >= Some(50_000)).count() == 2, "{rates:?}");

    // On a slow machine a token may have come back meanwhile.
    let refused = (0..10).find_map(|_| queue.request_plan().err());
    let Some(Error::TooSoon { wait }) = refused else { panic!("{refused:?}") };
    assert!(wait <= Duration::from_secs(60), "{wait:?}");
    let flows = bench.flows();
    assert!(flows.asked_for >= 2 && flows.too_soon == 1, "{flows:?}");

    // It is a flow until its registration is removed, or its socket is closed.
    queue.unregister_flow(flow_of(socket, 0)).unwrap();
    let again = queue.unregister_flow(flow_of(socket, 0));
    assert!(matches!(again, Err(Error::Refused { kind: control::Refusal::Invalid, .. })));
    let other = queue.bind_udp(SocketAddr::from((STACK, 5001))).unwrap();
    await_flows(&bench, "it was taken back", |flows| places(flows).len() == 3);
    queue.close(socket).unwrap();
    await_flows(&bench, "the others ended with their socket", |flows| flows.len() == 1);
    queue.close(other).unwrap();
    assert_eq!(bench.stack.stop().failure, None);
}

/// Application `kv` has a worker to itself, a cost of its own, and a single token.
const OF_KV: &str = "
[[class]]
name = \"service\"
app = \"kv\"
queues = { only = [1] }
priority = 3
objective = \"balance + 2 * balance-rate\"
searches = { tokens = 1, refill = 1 }
";

#[test]
fn an_application_has_a_class_with_queues_and_tokens_of_its_own() {
    require_net_admin!();
    let (bench, queue) = started(OF_KV);
    let settings = QueueConfig {
        path: bench.stack.applications_path().unwrap().into(),
        ..QueueConfig::default()
    };
    let other = AppQueue::connect(&QueueConfig { name: "web".into(), ..settings }).unwrap();
    queue.bind_udp(SocketAddr::from((STACK, 5000))).unwrap();
    other.bind_udp(SocketAddr::from((STACK, 5001))).unwrap();
    await_flows(&bench, "both are flows, each in its class", |flows| {
        let of = |name: &str| flows.iter().find(|flow| flow.name.starts_with(name)).cloned();
        let class = |name| of(name).map(|flow| (flow.class, flow.queues));
        class("kv:") == Some(("service".to_owned(), vec![1]))
            && class("web:") == Some(("default".to_owned(), vec![0]))
    });
    assert!(bench.queues().problems.is_empty());
    queue.request_plan().unwrap();
    assert!(matches!(queue.request_plan(), Err(Error::TooSoon { .. })), "its one token is spent");
    (0..4).for_each(|_| other.request_plan().unwrap());
    assert!(
        matches!(other.request_plan(), Err(Error::TooSoon { .. })),
        "those of its user are, too"
    );
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn a_policy_may_give_no_tokens() {
    require_net_admin!();
    let (bench, queue) = started("[searches]\ntokens = 0\n");
    let refused = queue.request_plan().unwrap_err();
    let Error::Refused { kind: control::Refusal::Unsupported, message } = refused else {
        panic!("{refused:?}")
    };
    assert!(message.contains("[searches]"), "{message}");
    assert_eq!(bench.stack.stop().failure, None);
}
