//! TCP on the host's graph with two workers: segments arrive at either of them, are lost on the way, and their
//! connection moves from one worker to the other while octets flow.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weever_block::FlowOwner;
use weever_blocks_std::host::{Neighbours, provide};
use weever_blocks_std::testing::{TwoWorkers, env, frames::*, host::host_state};
use weever_engine::CounterKind;
use weever_models::{HostConfig, host};
use weever_net::iface::IfaceId;
use weever_packet::{Buffer, Burst, Flags};
use weever_tcp::{Ecn, Endpoint, Events, Id, Region, Segment, State, TcpConfig, Tuple};
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::Ipv4View;
use weever_wire::tcp::TcpView;

const ENDPOINT: &str = "RxL4TCPEndpoint";
const ECHO: u16 = 7;
const STEP: u64 = 1_000_000;
const LEN: usize = 300_000;

/// The host on two workers, and a client of its echo service at the far ends of its cables.
struct World {
    two: TwoWorkers,
    client: Endpoint,
    id: Option<Id>,
    sent: Region,
    heard: Region,
    now: u64,
    /// Frames that the client has sent: they go to the cables in turn.
    count: usize,
    /// One of so many is lost, each way; 0: none.
    lose: usize,
    /// All frames go to this cable, once it is chosen.
    cable: Option<usize>,
    /// The longest packet that the path to the client takes: longer ones are reported by ICMP.
    path: usize,
}

impl World {
    fn new(lose: usize) -> World {
        let env = Arc::new(env());
        provide(&env, host_state(), 0);
        let neighbours = env.get::<Neighbours>().expect("it was provided");
        neighbours.insert_static(IfaceId(0), PEER, PEER_MAC, 0).expect("there is room");
        let graph = host(&HostConfig { tcp_echo: Some(ECHO), ..HostConfig::default() }).unwrap();
        World {
            two: TwoWorkers::new(graph, env, 4096, 1024),
            client: Endpoint::new(TcpConfig::default(), [1, 2], 0),
            id: None,
            sent: Region::new(LEN),
            heard: Region::new(LEN),
            now: STEP,
            count: 0,
            lose,
            cable: None,
            path: 1500,
        }
    }

    fn connect(&mut self) {
        let (from, to) = (SocketAddr::new(PEER.into(), 0), SocketAddr::new(HOST.into(), ECHO));
        let id = self.client.connect(from, to, self.now).unwrap();
        let octets: Vec<u8> = (0..LEN).map(|at| (at * 31 + (at >> 8)) as u8).collect();
        self.sent.write(0, &octets);
        self.client.queue(id, LEN as u64, self.now);
        self.id = Some(id);
    }

    /// A packet without octets comes to worker 0's endpoint; the frames that are free then.
    fn wake(&mut self, packet: Buffer) -> Vec<Buffer> {
        let (mut burst, now) = (Burst::new(), self.now);
        burst.put(0, packet);
        let engine = self.two.team.workers[0].engine();
        let endpoint = engine.entry(ENDPOINT).expect("the graph has it");
        engine.inject(endpoint, &mut burst, 1, now);
        std::iter::from_fn(|| engine.pool().alloc()).collect()
    }

    /// A turn of everyone.
    fn turn(&mut self) {
        self.now += STEP;
        self.client.handle_timeout(self.now);
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            let mut segment = vec![0; transmit.len()];
            transmit.emit(&mut segment, |range, out| self.sent.read(range.start, out)).unwrap();
            self.count += 1;
            if self.lose == 0 || !self.count.is_multiple_of(self.lose) {
                let frame = from_peer(&ipv4(ipv4_repr(PEER, HOST, 6), &segment));
                self.two.send(self.cable.unwrap_or(self.count % 2), &[frame]);
            }
        }
        self.two.turn(self.now);
        for frame in self.two.received() {
            self.count += 1;
            if self.lose == 0 || !self.count.is_multiple_of(self.lose) {
                self.hear(&frame);
            }
        }
        while let Some((id, events)) = self.client.poll_event() {
            let readable = self.client.get(id).unwrap().readable();
            self.client.consume(id, readable.end - readable.start, self.now);
            assert!(!events.has(Events::CLOSED) || self.is_closed(), "the connection failed");
        }
    }

    fn hear(&mut self, frame: &[u8]) {
        let Some(ip) = frame.get(14..).and_then(|bytes| Ipv4View::new(bytes).ok()) else { return };
        if ip.header().total_len() > self.path {
            return self.report(&frame[14..14 + 28]);
        }
        let Ok(view) = TcpView::new(ip.payload()) else { return };
        let (ours, theirs): (IpAddr, IpAddr) = (PEER.into(), HOST.into());
        let pseudo = Pseudo::v4(&ip.header().addresses(), 6, ip.payload().len() as u16);
        assert!(pseudo.verifies(ip.payload()), "the host sends right checksums");
        let header = view.header();
        let tuple = Tuple {
            local: ours,
            remote: theirs,
            local_port: header.dst_port(),
            remote_port: header.src_port(),
        };
        let segment = Segment::parse(view, Ecn::NotEct).unwrap();
        if let Ok(handled) = self.client.handle(&tuple, &segment, self.now)
            && let Some(payload) = handled.payload
        {
            self.heard.write(payload.offset, &segment.payload[payload.range]);
        }
    }

    /// Sends "fragmentation needed" about a packet that begins with `quote` (RFC 1191 §4).
    fn report(&mut self, quote: &[u8]) {
        let [high, low] = (self.path as u16).to_be_bytes();
        let mut message = [&[3, 4, 0, 0, 0, 0, high, low], quote].concat();
        let check = !weever_wire::checksum::sum(&message);
        message[2..4].copy_from_slice(&check.to_be_bytes());
        self.two.send(0, &[from_peer(&ipv4(ipv4_repr(PEER, HOST, 1), &message))]);
    }

    fn progress(&self) -> u64 {
        self.client.get(self.id.unwrap()).unwrap().readable().end
    }

    fn is_closed(&self) -> bool {
        let connection = self.client.get(self.id.unwrap()).unwrap();
        connection.failure().is_none() && connection.state() == State::Closed
    }

    fn run_until(&mut self, done: impl Fn(&World) -> bool) {
        for _ in 0..100_000 {
            if done(self) {
                return;
            }
            self.turn();
        }
        panic!("{} octets came back", self.progress());
    }

    fn expect_all(&mut self) {
        self.run_until(|world| world.progress() == LEN as u64);
        assert!(self.heard.slices(0..LEN as u64) == self.sent.slices(0..LEN as u64));
        self.client.shutdown(self.id.unwrap(), self.now);
        // The end of the client's stream is answered with the end of the echo.
        let in_time_wait =
            |world: &World| world.client.get(world.id.unwrap()).unwrap().state() == State::TimeWait;
        self.run_until(in_time_wait);
        let owners = self.two.team.publisher.flow_owners(ENDPOINT).unwrap();
        self.run_until(|_| owners.is_empty());
    }
}

#[test]
fn octets_come_back_from_either_worker_over_a_lossy_network() {
    for lose in [0, 40] {
        let mut world = World::new(lose);
        world.connect();
        world.expect_all();
    }
}

#[test]
fn a_connection_moves_while_octets_flow() {
    for lose in [0, 40] {
        let mut world = World::new(lose);
        world.connect();
        let owners = world.two.team.publisher.flow_owners(ENDPOINT).unwrap();
        let mut moved = 0;
        for part in 1..6 {
            world.run_until(|world| world.progress() > part * LEN as u64 / 8);
            let from = (0..2).find(|worker| !owners.of_worker(*worker).is_empty()).unwrap();
            let (flow, to) = (owners.of_worker(from)[0], 1 - from);
            let moves = world.two.team.publisher.begin_moves(ENDPOINT, &[(flow, to)]).unwrap();
            world.cable = Some(usize::from(to));
            for _ in 0..20 {
                world.turn();
            }
            moves.redirected();
            for _ in 0..200 {
                world.turn();
            }
            assert!(moves.wait(Duration::ZERO).open == 0, "the move has ended");
            assert_eq!(owners.of_worker(to), [flow], "part {part}");
            moved += 1;
        }
        assert_eq!(moved, 5);
        world.expect_all();
    }
}

/// Segments arrive at the other worker from now on, and nobody has ordered a move.
#[test]
fn a_connection_follows_its_segments() {
    let mut world = World::new(0);
    world.cable = Some(0);
    world.connect();
    let owners = world.two.team.publisher.flow_owners(ENDPOINT).unwrap();
    world.run_until(|world| world.progress() > 0);
    let [flow] = owners.of_worker(0)[..] else { panic!("one connection") };
    world.cable = Some(1);
    world.run_until(|_| owners.owner(flow) == Some(FlowOwner { worker: 1, from: None }));
    assert!(world.progress() < LEN as u64);
    world.expect_all();
}

/// Whatever worker a router's message arrives at, it concerns the connection that it quotes. Packets are not
/// fragmented instead: the client takes whole segments only.
#[test]
fn segments_become_as_short_as_a_router_says() {
    for cable in [0, 1] {
        let mut world = World::new(0);
        world.cable = Some(cable);
        world.connect();
        world.run_until(|world| world.progress() > LEN as u64 / 8);
        world.path = 1000;
        world.expect_all();
    }
}

/// A segment that found no free frame leaves with the next one that comes home, without a timer.
#[test]
fn a_segment_that_found_no_frame_leaves_with_the_next_free_one() {
    let mut world = World::new(0);
    world.cable = Some(0);
    world.connect();
    world.run_until(|world| world.progress() > 20_000);
    let mut held: Vec<Buffer> = std::iter::from_fn(|| world.two.cache.alloc()).collect();
    for worker in &mut world.two.team.workers {
        held.extend(std::iter::from_fn(|| worker.engine().pool().alloc()));
    }
    // The client is silent from here on: the host has to send again what was not acknowledged.
    let hear = |world: &mut World, held: &mut Vec<Buffer>| {
        let mut burst = Burst::new();
        let count = world.two.peers[0].rx(&mut world.two.cache, &mut burst, 64).unwrap();
        held.extend((0..count).filter_map(|slot| burst.take(slot)));
        // Frames that come home to the workers are taken, too.
        let workers = world.two.team.workers.iter_mut();
        held.extend(workers.flat_map(|worker| {
            std::iter::from_fn(|| worker.engine().pool().alloc()).collect::<Vec<_>>()
        }));
        count
    };
    let wants = |world: &mut World| {
        let engine = world.two.team.workers[0].engine();
        engine.counters().get(ENDPOINT, CounterKind::Own, "no_buffer").unwrap_or(0)
    };
    let turn = |world: &mut World| drop(world.two.team.workers[0].turn(world.now));
    while hear(&mut world, &mut held) > 0 {}
    let before = wants(&mut world);
    for _ in 0..5000 {
        if wants(&mut world) > before {
            break;
        }
        world.now += STEP;
        turn(&mut world);
        hear(&mut world, &mut held);
    }
    assert!(wants(&mut world) > before, "it wants to send again, and there is no frame");
    turn(&mut world);
    assert_eq!(hear(&mut world, &mut held), 0);
    let waiting =
        |world: &mut World| world.two.team.workers[0].engine().counters().total("delayed_now");
    let asked = waiting(&mut world);
    for _ in 0..5000 {
        world.now += STEP;
        turn(&mut world);
        hear(&mut world, &mut held);
    }
    assert_eq!(waiting(&mut world), asked, "it asks for one buffer, however long it waits");
    // An application wakes the transport. The wake-up is not the buffer, and a second request is not
    // needed.
    let mut wake = held.pop().unwrap();
    wake.clear();
    wake.meta_mut().flags = Flags::ENDPOINTS;
    held.extend(world.wake(wake));
    for _ in 0..1500 {
        world.now += STEP;
        turn(&mut world);
        assert_eq!(hear(&mut world, &mut held), 0);
    }
    assert_eq!(waiting(&mut world), asked, "the first request still waits");
    drop(held.pop());
    for _ in 0..3 {
        // The time stands still.
        turn(&mut world);
    }
    let mut burst = Burst::new();
    let count = world.two.peers[0].rx(&mut world.two.cache, &mut burst, 64).unwrap();
    assert_eq!(count, 1, "one frame came home, and one segment left in it");
}
