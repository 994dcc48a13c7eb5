//! An application has a queue to itself, as the policy says.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::steered::{Bench, STACK, config};
use common::temporary_path;
use weever_app_sockets::{AppQueue, Event, QueueConfig};
use weever_daemon::config::Share;
use weever_service_api::{FlowStatus, Flows, SocketsRequest};
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

/// What a device has received is read, rewritten and sent in the same frames, for one application at one worker.
#[test]
fn an_application_with_a_queue_to_itself_works_in_the_frames_of_its_packets() {
    require_net_admin!();
    let user = rustix::process::getuid().as_raw();
    let policy = format!("{POLICY}trusted = [{user}]\n");
    let mut config = config(&policy, None, Share::None);
    let path = temporary_path();
    config.apps = Some(path.clone());
    let bench = Bench::start(config);
    let connect = |name: &str| {
        let path = path.clone();
        AppQueue::connect(&QueueConfig { path, name: name.into(), ..QueueConfig::default() })
    };
    let (queue, other) = (connect("kv").unwrap(), connect("other").unwrap());
    assert!(queue.is_zero_copy() && !other.is_zero_copy());
    let sockets = bench.ask(|client| client.call(&SocketsRequest { most: 10 }).unwrap());
    let zero_copy = |name: &str| {
        let queue = sockets.queues.iter().find(|queue| queue.application == name);
        queue.map(|queue| queue.zero_copy.clone())
    };
    assert_eq!((zero_copy("kv"), zero_copy("other")), (Some(vec![1]), Some(vec![])));

    queue.bind_udp(SocketAddr::from((STACK, PORT))).unwrap();
    await_flows(&bench, "the socket is a flow", |flows| {
        of_origin(flows, "application").iter().any(|flow| flow.queues == [1])
    });
    let client = bench.client(4000);
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    client.connect((STACK, PORT)).unwrap();
    let (mut by_worker, mut answer) = ([0; 2], [0; 2000]);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            for round in 0..500u32 {
                let question = vec![round as u8; 1 + round as usize * 3 % 1400];
                let end = Instant::now() + Duration::from_secs(60);
                loop {
                    client.send(&question).unwrap();
                    let answered = client.recv(&mut answer);
                    // An answer that came late is one to an earlier round.
                    if answered
                        .is_ok_and(|len| answer[1..len] == question[1..] && answer[0] == b'!')
                    {
                        break;
                    }
                    assert!(Instant::now() < end, "round {round}");
                }
            }
        });
        while !asking.is_finished() {
            queue.wait(Some(Duration::from_millis(5))).unwrap();
            while let Some(event) = queue.next().unwrap() {
                let Event::Datagram(datagram) = event else { continue };
                by_worker[usize::from(datagram.worker())] += 1;
                let len = datagram.len();
                let mut answer = datagram.into_answer();
                answer.space()[0] = b'!';
                answer.send(len).unwrap();
            }
        }
        asking.join().unwrap();
    });
    assert!(by_worker[1] >= 500 - 10, "{by_worker:?}");
    drop(queue);
    let again = Instant::now() + Duration::from_secs(60);
    // The workers have let go of the queue's frames a moment later, and the next program gets them.
    while !connect("kv").unwrap().is_zero_copy() {
        assert!(Instant::now() < again, "the frames are not free again");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(bench.stack.stop().failure, None);
}
