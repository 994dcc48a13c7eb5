//! Clients that were there before an attack, one of IPv4 and one of IPv6, and the share of their requests that are
//! answered while it lasts.
//!
//! Host and attacker are joined by a cable in memory, on a clock of the benchmark's own: the figure is what tables,
//! limits and queues do, and no property of the machine. The attack lasts longer than a neighbour counts as
//! reachable, so that the clients have to be found again under it.

use std::collections::VecDeque;
use std::net::IpAddr;

use fastrand::Rng;
use weever_engine::{CounterKind, Reading};
use weever_host::{Host, HostBuilder, InterfaceConfig, Prefix, Service};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};
use weever_wire::arp::{ArpRepr, ArpView};
use weever_wire::ndp::NdpRepr;
use weever_wire::udp::UdpRepr;

use super::attacks::{
    ATTACKS, Attack, CLIENT, CLIENT_MAC, CLIENT6, HOST, HOST_MAC, HOST6, SERVED, ipv6, ndp,
    pair as addresses,
};
use crate::traffic::udp_frame;
use crate::{BenchError, Report, Samples};

/// The clients' service.
const ECHO: u16 = 7;

/// A turn of the worker, in nanoseconds.
const TURN: u64 = 100_000;
/// Frames of the attack in a turn: 100,000 in a second.
const ATTACK: usize = 10;
/// Frames that leave the host in a turn at the most: as many as arrive, and some.
const LEAVE: usize = 12;
/// Turns from one request of each client to the next: 1,000 in a second.
const REQUEST: u64 = 10;
/// Turns before the attack: the host finds out that its addresses are free, and the clients are known.
const BEFORE: u64 = 30_000;
/// Turns with the attack: 35 seconds.
const DURING: u64 = if cfg!(debug_assertions) { 5_000 } else { 350_000 };
/// An answer that takes longer is none: 50 ms.
const LATE: u64 = 500;
/// Different frames of an attack, which are sent again and again.
const FRAMES: usize = 16_384;

/// Adds `established_under_attack`, the worst of all attacks, and a row for each.
pub(super) fn measure(report: &mut Report) -> Result<(), BenchError> {
    report.setup(format!(
        "established_under_attack: two clients with {} requests a second each, attacks of {} frames a \
         second for {} s",
        1_000_000_000 / TURN / REQUEST,
        1_000_000_000 / TURN * ATTACK as u64,
        DURING * TURN / 1_000_000_000
    ));
    let mut worst = 1.0_f64;
    for attack in [None].into_iter().chain(ATTACKS.iter().map(Some)) {
        let name = attack.map_or("no attack", |attack| attack.name);
        let scene = play(attack)?;
        let share = scene.clients.share();
        if let Some(Attack { node, .. }) = attack
            && scene.arrived(node) < DURING * ATTACK as u64 / 2
        {
            return Err(BenchError::of("attack")(format!("{name} do not arrive at {node}")));
        }
        report.row(&format!("answered: {name}"), "share", &Samples(vec![share]));
        worst = worst.min(share);
    }
    report.ratio("established_under_attack", "share", &Samples(vec![worst]));
    Ok(())
}

/// An attack from beginning to end, or as long a time without one.
fn play(attack: Option<&Attack>) -> Result<Scene, BenchError> {
    let mut rng = Rng::with_seed(1);
    let frames: Vec<Vec<u8>> = match attack {
        Some(attack) => (0..FRAMES).map(|_| (attack.frame)(&mut rng)).collect(),
        None => Vec::new(),
    };
    let mut scene = Scene::new()?;
    let mut attack = frames.iter().cycle();
    // Before the attack nothing happens between two requests.
    let before = (REQUEST..=BEFORE).step_by(REQUEST as usize);
    for turn in before.chain(BEFORE + 1..=BEFORE + DURING) {
        let during = turn > BEFORE;
        if turn % REQUEST == 0 {
            scene.clients.request(turn, during);
        }
        let arriving = if during { ATTACK } else { 0 };
        scene.turn(turn, attack.by_ref().take(arriving))?;
    }
    Ok(scene)
}

/// The host, and the other end of its cable.
struct Scene {
    host: Host,
    cable: Box<dyn LinkQueue>,
    pool: PoolCache,
    clients: Clients,
}

impl Scene {
    fn new() -> Result<Scene, BenchError> {
        let failed = "host";
        let config = MemoryConfig { macs: [HOST_MAC.0, CLIENT_MAC.0], ..MemoryConfig::default() };
        let (ours, mut theirs) = pair(&config).map_err(BenchError::of(failed))?;
        let pool = |frames| Pool::new(PoolConfig { frames, ..PoolConfig::default() });
        let mut builder = HostBuilder::new(pool(16_384).map_err(BenchError::of(failed))?);
        let link = builder.link(Box::new(ours));
        let prefix = |ip: IpAddr, len| {
            Prefix::new(ip, len).ok_or_else(|| BenchError::of(failed)("no such prefix"))
        };
        let mut interface = InterfaceConfig::new("eth0", link);
        interface.slaac = true;
        interface = interface.address(prefix(HOST.into(), 16)?).address(prefix(HOST6.into(), 64)?);
        builder.interface(interface).map_err(BenchError::of(failed))?;
        builder.serve(Service::Echo, ECHO);
        builder.serve(Service::Discard, SERVED);
        builder.secret(1);
        let host = builder.build(0).map_err(BenchError::of(failed))?;
        let cable = theirs.take_queues().pop();
        let cable = cable.ok_or_else(|| BenchError::of(failed)("the cable has no queue"))?;
        let pool = pool(4096).map_err(BenchError::of(failed))?.cache();
        Ok(Scene { host, cable, pool, clients: Clients::default() })
    }

    /// The frames of the attack arrive with the clients', the host works, and the frames that it sends are collected.
    fn turn<'f>(
        &mut self,
        turn: u64,
        attack: impl Iterator<Item = &'f Vec<u8>>,
    ) -> Result<(), BenchError> {
        let failed = BenchError::of("cable");
        let clients = std::mem::take(&mut self.clients.sending);
        let mut packets = VecDeque::new();
        let mut put = |frame: &[u8]| {
            if let Some(mut packet) = self.pool.alloc() {
                packet.append(frame);
                packets.push_back(packet);
            }
        };
        attack.for_each(|frame| put(frame));
        clients.iter().for_each(|frame| put(frame));
        self.cable.tx(&mut self.pool, &mut packets).map_err(&failed)?;
        self.cable.flush(&mut self.pool).map_err(&failed)?;
        packets.drain(..).for_each(|packet| self.pool.free(packet));
        for _ in 0..2 {
            self.host.step(turn * TURN);
        }
        let mut burst = Burst::new();
        let n = self.cable.rx(&mut self.pool, &mut burst, LEAVE).map_err(&failed)?;
        for packet in (0..n).filter_map(|slot| burst.take(slot)) {
            self.clients.receive(packet.data(), turn);
            self.pool.free(packet);
        }
        Ok(())
    }
}

impl Scene {
    /// Packets that came to a node of the host's graph.
    fn arrived(&self, node: &str) -> u64 {
        let readings = self.host.handle().readings().concat();
        let of_node = |r: &&Reading| &*r.node == node && r.kind == CounterKind::Packets;
        readings.iter().find(of_node).map_or(0, |reading| reading.value)
    }
}

/// One client of each family. They answer questions for their link address, as a kernel would for them.
#[derive(Default)]
struct Clients {
    sending: Vec<Vec<u8>>,
    /// Of each client: for each request, by number, the turn in which it was sent, and whether it counts.
    requests: [Vec<(u64, bool)>; 2],
    answered: [u64; 2],
}

impl Clients {
    fn request(&mut self, turn: u64, counts: bool) {
        let numbers =
            [0, 1].map(|client: usize| (self.requests[client].len() as u32).to_be_bytes());
        let ends = (CLIENT_MAC, CLIENT, HOST_MAC, HOST);
        if let Ok(mut frame) = udp_frame(ends, ECHO, 60) {
            frame[40..42].fill(0);
            frame[42..46].copy_from_slice(&numbers[0]);
            self.sending.push(frame);
        }
        let mut segment = [[0; 8], [0; 8]].concat();
        segment[8..12].copy_from_slice(&numbers[1]);
        let repr = UdpRepr { src_port: 5000, dst_port: ECHO, payload_len: 8 };
        repr.emit_with_checksum_v6(&mut segment, &addresses(CLIENT6, HOST6))
            .expect("room was made");
        self.sending.push(ipv6(CLIENT6, HOST6, 17, 64, &segment));
        self.requests.iter_mut().for_each(|requests| requests.push((turn, counts)));
    }

    fn receive(&mut self, frame: &[u8], turn: u64) {
        match frame.get(12..14) {
            Some([0x08, 0x06]) => self.answer_arp(frame),
            Some([0x08, 0x00]) => self.answered(0, frame, 34, turn),
            Some([0x86, 0xdd]) if frame.get(20) == Some(&58) => self.answer_solicitation(frame),
            Some([0x86, 0xdd]) => self.answered(1, frame, 54, turn),
            _ => {}
        }
    }

    fn answer_arp(&mut self, frame: &[u8]) {
        let Ok(asked) = ArpView::new(&frame[14..]).map(ArpRepr::parse) else { return };
        if asked.op == 1 && asked.tpa == CLIENT {
            let (sha, spa, tha, tpa) = (CLIENT_MAC, CLIENT, asked.sha, asked.spa);
            let mut answer = [&HOST_MAC.0[..], &CLIENT_MAC.0, &[0x08, 0x06], &[0; 28]].concat();
            ArpRepr { op: 2, sha, spa, tha, tpa }.emit(&mut answer[14..]).expect("room was made");
            self.sending.push(answer);
        }
    }

    fn answer_solicitation(&mut self, frame: &[u8]) {
        let asked = frame.get(54..).map(NdpRepr::parse);
        if let Some(Ok(NdpRepr::NeighbourSolicit { target: CLIENT6, .. })) = asked {
            let (target, target_link) = (CLIENT6, Some(CLIENT_MAC));
            let (router, solicited, overrides) = (false, true, true);
            let answer =
                NdpRepr::NeighbourAdvert { target, router, solicited, overrides, target_link };
            self.sending.push(ndp(CLIENT6, HOST6, answer));
        }
    }

    /// A datagram whose UDP header is at `udp`, if it is an answer to the client.
    fn answered(&mut self, client: usize, frame: &[u8], udp: usize, turn: u64) {
        let is_answer = frame.get(udp..udp + 2) == Some(&ECHO.to_be_bytes());
        let number = frame.get(udp + 8..).and_then(|payload| payload.first_chunk());
        let Some(number) = number.filter(|_| is_answer && frame[..6] == CLIENT_MAC.0) else {
            return;
        };
        let number = u32::from_be_bytes(*number) as usize;
        if let Some((sent, counts)) = self.requests[client].get_mut(number) {
            // Once only.
            self.answered[client] += u64::from(std::mem::take(counts) && turn - *sent <= LATE);
        }
    }

    /// The share of the requests that counted, of the client that did worse. The last ones have no time left.
    fn share(&self) -> f64 {
        let sent = (DURING / REQUEST) as f64;
        self.answered.iter().map(|answered| *answered as f64 / sent).fold(1.0, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_served_without_an_attack_and_under_each() {
        let mut report = Report::new("overload");
        measure(&mut report).unwrap();
        assert_eq!(report.rows.len(), 1 + ATTACKS.len() + 1);
        assert_eq!(report.rows[0].median, 1.0, "without an attack");
        assert!(report.ratios["established_under_attack"] > 0.9, "{report}");
    }
}
