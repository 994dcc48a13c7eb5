//! Any segments, calls and passing time at one endpoint, aimed at the numbers that matter: connections
//! stay consistent, memory stays bounded, no timer is stuck, and accepted octets are in the window.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use weever_fuzz::Input;
use weever_tcp::{Ecn, Endpoint, Id, ListenerConfig, ListenerId, Segment, State, TcpConfig, Tuple};
use weever_wire::tcp::{Seq, TcpOptions, Timestamps};

const MILLIS: u64 = 1_000_000;
const US: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const CAPACITY: u32 = 3000;

/// The next number of two bytes.
fn word(input: &mut Input<'_>) -> Option<u32> {
    input.array().map(|bytes| u16::from_le_bytes(bytes).into())
}

struct World {
    endpoint: Endpoint,
    listener: ListenerId,
    now: u64,
    /// The last sequence number that was sent to each port of the peers.
    ours: [(Seq, Seq); 4],
    clients: Vec<Id>,
    /// The cookie of Fast Open that was sent last.
    cookie: Vec<u8>,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let Some(how) = input.byte() else { return };
    let config = TcpConfig {
        receive_capacity: CAPACITY,
        sack: how & 1 == 0,
        timestamps: how & 2 != 0,
        window_scaling: how & 4 != 0,
        pacing: how & 8 != 0,
        max_connections: 6,
        ..TcpConfig::default()
    };
    let mut endpoint = Endpoint::new(config, [1, u64::from(how)], 0);
    let backlog = u32::from(how >> 4 & 3);
    let fast_open = u32::from(how >> 6);
    let listener =
        ListenerConfig { backlog, accept_queue: 2, fast_open, ..ListenerConfig::new(80) };
    let listener = endpoint.listen(listener).unwrap();
    let ours = [(Seq(0), Seq(0)); 4];
    let (clients, cookie) = (Vec::new(), Vec::new());
    let mut world = World { endpoint, listener, now: 1, ours, clients, cookie };
    while let Some(what) = input.byte() {
        if world.step(what, &mut input).is_none() {
            return;
        }
        world.check();
    }
});

fn tuple(port: u8) -> Tuple {
    let port = port & 3;
    let local_port = if port == 3 { 4000 } else { 80 };
    Tuple { local: US, remote: THEM, local_port, remote_port: 5000 + u16::from(port) }
}

impl World {
    fn step(&mut self, what: u8, input: &mut Input<'_>) -> Option<()> {
        let now = self.now;
        match what % 16 {
            0..=8 => self.hear(what, input)?,
            9 => self.now += u64::from(input.byte()?) * MILLIS,
            10 => self.now += u64::from(input.byte()?) * 1000 * MILLIS,
            11 => {
                let (from, to) = (SocketAddr::new(US, 4000), SocketAddr::new(THEM, 5003));
                let id = self.endpoint.connect(from, to, now);
                if let Some(id) = id.ok().filter(|_| what & 16 != 0) {
                    self.endpoint.set_fast_open(id, now);
                    self.endpoint.queue(id, u64::from(what >> 5) * 300, now);
                }
                self.clients.extend(id);
            }
            12 => self.clients.extend(self.endpoint.accept(self.listener)),
            _ => self.call(what, input)?,
        }
        self.endpoint.handle_timeout(self.now);
        self.drain();
        Some(())
    }

    fn call(&mut self, what: u8, input: &mut Input<'_>) -> Option<()> {
        let (which, now) = (input.byte()?, self.now);
        let id = *self.clients.get(usize::from(which >> 4) % self.clients.len().max(1))?;
        match which % 6 {
            0 | 1 => drop(self.endpoint.queue(id, u64::from(word(input)?), now)),
            2 => self.endpoint.consume(id, u64::from(word(input)?), now),
            3 => self.endpoint.shutdown(id, now),
            4 if what & 16 == 0 => self.endpoint.close(id, now),
            4 => self.endpoint.abort(id, now),
            _ => {
                let (port, seq) = (which >> 4, word(input)?);
                let seq = self.ours[usize::from(port & 3)].0 + seq;
                self.endpoint.handle_mtu(&tuple(port), seq.0, word(input)? as u16, now);
            }
        }
        Some(())
    }

    /// A segment near the numbers of a connection of that port.
    fn hear(&mut self, what: u8, input: &mut Input<'_>) -> Option<()> {
        let (port, flags) = (what >> 4, input.byte()?);
        let at = usize::from(port & 3);
        let (base, next) = self.ours[at];
        let near = |word: u32| word.wrapping_sub(0x200);
        let seq = Seq(1000) + near(word(input)?);
        let ack = if what & 1 == 0 { next } else { base + near(word(input)?) };
        let window = (word(input)?) as u16;
        let how = input.byte()?;
        let blocks: Vec<u8> = (0..how & 3)
            .flat_map(|_| {
                let start = base + word(input).unwrap_or(0);
                let end = start + word(input).unwrap_or(0);
                [start.0.to_be_bytes(), end.0.to_be_bytes()].concat()
            })
            .collect();
        let stamp = u32::from(how) << 8;
        let options = TcpOptions {
            mss: (how & 4 != 0).then_some(stamp as u16),
            window_scale: (how & 8 != 0).then_some(how >> 4),
            sack_permitted: how & 16 != 0,
            timestamps: (how & 32 == 0).then_some(Timestamps { value: stamp, echo: stamp ^ 1 }),
            fast_open: match what % 16 {
                7 => Some(&[]),
                8 => Some(&self.cookie),
                _ => None,
            },
            sack: &blocks,
        };
        let payload = vec![0; if how & 64 == 0 { 0 } else { word(input)? as usize % 2000 }];
        let ecn = Ecn::from_bits(how >> 6);
        let segment = Segment {
            seq,
            ack,
            flags,
            window,
            urgent: stamp as u16,
            options,
            payload: &payload,
            joined: 0,
            ecn,
        };
        if let Ok(handled) = self.endpoint.handle(&tuple(port), &segment, self.now)
            && let Some(accepted) = handled.payload
        {
            assert!(accepted.range.end <= payload.len() && !accepted.range.is_empty());
            let connection = self.endpoint.get(handled.id.unwrap()).unwrap();
            let end = accepted.offset + accepted.range.len() as u64;
            assert!(end <= connection.readable().start + u64::from(CAPACITY), "within the region");
        }
        Some(())
    }

    fn drain(&mut self) {
        for count in 0.. {
            let Some(transmit) = self.endpoint.poll_transmit(self.now) else { break };
            assert!(count < 20_000, "it stops sending");
            assert!(transmit.len() <= 1480, "what fits the MTU");
            if let Some(id) = transmit.connection
                && let Some(connection) = self.endpoint.get(id)
            {
                assert!(transmit.payload.end <= connection.queued());
                assert!(
                    transmit.payload.is_empty()
                        || transmit.payload.start >= connection.acknowledged()
                );
            }
            if let Some((octets, len)) = transmit.options.fast_open {
                self.cookie = octets[..usize::from(len)].to_vec();
            }
            let at = usize::from(transmit.tuple.remote_port - 5000) & 3;
            let (seq, header) = (Seq(transmit.header.seq), &transmit.header);
            let len = (transmit.payload.end - transmit.payload.start) as u32;
            let control = u32::from(header.flags & 1) + u32::from(header.flags >> 1 & 1);
            if header.flags & 2 != 0 {
                self.ours[at] = (seq, seq + 1);
            } else if (seq + len).gt(self.ours[at].1) {
                self.ours[at].1 = seq + len + control;
            }
        }
        while self.endpoint.poll_event().is_some() {}
        let endpoint = &self.endpoint;
        self.clients.retain(|id| endpoint.get(*id).is_some());
    }

    fn check(&mut self) {
        self.endpoint.check_invariants();
        assert!(self.endpoint.len() <= 6);
        assert!(self.endpoint.memory() <= 6 * (16_000 + 2 * u64::from(CAPACITY)) + 60_000);
        let states = self.endpoint.ids().filter_map(|id| self.endpoint.get(id));
        for connection in states.filter(|it| it.state() == State::TimeWait) {
            assert_eq!(connection.in_flight(), 0);
        }
    }
}
