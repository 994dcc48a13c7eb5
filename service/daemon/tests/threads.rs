//! Several workers on one queue of a device, as operators set it while traffic flows.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::steered::{Bench, ECHO, STACK, echo, two_cores};
use common::temporary_path;
use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Settings, Share};
use weever_service_api::{SetRequest, SettingsRequest};
use weever_testbed::{Fixture, require_net_admin};

fn config(threads: Option<u16>) -> Config {
    let mut interface = Interface::new("left0", vec![format!("{STACK}/24").parse().unwrap()]);
    (interface.share, interface.threads) = (Share::Address, threads);
    let mut config = Config::of(vec![interface]);
    config.services.echo = Some(ECHO);
    config.control = Some(temporary_path());
    config.probe = false;
    config.cores = two_cores();
    config
}

/// On a cable with one queue.
fn start(threads: Option<u16>) -> Bench {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let stack = net.left.run(|| Stack::start(config(threads))).unwrap();
    Bench { stack, net }
}

fn set(bench: &Bench, assignment: &str) -> Result<(), String> {
    let changed = bench.ask(|client| client.call(&assignment.parse::<SetRequest>().unwrap()));
    changed.map(drop).map_err(|error| error.to_string())
}

fn received(bench: &Bench) -> Vec<u64> {
    bench.settled().queues.iter().map(|queue| queue.received).collect()
}

#[test]
fn workers_join_and_leave_a_queue_and_every_request_is_answered() {
    require_net_admin!();
    let bench = start(Some(1));
    let client = bench.client(4000);
    assert_eq!(echo(&client, 50), 50);
    assert_eq!(received(&bench)[1], 0, "the queue has one worker");
    for round in 0..50 {
        let (threads, ordered) = (1 + round % 2, ["off", "on"][usize::from(round % 3 == 0)]);
        set(&bench, &format!("queue.left0.threads={threads}")).unwrap();
        set(&bench, &format!("queue.left0.ordered={ordered}")).unwrap();
        let settings = bench.ask(|client| client.call(&SettingsRequest {}).unwrap().settings);
        for (key, wanted) in [("threads", threads.to_string().as_str()), ("ordered", ordered)] {
            let path = format!("queue.left0.{key}");
            let now = settings.iter().find(|setting| setting.path == path).unwrap();
            assert_eq!(now.value, wanted);
        }
        let counted = bench.settled().queues.iter().all(|queue| queue.order_given_up.is_some());
        assert_eq!(counted, ordered == "on", "round {round}");
        assert_eq!(echo(&client, 20), 20, "round {round}");
    }
    set(&bench, "queue.left0.threads=2").unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let mut buffer = [0; 100];
    while received(&bench)[1] == 0 {
        assert!(Instant::now() < end, "the other worker takes no part");
        // More at once than one worker claims of them.
        (0..60u32).for_each(|i| drop(client.send(&i.to_be_bytes())));
        (0..60).for_each(|i| assert!(client.recv(&mut buffer).is_ok(), "answer {i} of a burst"));
    }
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn a_number_of_threads_that_cannot_be_is_refused_with_the_remedy() {
    require_net_admin!();
    let bench = start(Some(2));
    for (wrong, remedy) in [
        ("queue.left0.threads=3", "use 1 to 2"),
        ("queue.left0.threads=0", "use 1 to 2"),
        ("queue.left0.threads=many", "a number of workers"),
        ("queue.left0.ordered=maybe", "on or off"),
        ("queue.left9.ordered=on", "there are left0"),
        ("queue.left9.threads=1", "there are left0"),
    ] {
        let error = set(&bench, wrong).unwrap_err();
        assert!(error.contains(remedy), "{wrong}: {error}");
    }
    drop(bench);
    let bench = start(None);
    for setting in ["threads=2", "ordered=on"] {
        let error = set(&bench, &format!("queue.left0.{setting}")).unwrap_err();
        assert!(error.contains("`threads = 1`"), "{error}");
    }
}

#[test]
fn a_configuration_with_more_threads_than_workers_is_refused() {
    let table = |more: &str| {
        let text = format!("dev = \"eth0\"\naddr = \"192.0.2.1/24\"\nthreads = 2\n{more}");
        let settings = Settings::parse(Path::new("weever.toml"), &text).unwrap();
        Config::try_from(settings).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(table("cores = [0, 1]"), Ok(()));
    let error = table("cores = [0]").unwrap_err();
    assert!(error.contains("there are 1 workers") && error.contains("cores"), "{error}");
    assert_eq!(table("cores = [0, 1]\nordered = true"), Ok(()));
    let text = "dev = \"eth0\"\naddr = \"192.0.2.1/24\"\nordered = true\n";
    let settings = Settings::parse(Path::new("weever.toml"), text).unwrap();
    let error = Config::try_from(settings).map(drop).unwrap_err().to_string();
    assert!(error.contains("ordered") && error.contains("`threads`"), "{error}");
    let error = table("cores = [0, 1]\nlink = \"tap\"").unwrap_err();
    assert!(error.contains("network devices"), "{error}");
}
