//! Workers that find the neighbours in use go on, and do their part later.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use weever_block::Env;
use weever_engine::{Worker, monotonic};
use weever_link::LinkQueue;
use weever_models::{HostConfig, Service, host};
use weever_net::addr::{Cidr, Cidr6};
use weever_net::dhcp4::{Probing, State};
use weever_net::iface::IfaceId;
use weever_net::ipv6::AddrState;
use weever_net::state::{NetConfig, NetState, StateError};
use weever_packet::{BURST, Burst};

use weever_wire::dhcp4::{DhcpView, MessageType};
use weever_wire::icmpv4::{IcmpRepr, unreachable};

use crate::dhcp::Dhcp;
use crate::host::{Clerk, Neighbours, Neighbours6, Network, Paths, provide};
use crate::igmp::Groups;
use crate::testing::{TwoWorkers, env, frames::*, host::host_state};

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: u64 = 1_000_000;
/// Longer than it takes to probe for an address.
const PROBED: u64 = 6_000_000_000;
/// More than a client waits before its first message, in units of [`Host::turns`].
const MOST_LOOKS: u32 = 1000;

struct Host {
    env: Arc<Env>,
    two: TwoWorkers,
    now: u64,
}

impl Host {
    fn new() -> Host {
        Host::with(&HostConfig::serving(Service::Echo, 7))
    }

    fn with(config: &HostConfig) -> Host {
        let env = Arc::new(env());
        provide(&env, host_state(), 0);
        let graph = host(config).unwrap();
        Host { two: TwoWorkers::new(graph, env.clone(), 2048, 1024), env, now: 0 }
    }

    fn turns(&mut self) {
        for _ in 0..20 {
            self.now += STEP;
            self.two.turn(self.now);
        }
    }

    /// As often as takes this long.
    fn more_turns(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while self.now < end {
            self.turns();
        }
    }

    /// Until a DHCP client sends a message of this kind: its transaction.
    fn until_dhcp(&mut self, kind: MessageType) -> u32 {
        let of = |frame: &Vec<u8>| {
            let message = DhcpView::new(frame.get(42..)?).ok()?;
            (message.message_type()? == kind).then(|| message.header().xid())
        };
        let mut looks = 0..MOST_LOOKS;
        let found = looks.find_map(|_| {
            self.turns();
            self.two.received().iter().find_map(of)
        });
        found.expect("the client sends it")
    }

    /// Of the frames that were sent, the UDP payloads and how many were ARP's, by operation.
    fn sent(&mut self) -> (Vec<u8>, [usize; 2]) {
        let frames = self.two.received();
        let arp = |op| frames.iter().filter(|f| f[12..14] == [8, 6] && f[21] == op).count();
        let udp = frames.iter().filter(|f| f[12..14] == [8, 0] && f[23] == 17);
        (udp.map(|f| f[42]).collect(), [arp(1), arp(2)])
    }
}

/// Calls `act` while another thread has what `take` gives.
fn while_taken<G>(take: impl FnOnce() -> G + Send, act: impl FnOnce()) {
    let (taken, is_taken) = channel();
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let guard = take();
            taken.send(()).expect("the test waits");
            let in_time = is_done.recv_timeout(PATIENCE).is_ok();
            drop(guard);
            assert!(in_time, "a worker waited");
        });
        is_taken.recv().expect("it is taken");
        act();
        done.send(()).expect("the thread waits");
    });
}

#[test]
fn no_worker_waits_for_the_neighbours_and_packets_keep_their_order() {
    let mut host = Host::new();
    host.turns();
    host.two.received();
    let neighbours = host.env.get::<Neighbours>().unwrap();
    while_taken(
        || neighbours.session(0),
        || {
            for payload in [b"1", b"2"] {
                host.two.send(1, &[udp(5000, 7, payload)]);
                host.turns();
            }
            host.two.send(1, &[udp(5000, 7, b"3"), udp(5000, 7, b"4")]);
            host.turns();
            assert_eq!(host.sent(), (vec![], [0, 0]), "nobody can be asked for");
        },
    );
    // It finds access before those that have waited look again.
    host.two.send(1, &[udp(5000, 7, b"5")]);
    host.turns();
    assert_eq!(host.sent(), (vec![], [1, 0]), "one question");
    while_taken(
        || neighbours.session(0),
        || {
            host.two.send(0, &[arp_reply()]);
            host.two.send(1, &[udp(5000, 7, b"6")]);
            host.turns();
            assert_eq!(host.sent(), (vec![], [0, 0]), "the answer is not entered yet");
        },
    );
    host.two.send(1, &[udp(5000, 7, b"7")]);
    host.turns();
    assert_eq!(host.sent(), (b"1234567".to_vec(), [0, 0]));
    while_taken(
        || neighbours.session(0),
        || {
            host.two.send(0, &[arp_request(HOST)]);
            host.two.send(1, &[udp(5000, 7, b"8")]);
            host.turns();
            assert_eq!(host.sent(), (b"8".to_vec(), [0, 0]), "a known neighbour needs no access");
        },
    );
    host.turns();
    assert_eq!(host.sent(), (vec![], [0, 1]), "the request is answered");
}

/// Messages that find no access wait for their time, and do not keep a worker awake; all are dealt with then.
#[test]
fn messages_that_find_no_access_let_their_worker_sleep() {
    let mut host = Host::new();
    host.turns();
    host.two.received();
    let neighbours = host.env.get::<Neighbours>().unwrap();
    while_taken(
        || neighbours.session(0),
        || {
            host.two.send(0, &[(); 3].map(|()| arp_request(HOST)));
            for _ in 0..20 {
                host.turns();
                let worker = &mut host.two.team.workers[0];
                let waits = worker.next_deadline().is_some_and(|at| at <= host.now + 2 * STEP);
                assert!(waits && worker.engine().idle());
                let again = worker.turn(host.now);
                assert_eq!((again.received, again.ran), (0, 0), "nothing until then");
            }
            assert_eq!(host.sent(), (vec![], [0, 0]));
        },
    );
    host.turns();
    assert_eq!(host.sent(), (vec![], [0, 3]));
}

/// Two workers on threads of their own and a third thread have the neighbours in turn: each request that a worker receives is
/// answered once, whoever had access when it came, and no frame is lost.
#[test]
fn under_contention_every_request_is_answered_once() {
    const ROUNDS: u64 = 300;
    const ANSWERED: u64 = 250 * STEP;
    let Host { env, two, .. } = Host::new();
    let neighbours = env.get::<Neighbours>().unwrap();
    let TwoWorkers { team, peers, cache, pool } = two;
    let (workers, publisher) = (team.workers, team.publisher);
    let start = monotonic();
    // One for both workers: answers to one station have a limit, whoever sends them.
    let clock = AtomicU64::new(start);
    let serve = |mut worker: Worker, mut peer: Box<dyn LinkQueue>| {
        let (mut cache, mut burst, mut answers) = (pool.cache(), Burst::new(), 0);
        for round in 0..10 * ROUNDS {
            if round < ROUNDS {
                let mut request = cache.alloc().expect("a large pool");
                assert!(request.append(&arp_request(HOST)));
                peer.tx(&mut cache, &mut [request].into()).unwrap();
                peer.flush(&mut cache).unwrap();
            }
            worker.turn(clock.fetch_add(ANSWERED, Ordering::Relaxed));
            let n = peer.rx(&mut cache, &mut burst, BURST).unwrap();
            for packet in (0..n).filter_map(|i| burst.take(i)) {
                answers += u64::from(packet.data()[12..14] == [8, 6] && packet.data()[21] == 2);
                cache.free(packet);
            }
            if round >= ROUNDS && answers == ROUNDS {
                break;
            }
            thread::yield_now();
        }
        answers
    };
    let (stop, serve) = (&AtomicBool::new(false), &serve);
    let served = thread::scope(|scope| {
        let disturber = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(neighbours.session(start));
                thread::yield_now();
            }
        });
        let both = workers.into_iter().zip(peers);
        let threads: Vec<_> =
            both.map(|(worker, peer)| scope.spawn(move || serve(worker, peer))).collect();
        let served: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        disturber.join().unwrap();
        served
    });
    assert_eq!(served, [ROUNDS; 2]);
    drop((publisher, cache));
    assert!(pool.census().is_complete(), "{}", pool.census());
}

/// Duplicate address detection ends while somebody else changes the network.
#[test]
fn no_worker_waits_for_whoever_changes_the_network() {
    let mut host = Host::new();
    host.two.send(0, &[arp_request(HOST)]);
    host.turns();
    host.two.received();
    let network = host.env.get::<Network>().unwrap();
    network.update(|net| net.add_address6(IfaceId(0), "fd00::1/64".parse().unwrap())).unwrap();
    let before = network.generation();
    while_taken(
        || network.writer(),
        || {
            for _ in 0..200 {
                host.turns();
            }
            host.two.send(0, &[udp(5000, 7, b"7")]);
            host.turns();
            assert_eq!((host.sent().0, network.generation()), (b"7".to_vec(), before));
        },
    );
    host.turns();
    assert!(network.generation() > before, "what was found is reported");
}

/// The result of probing for an address cannot be reported, and then an operator changes something else: it is still
/// reported, and the address is not probed for again, unless the link was down.
#[test]
fn what_probes_have_found_is_kept_over_another_change() {
    let tentative = Ipv4Addr::new(10, 0, 0, 5);
    let change_mtu = |net: &mut NetConfig| net.set_mtu(IfaceId(0), 1400);
    let plug_in_again = |net: &mut NetConfig| {
        net.set_up(IfaceId(0), false)?;
        net.set_up(IfaceId(0), true)
    };
    type Change<'a> = &'a dyn Fn(&mut NetConfig) -> Result<(), StateError>;
    let cases: [(bool, Change<'_>, usize); 3] =
        [(false, &change_mtu, 3), (false, &plug_in_again, 6), (true, &change_mtu, 1)];
    for (taken, change, expected) in cases {
        let mut host = Host::new();
        let network = host.env.get::<Network>().unwrap();
        let cidr = Cidr::new(tentative, 24).unwrap();
        network.update(|net| net.add_tentative(IfaceId(0), cidr)).unwrap();
        host.turns();
        while_taken(
            || network.writer(),
            || {
                if taken {
                    let owner = (PEER_MAC, tentative);
                    host.two.send(0, &[arp(2, owner, (HOST_MAC, HOST))]);
                }
                host.more_turns(PROBED);
            },
        );
        assert!(
            network.state().config().interfaces()[0].tentative.is_ours(tentative),
            "not reported yet"
        );
        network.update(|net| change(net)).unwrap();
        host.more_turns(PROBED);
        let iface = network.state().interface(IfaceId(0)).unwrap().clone();
        let found = [&iface.v4, &iface.duplicate].map(|all| all.is_ours(tentative));
        assert_eq!(found, [!taken, taken]);
        let frames = host.two.received();
        let probes = frames.iter().filter(|f| f[12..14] == [8, 6] && f[28..32] == [0; 4]);
        assert_eq!(probes.filter(|f| f[38..42] == tentative.octets()).count(), expected);
    }
}

/// Once there is a clerk, workers leave their changes to it, and go on; without one they make them themselves.
#[test]
fn a_clerk_changes_the_network_for_workers() {
    let wait_for = |what: &dyn Fn() -> bool| {
        let end = Instant::now() + PATIENCE;
        while !what() {
            assert!(Instant::now() < end, "the clerk does nothing");
            thread::yield_now();
        }
    };
    let leased = Ipv4Addr::new(10, 0, 0, 77);
    let mut host = Host::with(&HostConfig::serving(Service::Echo, 7).with_dhcp());
    host.two.send(0, &[arp_request(HOST)]);
    host.turns();
    let (network, clients) = (host.env.get::<Network>().unwrap(), host.env.get::<Dhcp>().unwrap());
    let tentative: Cidr6 = "fd00::1/64".parse().unwrap();
    network.update(|net| net.add_address6(IfaceId(0), tentative)).unwrap();
    host.turns();
    host.two.received();
    let before = network.generation();
    let clerk = Clerk::of(network.clone());
    clients.start(IfaceId(0), Probing::NONE);
    let answer = |kind, xid| dhcp_answer(kind, xid, leased, [255, 255, 255, 0]);
    let xid = host.until_dhcp(MessageType::Discover);
    host.two.send(0, &[answer(MessageType::Offer, xid)]);
    let xid = host.until_dhcp(MessageType::Request);
    host.two.send(0, &[answer(MessageType::Ack, xid)]);
    host.more_turns(PROBED);
    host.two.received();
    host.two.send(0, &[udp(5000, 7, b"7")]);
    host.turns();
    assert_eq!(host.sent().0, b"7");
    assert_eq!(clients.status()[0].state, State::Bound);
    assert_eq!(network.generation(), before, "the clerk has not begun");

    let usable = |state: &NetState| {
        let own = state.config().interfaces()[0].v6.get(tentative.addr());
        own.is_some_and(|own| own.state == AddrState::Preferred)
    };
    let work = thread::spawn(|| clerk.work());
    wait_for(&|| usable(&network.state()) && network.state().is_ours(leased));
    Clerk::dismiss(&network);
    work.join().unwrap();
    clients.stop(IfaceId(0));
    host.more_turns(100 * STEP);
    assert!(!network.state().is_ours(leased), "a worker has given it up");
}

#[test]
fn no_worker_waits_for_path_mtus() {
    let mut host = Host::new();
    host.two.send(0, &[arp_request(HOST)]);
    host.turns();
    host.two.received();
    let paths = host.env.get::<Paths>().unwrap();
    host.two.send(0, &[udp(5000, 7, &[0; 1472])]);
    host.turns();
    let long = host.two.received().into_iter().find(|frame| frame.len() == 1514).unwrap();
    while_taken(
        || paths.lock(),
        || {
            for _ in 0..100 {
                host.turns();
            }
            host.two.send(0, &[too_big(&long)]);
            host.turns();
            host.two.send(0, &[udp(5000, 7, b"7")]);
            host.turns();
            assert_eq!(host.sent().0, b"7");
        },
    );
    assert_eq!(paths.entries(), [], "the error is lost");
    host.two.send(0, &[too_big(&long)]);
    host.turns();
    let known: Vec<_> = paths.entries().iter().map(|entry| (entry.dst, entry.mtu)).collect();
    assert_eq!(known, [(PEER.into(), 1400)]);
}

/// "Fragmentation needed" about a frame that the host has sent.
fn too_big(sent: &[u8]) -> Vec<u8> {
    let code = unreachable::FRAGMENTATION_NEEDED;
    icmp(HOST, IcmpRepr::Unreachable { code, mtu: 1400, quote: &sent[14..][..28] })
}

/// While the control thread lists DHCP clients, their timer does nothing, and a client sends its message later.
#[test]
fn no_worker_waits_for_dhcp_clients() {
    let mut host = Host::new();
    host.two.send(0, &[arp_request(HOST)]);
    host.turns();
    host.two.received();
    let clients = host.env.get::<Dhcp>().unwrap();
    clients.start(IfaceId(0), Probing::NONE);
    while_taken(
        || clients.lock(),
        || {
            for _ in 0..20 {
                host.turns();
            }
            host.two.send(0, &[udp(5000, 7, b"7")]);
            host.turns();
            assert_eq!(host.sent().0, b"7");
        },
    );
    let asks = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[36..38] == [0, 67];
    let asked = (0..MOST_LOOKS).any(|_| {
        host.turns();
        host.two.received().iter().any(asks)
    });
    assert!(asked, "the client looks for a server");
}

/// While somebody else has the DHCP clients, a server's answer is lost, but no conflict about a probed address.
#[test]
fn no_worker_waits_for_dhcp_clients_with_a_packet_for_them() {
    let offered = Ipv4Addr::new(10, 0, 0, 77);
    let mut host = Host::with(&HostConfig::serving(Service::Echo, 7).with_dhcp());
    host.two.send(0, &[arp_request(HOST)]);
    let clients = host.env.get::<Dhcp>().unwrap();
    clients.start(IfaceId(0), Probing::RFC5227);
    let while_served = |host: &mut Host, frame: Vec<u8>| {
        while_taken(
            || clients.lock(),
            || {
                host.two.send(0, &[frame, udp(5000, 7, b"7")]);
                host.turns();
                assert_eq!(host.sent().0, b"7");
            },
        );
    };
    let answer = |kind, xid| dhcp_answer(kind, xid, offered, [255, 255, 255, 0]);
    let xid = host.until_dhcp(MessageType::Discover);
    while_served(&mut host, answer(MessageType::Offer, xid));
    host.turns();
    assert_eq!(clients.status()[0].state, State::Selecting, "the offer is lost");
    let xid = host.until_dhcp(MessageType::Discover);
    host.two.send(1, &[answer(MessageType::Offer, xid)]);
    let xid = host.until_dhcp(MessageType::Request);
    host.two.send(1, &[answer(MessageType::Ack, xid)]);
    host.more_turns(100 * STEP);
    assert_eq!(clients.status()[0].state, State::Probing);
    while_served(&mut host, arp(2, (PEER_MAC, offered), (HOST_MAC, HOST)));
    host.until_dhcp(MessageType::Decline);
}

/// The timers of neighbours and groups run at worker 0, which serves its queue meanwhile.
#[test]
fn timers_do_not_wait_either() {
    let mut host = Host::new();
    host.two.send(0, &[arp_request(HOST)]);
    host.turns();
    host.two.received();
    let (six, groups) = (host.env.get::<Neighbours6>().unwrap(), host.env.get::<Groups>().unwrap());
    while_taken(
        || (six.session(0), groups.lock()),
        || {
            for _ in 0..100 {
                host.turns();
            }
            host.two.send(0, &[udp(5000, 7, b"7")]);
            host.turns();
            assert_eq!(host.sent().0, b"7");
        },
    );
}
