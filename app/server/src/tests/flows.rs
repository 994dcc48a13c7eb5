//! Flows that applications register, and tokens.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{bench, identity};
use crate::{Identity, PlanLimits, PlanRequests, PlanTokens, ServerError, SocketRequest};

const MINUTE: Duration = Duration::from_secs(60);

fn peer(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

fn limits(tokens: u32, refill: Duration) -> PlanLimits {
    PlanLimits { named: Default::default(), others: PlanTokens { tokens, refill } }
}

impl super::Bench {
    /// The peers and rates that a socket has registered, with their numbers.
    fn registered(&self, socket: u32) -> Vec<(u32, Option<SocketAddr>, Option<u64>)> {
        let status = self.server.sockets().find(|status| status.id == socket).unwrap();
        status.flows.iter().map(|flow| (flow.number, flow.peer, flow.rate)).collect()
    }
}

#[test]
fn flows_are_of_a_socket_and_end_with_it() {
    let mut bench = bench();
    let (queue, _end) = bench.open();
    let socket = bench.bind(queue, 7);
    let server = &mut bench.server;
    server.register_flow(queue, socket, None, Some(10)).unwrap();
    server.register_flow(queue, socket, peer("192.0.2.9:0"), None).unwrap();
    server.register_flow(queue, socket, None, Some(20)).unwrap();
    let registered = bench.registered(socket);
    assert_eq!(
        registered,
        [(1, None, Some(20)), (2, peer("192.0.2.9:0"), None)],
        "the rate is new"
    );

    let server = &mut bench.server;
    server.unregister_flow(queue, socket, peer("192.0.2.9:0")).unwrap();
    let again = server.unregister_flow(queue, socket, peer("192.0.2.9:0"));
    assert!(matches!(again, Err(ServerError::NoFlow(_))));
    server.register_flow(queue, socket, peer("192.0.2.9:0"), None).unwrap();
    assert_eq!(bench.registered(socket)[1].0, 3, "another flow has another number");
    bench.server.close_socket(queue, socket).unwrap();
    let socket = bench.bind(queue, 7);
    assert!(bench.registered(socket).is_empty());
}

#[test]
fn a_flow_that_the_socket_cannot_receive_is_refused() {
    let mut bench = bench();
    let ((queue, _one), (other, _two)) = (bench.open(), bench.open());
    let request = SocketRequest {
        local_addr: Some([192, 0, 2, 1].into()),
        peer: peer("192.0.2.9:5"),
        ..SocketRequest::default()
    };
    let connected = bench.server.open_socket(queue, &request).unwrap().id;
    let request = SocketRequest { peer: None, ..request };
    let bound = bench.server.open_socket(queue, &request).unwrap().id;
    let server = &mut bench.server;
    for (socket, from) in [
        (connected, "192.0.2.9:6"),
        (connected, "192.0.2.9:0"),
        (bound, "0.0.0.0:5"),
        (bound, "[2001:db8::1]:5"),
    ] {
        let refused = server.register_flow(queue, socket, peer(from), None);
        assert!(matches!(refused, Err(ServerError::FlowPeer { .. })), "{from}: {refused:?}");
    }
    let foreign = server.register_flow(other, bound, None, None);
    assert!(matches!(foreign, Err(ServerError::NoSocket(_))), "another queue's");
    // A connected socket receives from its peer only.
    server.register_flow(queue, connected, peer("192.0.2.9:5"), Some(1)).unwrap();
    server.register_flow(queue, connected, None, Some(2)).unwrap();
    assert_eq!(bench.registered(connected), [(1, None, Some(2))]);
}

#[test]
fn a_queue_has_only_so_many_flows_and_gets_room_back() {
    let mut bench = bench();
    let (queue, _end) = bench.open();
    let [one, two] = [7, 8].map(|port| bench.bind(queue, port));
    let server = &mut bench.server;
    let flow = |number: usize| Some(SocketAddr::from(([10, 0, 0, 1], number as u16 + 1)));
    for number in 0..crate::flows::MAX_FLOWS {
        server.register_flow(queue, one, flow(number), None).unwrap();
    }
    let full = server.register_flow(queue, two, None, None);
    assert!(matches!(full, Err(ServerError::Flows(_))));
    server.register_flow(queue, one, flow(0), Some(1)).expect("it is known");
    server.close_socket(queue, one).unwrap();
    server.register_flow(queue, two, None, None).expect("those of the closed socket are gone");
}

#[test]
fn plans_take_tokens_that_come_back() {
    let mut bench = bench();
    let (queue, _end) = bench.open();
    let now = Instant::now();
    let server = &mut bench.server;
    assert!(matches!(server.request_plan(queue, now), Err(ServerError::NoPolicy)));
    server.set_plan_limits(limits(0, MINUTE));
    assert!(matches!(server.request_plan(queue, now), Err(ServerError::NoTokens(_))));

    server.set_plan_limits(limits(2, MINUTE));
    let mut ask =
        |after: u64| server.request_plan(queue, now + Duration::from_secs(after)).unwrap();
    assert_eq!([ask(0), ask(0)], [None, None]);
    assert_eq!(ask(0), Some(MINUTE), "a token comes back in a minute");
    assert_eq!(ask(45), Some(Duration::from_secs(15)), "to have asked costs nothing");
    assert_eq!(ask(60), None, "whoever waits as long as he was told is served");
    assert_eq!(ask(60), Some(MINUTE));
    // No more tokens are saved up than there were.
    assert_eq!([ask(10_000), ask(10_000)], [None, None]);
    assert_eq!(ask(10_000), Some(MINUTE));
    assert_eq!(bench.server.plan_requests(), PlanRequests { granted: 5, refused: 4 });
}

#[test]
fn a_user_has_the_same_tokens_at_all_queues_and_a_named_application_its_own() {
    let mut bench = bench();
    let named = PlanTokens { tokens: 1, refill: MINUTE };
    let limits = PlanLimits { named: [("kv".to_owned(), named)].into(), ..limits(1, MINUTE) };
    bench.server.set_plan_limits(limits);
    let mut open = |name: &str, uid| {
        let owner = Identity { name: name.into(), ..identity(uid) };
        bench.server.open_queue(owner, super::GEOMETRY).unwrap().id
    };
    let (one, other, kv, stranger) = (open("a", 5), open("b", 5), open("kv", 5), open("a", 6));
    let now = Instant::now();
    let mut ask = |queue| bench.server.request_plan(queue, now).unwrap();
    assert_eq!(ask(one), None);
    assert_eq!(ask(other), Some(MINUTE), "another name is no other user");
    assert_eq!([ask(kv), ask(stranger)], [None, None]);
    assert_eq!([ask(kv), ask(stranger)], [Some(MINUTE), Some(MINUTE)]);
}
