//! Attacks, and their cost: answers, records and memory are counted, not time.

use std::net::{IpAddr, Ipv4Addr};

use weever_net::random::Random;
use weever_tcp::{
    Ecn, Endpoint, Id, ListenerConfig, ListenerId, Reject, Segment, Settings, State, TcpConfig,
    Tuple,
};
use weever_wire::tcp::{Seq, TcpOptions, flag};

const MILLIS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLIS;
const US: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const IRS: u32 = 5000;

struct Lab {
    now: u64,
    endpoint: Endpoint,
    listener: ListenerId,
    tuple: Tuple,
    iss: Seq,
    /// The number of our first octet on the established connection.
    first: Seq,
}

fn segment(seq: Seq, ack: Seq, flags: u8) -> Segment<'static> {
    let (options, payload) = (TcpOptions::default(), &[][..]);
    Segment {
        seq,
        ack,
        flags,
        window: 0xffff,
        urgent: 0,
        options,
        payload,
        joined: 0,
        ecn: Ecn::NotEct,
    }
}

impl Lab {
    fn new(config: TcpConfig) -> Self {
        let mut endpoint = Endpoint::new(config, [1, 2], 0);
        let listener = endpoint.listen(ListenerConfig::new(80)).unwrap();
        let tuple = Tuple { local: US, remote: THEM, local_port: 80, remote_port: 999 };
        Self { now: SECOND, endpoint, listener, tuple, iss: Seq(0), first: Seq(0) }
    }

    fn give(&mut self, segment: &Segment<'_>) -> Result<(), Reject> {
        self.endpoint.handle(&self.tuple, segment, self.now).map(|_| ())
    }

    /// Segments that are sent now, and their octets.
    fn sent(&mut self) -> (u64, u64) {
        let (mut count, mut octets) = (0, 0);
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            (count, octets) = (count + 1, octets + (transmit.payload.end - transmit.payload.start));
            if transmit.header.flags & flag::SYN != 0 {
                self.iss = Seq(transmit.header.seq);
            }
        }
        (count, octets)
    }

    fn established(&mut self, options: TcpOptions<'static>) -> Id {
        let syn = Segment { options, ..segment(Seq(IRS), Seq(0), flag::SYN) };
        self.give(&syn).unwrap();
        self.sent();
        self.first = self.iss + 1;
        let ack = segment(Seq(IRS + 1), self.first, flag::ACK);
        self.give(&ack).unwrap();
        let id = self.endpoint.accept(self.listener).expect("established");
        let settings = self.endpoint.get(id).unwrap().settings();
        self.endpoint.set(id, Settings { no_delay: true, ..settings }, self.now);
        id
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        self.endpoint.handle_timeout(self.now);
    }

    fn lives(&self, id: Id) -> bool {
        self.endpoint.get(id).is_some_and(|it| it.state() == State::Established)
    }
}

const SACK: TcpOptions<'static> = TcpOptions {
    mss: Some(1460),
    window_scale: Some(10),
    sack_permitted: true,
    timestamps: None,
    fast_open: None,
    sack: &[],
};

#[test]
fn a_syn_flood_takes_the_backlog_and_no_more() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(SACK);
    let (usual, before) = (lab.tuple, lab.endpoint.memory());
    let mut answers = 0;
    for number in 0..100_000u32 {
        lab.tuple.remote = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number / 7));
        lab.tuple.remote_port = 1024 + (number % 7) as u16;
        lab.give(&segment(Seq(number), Seq(0), flag::SYN)).unwrap();
        answers += lab.sent().0;
        if number % 1000 == 0 {
            // A peer connected before goes on being served.
            lab.tuple = usual;
            assert_eq!(lab.endpoint.queue(id, 100, lab.now), 100);
            assert_eq!(lab.sent(), (1, 100));
            lab.acknowledge(id);
        }
    }
    assert_eq!(answers, 100_000, "one answer each, and no amplification");
    assert!(lab.endpoint.len() <= 257, "{} connections", lab.endpoint.len());
    assert!(lab.endpoint.memory() - before < 257 * 1024);
    assert!(lab.endpoint.counters().cookies_sent >= 99_700);
    assert!(lab.lives(id));
}

#[test]
fn blind_segments_end_nothing_and_are_hardly_answered() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(SACK);
    let (mut random, mut answers) = (Random::new(4), 0);
    for number in 0..100_000u32 {
        let (seq, ack) = (Seq(random.next_u64() as u32), Seq(random.next_u64() as u32));
        // Never the one number that resets: an attacker hits it once in 2^32.
        let seq = if seq == Seq(IRS + 1) { seq + 1 } else { seq };
        let flags = [flag::RST, flag::SYN, flag::ACK, flag::RST | flag::ACK][number as usize % 4];
        let payload = &[0; 10][..if flags == flag::ACK { 10 } else { 0 }];
        let _ = lab.give(&Segment { payload, ..segment(seq, ack, flags) });
        answers += lab.sent().0;
        lab.pass(100_000);
    }
    // Ten seconds: a challenge in half a second.
    assert!(lab.lives(id) && answers <= 21, "{answers} answers");
    assert!(lab.endpoint.get(id).unwrap().readable().is_empty(), "no octet was let in");
}

#[test]
fn a_storm_of_acknowledgements_between_ends_that_disagree_dies_down() {
    // Forged data was accepted by neither: each end acknowledges octets that the other never sent.
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(SACK);
    let mut exchanged = 0;
    for _ in 0..1000 {
        let _ = lab.give(&segment(Seq(IRS + 1), lab.first + 5000, flag::ACK));
        let (answers, _) = lab.sent();
        exchanged += answers;
        if answers == 0 {
            break;
        }
    }
    assert!(exchanged <= 1 && lab.lives(id), "{exchanged} answers");
}

#[test]
fn single_octets_that_are_reported_or_sent_take_bounded_memory() {
    let mut lab = Lab::new(TcpConfig { initial_window: 1000, ..TcpConfig::default() });
    let id = lab.established(SACK);
    lab.endpoint.queue(id, 3_000_000, lab.now);
    lab.sent();
    let in_flight = lab.endpoint.get(id).unwrap().in_flight();
    assert!(in_flight > 1_000_000, "{in_flight}");
    let before = lab.endpoint.memory();
    let una = lab.first + lab.endpoint.get(id).unwrap().acknowledged() as u32;
    for block in 0..40_000u32 {
        let start = una + (2 * block + 1) % in_flight;
        let mut sack = [0; 8];
        sack[..4].copy_from_slice(&start.0.to_be_bytes());
        sack[4..].copy_from_slice(&(start + 1).0.to_be_bytes());
        let options = TcpOptions { sack: &sack, ..TcpOptions::default() };
        let _ = lab.give(&Segment { options, ..segment(Seq(IRS + 1), una, flag::ACK) });
        if block % 1000 == 0 {
            lab.sent();
        }
    }
    let records = (lab.endpoint.memory() - before) / 16;
    assert!(records < u64::from(in_flight / 1448) * 4 + 256, "{records} records");
    assert!(lab.lives(id));

    // The other way: octets that arrive far from each other.
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(SACK);
    let before = lab.endpoint.memory();
    for piece in 0..30_000u32 {
        let text =
            Segment { payload: b"x", ..segment(Seq(IRS + 3 + 2 * piece), lab.first, flag::ACK) };
        let _ = lab.give(&text);
        lab.sent();
    }
    let grown = lab.endpoint.memory() - before;
    assert!(grown < 80_000, "the region's room, and 256 runs: {grown}");
    assert!(lab.endpoint.counters().rejected[&Reject::TooManyPieces] > 29_000 && lab.lives(id));
}

#[test]
fn a_tiny_window_or_segment_size_does_not_make_us_send_crumbs() {
    // A window that opens octet by octet is waited for (RFC 9293 §3.8.6.2.1).
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions { window_scale: None, ..SACK });
    lab.endpoint.queue(id, 1_000_000, lab.now);
    lab.sent();
    lab.acknowledge_sent(id);
    lab.sent();
    let mut crumbs = 0;
    for window in 1..500u16 {
        let seen = lab.first
            + lab.endpoint.get(id).unwrap().in_flight()
            + lab.endpoint.get(id).unwrap().acknowledged() as u32;
        let _ = lab.give(&Segment { window, ..segment(Seq(IRS + 1), seen, flag::ACK) });
        crumbs += lab.sent().0;
    }
    assert!(crumbs <= 3, "{crumbs} segments for windows of up to 500 octets");

    // A segment size of 1 counts as 88 less options.
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions { mss: Some(1), ..SACK });
    lab.endpoint.queue(id, 800, lab.now);
    let (segments, octets) = lab.sent();
    assert!(octets > 0 && segments <= octets.div_ceil(76), "{segments} for {octets}");
}

#[test]
fn acknowledgements_in_crumbs_or_in_advance_do_not_open_the_window() {
    // RFC 3465: octets count, not acknowledgements.
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(SACK);
    lab.endpoint.queue(id, 100_000, lab.now);
    lab.sent();
    lab.pass(10 * MILLIS);
    let before = lab.endpoint.get(id).unwrap().window().cwnd;
    for octet in 1..=1448 {
        let _ = lab.give(&segment(Seq(IRS + 1), lab.first + octet, flag::ACK));
    }
    let grown = lab.endpoint.get(id).unwrap().window().cwnd - before;
    assert!(grown <= 1460, "1,448 acknowledgements of one segment: {grown} octets");
    // Octets not sent yet are not acknowledged.
    lab.sent();
    let in_flight = lab.endpoint.get(id).unwrap().in_flight();
    let ahead = lab.first + 1448 + in_flight + 1;
    assert_eq!(lab.give(&segment(Seq(IRS + 1), ahead, flag::ACK)), Err(Reject::AckOfUnsent));
    assert_eq!(lab.endpoint.get(id).unwrap().window().cwnd - before, grown);
}

#[test]
fn connections_that_are_never_used_do_not_displace_those_that_are() {
    let mut lab = Lab::new(TcpConfig { max_connections: 1000, ..TcpConfig::default() });
    let id = lab.established(SACK);
    let usual = lab.tuple;
    for port in 1..=5000u16 {
        lab.tuple.remote_port = 1024 + port;
        let syn = Segment { options: SACK, ..segment(Seq(IRS), Seq(0), flag::SYN) };
        if lab.give(&syn).is_ok() {
            lab.sent();
            let _ = lab.give(&segment(Seq(IRS + 1), lab.iss + 1, flag::ACK));
            lab.endpoint.accept(lab.listener);
        }
    }
    assert_eq!(lab.endpoint.len(), 1000);
    assert_eq!(lab.endpoint.counters().rejected[&Reject::TooManyConnections], 4001);
    lab.tuple = usual;
    assert_eq!((lab.endpoint.queue(id, 100, lab.now), lab.sent()), (100, (1, 100)));
}

impl Lab {
    /// The peer acknowledges all that was queued, which is all that is in flight.
    fn acknowledge(&mut self, id: Id) {
        let queued = self.endpoint.get(id).unwrap().queued() as u32;
        self.give(&segment(Seq(IRS + 1), self.first + queued, flag::ACK)).unwrap();
    }

    /// The peer acknowledges all that was sent.
    fn acknowledge_sent(&mut self, id: Id) {
        let connection = self.endpoint.get(id).unwrap();
        let (acked, in_flight) = (connection.acknowledged() as u32, connection.in_flight());
        let _ = self.give(&segment(Seq(IRS + 1), self.first + acked + in_flight, flag::ACK));
    }
}
