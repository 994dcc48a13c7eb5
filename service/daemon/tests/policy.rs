//! A policy carried out on a running stack: which worker gets which flow, as flows come and go.

mod common;

use std::time::{Duration, Instant};

use common::steered::{Bench, ECHO, STACK, config, echo};
use common::temporary_path;
use weever_daemon::config::{Config, NicChoice, Share};
use weever_daemon::{PolicyError, Stack, StartError};
use weever_service_api::SetRequest;
use weever_testbed::{Fixture, require_net_admin};

/// Of the high-priority client.
const GOLD: u16 = 4000;

const POLICY: &str = "
objective = \"balance\"

[[class]]
name = \"gold\"
match = \"udp src port 4000\"
queues = { exclusive = 1 }
";

#[test]
fn flows_are_detected_and_given_to_workers_and_none_is_lost() {
    require_net_admin!();
    let bench = Bench::start(config(POLICY, None, Share::Address));
    assert!(bench.flows().flows.iter().any(|flow| flow.origin == "service"));
    let (gold, other) = (bench.client(GOLD), bench.client(5000));
    let golden = bench.await_flow(&gold, |flow| !flow.filters.is_empty());
    assert_eq!((golden.class.as_str(), golden.origin.as_str()), ("gold", "traffic"));
    let others = bench.await_flow(&other, |_| true);
    assert_eq!((others.class.as_str(), others.queues.len()), ("default", 1));
    assert_ne!(golden.queues, others.queues, "gold has a worker to itself");

    // A flow that has no filter of its own is known to be alive.
    bench.await_flow(&other, |flow| flow.rate > Some(0));

    // While flows come, everybody gets every answer.
    for port in 6000..6020 {
        let newcomer = bench.client(port);
        assert_eq!((echo(&newcomer, 20), echo(&gold, 20)), (20, 20), "{port}");
    }
    let [golden_queue] = golden.queues[..] else { panic!("one queue") };
    let before = bench.settled();
    assert_eq!(echo(&gold, 200), 200);
    let after = bench.settled();
    let fresh = |of: u32| {
        let [before, after] = [&before, &after].map(|queues| queues.queues[of as usize].received);
        after - before
    };
    assert_eq!(fresh(golden_queue), 200, "{after:?}");
    assert!(fresh(1 - golden_queue) < 100, "{after:?}");
    let row = &after.queues[golden_queue as usize];
    assert!(row.classes.iter().all(|class| class.name == "gold") && !row.other, "{row:?}");
    assert!(row.filters.iter().any(|filter| filter.hits >= Some(200)), "{row:?}");
    assert_eq!(row.sockets.len(), 2, "a socket on each of the device's queues");
    assert_eq!(bench.stack.stop().failure, None);
}

#[test]
fn flows_of_the_file_and_services_are_registered_from_the_start() {
    require_net_admin!();
    let flows = format!("udp {}:{GOLD} -> {STACK}:{ECHO} name=customer\n", Fixture::RIGHT);
    let bench = Bench::start(config(POLICY, Some(&flows), Share::None));
    let listed = bench.flows();
    let customer = listed.flows.iter().find(|flow| flow.name == "customer").unwrap();
    assert_eq!((customer.class.as_str(), customer.origin.as_str()), ("gold", "file"));
    assert_eq!(customer.filters.len(), 1);
    let gold = bench.client(GOLD);
    assert!(echo(&gold, 100) >= 98);
    let end = Instant::now() + Duration::from_secs(60);
    while bench.flows().flows.iter().find(|f| f.name == "customer").unwrap().packets < Some(98) {
        assert!(Instant::now() < end, "{:?}", bench.flows());
    }
    let set =
        |text: &str| bench.ask(|client| client.call(&text.parse::<SetRequest>().unwrap()).unwrap());
    let services = |bench: &Bench| {
        let flows = bench.flows().flows;
        flows.into_iter().filter(|flow| flow.origin == "service").count()
    };
    set("services.discard=9");
    while services(&bench) != 2 {
        assert!(Instant::now() < end, "{:?}", bench.flows());
    }
    set("services.discard=none");
    while services(&bench) != 1 {
        assert!(Instant::now() < end, "{:?}", bench.flows());
    }
    assert!(bench.flows().flows.iter().any(|flow| flow.name == "customer"));
}

fn refused(config: Config) -> PolicyError {
    let net = Fixture::pair(2).unwrap();
    match net.left.run(|| Stack::start(config)) {
        Err(StartError::Policy(error)) => *error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("started"),
    }
}

#[test]
fn a_policy_that_cannot_be_is_refused_before_anything_is_touched() {
    require_net_admin!();
    let more = POLICY.replace("exclusive = 1", "exclusive = 3");
    let flows = "udp 10.0.0.1:4000 -> 10.77.0.10:7\n";
    let error = refused(config(&more, Some(flows), Share::Address));
    assert!(matches!(&error, PolicyError::Unsatisfiable { workers: 2, .. }), "{error}");
    assert!(error.to_string().contains("gold") && !error.is_about_files(), "{error}");
    let error = refused(config("objective = 7\n", None, Share::Address));
    assert!(matches!(&error, PolicyError::Text { .. }) && error.to_string().contains("line 1"));
    let error = refused(config(POLICY, Some("udp what\n"), Share::Address));
    assert!(matches!(&error, PolicyError::Text { .. }) && error.to_string().contains("line 1"));
    let mut without = config(POLICY, Some(flows), Share::Address);
    without.policy = None;
    let error = refused(without);
    assert!(matches!(error, PolicyError::Unused) && error.is_about_files());
}

#[test]
fn a_device_without_rules_is_named_with_what_it_lacks_and_the_remedy() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::Address);
    config.interfaces[0].nic = NicChoice::Model("82599");
    let error = refused(config);
    assert!(matches!(error, PolicyError::NoRules { .. }) && !error.is_about_files(), "{error}");
    let expected = "nic = \"82599\": left0 takes no steering rules (`ethtool -N`): its driver, veth, \
                    has none; use nic = \"xdp\"";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn what_has_no_model_is_sorted_by_the_program() {
    require_net_admin!();
    let mut config = config(POLICY, None, Share::Address);
    config.interfaces[0].nic = NicChoice::Auto;
    let bench = Bench::start(config);
    let gold = bench.client(GOLD);
    let golden = bench.await_flow(&gold, |flow| !flow.filters.is_empty());
    assert_eq!(golden.class, "gold");
    let row = &bench.queues().queues[golden.queues[0] as usize];
    assert!(row.sockets.len() == 2 && row.filters[0].hits.is_some(), "{row:?}");
}

#[test]
fn a_device_belongs_to_one_stack_until_it_stops() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    net.left.run(|| {
        let mut config = config("", None, Share::Address);
        config.policy = None;
        let stack = Stack::start(config.clone()).unwrap();
        let index = weever_device::ifindex("left0").unwrap();
        let holder = weever_device::claim::holder(index).unwrap();
        assert_eq!((holder.pid, &*holder.what), (std::process::id(), "`weever up`"));
        config.control = Some(temporary_path());
        config.interfaces[0].addresses = vec!["10.77.0.11/24".parse().unwrap()];
        let error = Stack::start(config.clone()).unwrap_err();
        assert!(matches!(error, StartError::Claim(_)), "{error}");
        assert!(error.to_string().contains("left0 is steered already, by process"), "{error}");
        drop(stack.stop());
        assert_eq!(weever_device::claim::holder(index), None);
        drop(Stack::start(config).unwrap().stop());
    });
}
