//! An application has a queue to itself, as the policy says.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::steered::{Bench, STACK, config};
use common::temporary_path;
use weever_app_sockets::{AppQueue, Event, QueueConfig};
use weever_daemon::config::Share;
use weever_service_api::{FlowStatus, Flows};
use weever_testbed::require_net_admin;

const PORT: u16 = 5000;

const POLICY: &str = "
objective = \"balance\"

[[dedicate]]
app = \"kv\"
queue = 1
";

/// Waits until the report of flows is as wanted.
fn await_flows(bench: &Bench, what: &str, wanted: impl Fn(&Flows) -> bool) -> Flows {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let flows = bench.flows();
        if wanted(&flows) {
            return flows;
        }
        assert!(Instant::now() < end, "{what}: {flows:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn of_origin(flows: &Flows, origin: &str) -> Vec<FlowStatus> {
    flows.flows.iter().filter(|flow| flow.origin == origin).cloned().collect()
}

#[test]
fn the_sockets_of_an_application_lead_to_its_queue() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::None);
    let path = temporary_path();
    config.apps = Some(path.clone());
    let bench = Bench::start(config);
    let settings = QueueConfig { path, name: "kv".into(), ..QueueConfig::default() };
    let queue = AppQueue::connect(&settings).unwrap();
    let socket = queue.bind_udp(SocketAddr::from((STACK, PORT))).unwrap();
    let leads_there = |flows: &Flows| {
        let all = of_origin(flows, "application");
        all.len() == 1 && all[0].queues == [1] && !all[0].filters.is_empty()
    };
    let flows = await_flows(&bench, "the socket is a flow", leads_there);
    assert_eq!(
        of_origin(&flows, "application")[0].name,
        "kv: udp dst port 5000 and dst host 10.77.0.10"
    );
    let rows = bench.queues().queues;
    let applications = |queue: usize| {
        let row = rows.iter().find(|row| row.link == "left0" && row.queue == queue as u32);
        row.map(|row| row.applications.clone()).unwrap_or_default()
    };
    assert_eq!((applications(0), applications(1)), (vec![], vec!["kv".to_owned()]));

    // Traffic that is seen within it is the application's, too, and stays where it is.
    let client = bench.client(4000);
    client.connect((STACK, PORT)).unwrap();
    let mut heard = 0;
    let end = Instant::now() + Duration::from_secs(60);
    let seen = |bench: &Bench| of_origin(&bench.flows(), "traffic");
    while heard < 100 || seen(&bench).is_empty() {
        client.send(b"to the application").unwrap();
        while let Ok(Some(event)) = queue.next() {
            heard += usize::from(matches!(event, Event::Datagram(_)));
        }
        assert!(Instant::now() < end, "{heard} came: {:?}", bench.flows());
        std::thread::sleep(Duration::from_millis(5));
    }
    let traffic = seen(&bench);
    assert!(
        traffic.iter().all(|flow| flow.queues == [1] && flow.filters.is_empty()),
        "{traffic:?}"
    );
    assert!(bench.queues().problems.is_empty());

    queue.close(socket).unwrap();
    await_flows(&bench, "it is closed", |flows| of_origin(flows, "application").is_empty());
    assert_eq!(bench.stack.stop().failure, None);
}
