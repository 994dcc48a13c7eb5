//! Several workers on one queue, as a policy wants it: always, or while loads diverge.

mod common;

use std::time::{Duration, Instant};

use common::steered::{Bench, config, echo};
use weever_daemon::Stack;
use weever_daemon::config::{Config, Share};
use weever_service_api::{Queues, SetRequest};
use weever_testbed::{Fixture, require_net_admin};

fn shared(more: &str) -> Config {
    config(&format!("[sharing]\nmode = \"shared\"\n{more}"), None, Share::Address)
}

fn refused(config: Config) -> String {
    let net = Fixture::pair(2).unwrap();
    match net.left.run(|| Stack::start(config)) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("started"),
    }
}

fn threads(queues: &Queues) -> Vec<Option<u16>> {
    queues.queues.iter().map(|queue| queue.threads).collect()
}

/// Asks until the workers on each queue are so many.
fn await_threads(bench: &Bench, wanted: u16, mut meanwhile: impl FnMut()) {
    let end = Instant::now() + Duration::from_secs(60);
    while threads(&bench.queues()) != [Some(wanted); 2] {
        assert!(Instant::now() < end, "{:?}", bench.queues());
        meanwhile();
    }
}

#[test]
fn workers_share_what_no_filter_takes_and_leave_ordered_flows_to_one() {
    require_net_admin!();
    let ordered = "[[class]]\nname = \"feed\"\nmatch = \"udp src port 4000\"\nordered = true\n";
    let bench = Bench::start(shared(ordered));
    await_threads(&bench, 2, || ());
    let queues = bench.settled();
    assert!(queues.queues[1].classes.iter().any(|class| class.name == "feed"), "{queues:?}");
    let received = |queues: &Queues| -> Vec<u64> {
        queues.queues.iter().map(|queue| queue.received).collect()
    };
    let feed = bench.client(4000);
    // Its neighbour's address is asked for before, by packets of no class.
    assert_eq!(echo(&bench.client(5000), 5), 5);
    let settled = received(&bench.settled());
    // More at once than one worker would leave for itself alone.
    let mut buffer = [0; 100];
    for _ in 0..10 {
        (0..50u32).for_each(|i| drop(feed.send(&i.to_be_bytes())));
        for i in 0..50u32 {
            assert!(feed.recv(&mut buffer).is_ok(), "answer {i} of a burst");
            assert_eq!(buffer[..4], i.to_be_bytes(), "they keep their order");
        }
    }
    let after = received(&bench.settled());
    assert!(after[1] - settled[1] >= 500, "{settled:?} {after:?}");
    assert!(after[0] - settled[0] < 50, "{settled:?} {after:?}");
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn workers_begin_to_share_when_loads_diverge_and_stop_when_there_is_none() {
    require_net_admin!();
    let policy = "[sharing]\nmode = \"auto\"\nthreads = 2\n";
    let bench = Bench::start(config(policy, None, Share::Address));
    assert_eq!(threads(&bench.queues()), [Some(1); 2]);
    let set = "queue.left0.threads=2".parse::<SetRequest>().unwrap();
    let error = bench.ask(|client| client.call(&set)).map(drop).unwrap_err().to_string();
    assert!(error.contains("mode = \"auto\""), "{error}");
    // One flow: whichever worker gets it, the other has nothing.
    let client = bench.client(4000);
    client.set_nonblocking(true).unwrap();
    let mut buffer = [0; 100];
    await_threads(&bench, 2, || {
        for i in 0..5000u32 {
            drop(client.send(&i.to_be_bytes()));
            while client.recv(&mut buffer).is_ok() {}
        }
    });
    await_threads(&bench, 1, || std::thread::sleep(Duration::from_millis(50)));
    let other = bench.client(5000);
    assert!(echo(&other, 50) >= 49, "every request is answered");
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn sharing_that_cannot_be_is_refused_with_the_remedy() {
    require_net_admin!();
    let more = |threads: u16| {
        let policy = format!("[sharing]\nmode = \"auto\"\nthreads = {threads}\n");
        config(&policy, None, Share::Address)
    };
    let error = refused(more(3));
    assert!(error.contains("threads = 3") && error.contains("2 workers"), "{error}");
    let gold =
        "[[class]]\nname = \"gold\"\nmatch = \"udp src port 4000\"\nqueues = { only = [1] }\n";
    let error = refused(config(
        &format!("[sharing]\nmode = \"shared\"\nthreads = 2\n{gold}"),
        None,
        Share::Address,
    ));
    assert!(error.contains("worker 1 receives nothing but"), "{error}");
    let mut both = shared("");
    both.interfaces[0].threads = Some(2);
    let error = refused(both);
    assert!(error.contains("leave one of them out"), "{error}");
}
