//! Two endpoints, and a network that the input drives: it loses, duplicates, reorders, delays and damages.
//! With inputs of odd length, the connection begins with Fast Open. Each octet that is read is the one
//! that was sent, and connections stay consistent throughout.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use weever_tcp::{Ecn, Endpoint, Id, ListenerConfig, Region, Segment, TcpConfig, Tuple};
use weever_wire::checksum::Pseudo;
use weever_wire::tcp::TcpView;

const MILLIS: u64 = 1_000_000;
const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
const CAPACITY: u64 = 8192;

struct Host {
    endpoint: Endpoint,
    id: Option<Id>,
    send: Region,
    receive: Region,
    written: u64,
    /// Segments sent and not yet delivered, and whether each is damaged.
    out: Vec<(Vec<u8>, bool)>,
}

fn octet(at: u64) -> u8 {
    (at ^ at >> 8) as u8
}

impl Host {
    fn new(config: TcpConfig, key: u64) -> Self {
        let endpoint = Endpoint::new(config, [key, 5], 0);
        let region = || Region::new(CAPACITY as usize);
        Self { endpoint, id: None, send: region(), receive: region(), written: 0, out: Vec::new() }
    }

    fn write(&mut self, len: u64, now: u64) {
        let Some(id) = self.id else { return };
        let Some(connection) = self.endpoint.get(id) else { return };
        let len = len.min(CAPACITY - (self.written - connection.acknowledged()));
        let octets: Vec<u8> = (self.written..self.written + len).map(octet).collect();
        self.send.write(self.written, &octets);
        self.written += self.endpoint.queue(id, len, now);
    }

    fn read(&mut self, most: u64, peer_wrote: u64, now: u64) {
        let Some(id) = self.id else { return };
        let Some(connection) = self.endpoint.get(id) else { return };
        let readable = connection.readable();
        assert!(readable.end <= peer_wrote, "no more is received than was sent");
        let len = (readable.end - readable.start).min(most);
        let (first, second) = self.receive.slices(readable.start..readable.start + len);
        for (at, got) in (readable.start..).zip(first.iter().chain(second)) {
            assert_eq!(*got, octet(at));
        }
        self.endpoint.consume(id, len, now);
    }

    fn transmit(&mut self, now: u64) {
        for count in 0.. {
            let Some(transmit) = self.endpoint.poll_transmit(now) else { break };
            assert!(count < 20_000, "it stops sending");
            let mut bytes = vec![0; transmit.len()];
            transmit.emit(&mut bytes, |range, out| self.send.read(range.start, out)).unwrap();
            if self.out.len() < 200 {
                self.out.push((bytes, false));
            }
        }
    }

    fn hear(&mut self, from: usize, (bytes, damaged): &(Vec<u8>, bool), now: u64) {
        // Damage in several places can leave the sum right, which no TCP can notice.
        if *damaged || !pseudo(from, bytes.len()).verifies(bytes) {
            return;
        }
        let Ok(view) = TcpView::new(bytes) else { return };
        let Ok(segment) = Segment::parse(view, Ecn::NotEct) else { return };
        let [local, remote] = [1 - from, from].map(|at| IpAddr::from(ADDRESSES[at]));
        let (local_port, remote_port) = (view.header().dst_port(), view.header().src_port());
        let tuple = Tuple { local, remote, local_port, remote_port };
        let Ok(handled) = self.endpoint.handle(&tuple, &segment, now) else { return };
        if let Some(payload) = handled.payload {
            self.receive.write(payload.offset, &segment.payload[payload.range]);
        }
    }
}

/// The first host gets the other one's cookie by a connection that is then removed at both.
fn learn_cookie(hosts: &mut [Host; 2], (from, to): (SocketAddr, SocketAddr), now: u64) {
    let id = hosts[0].endpoint.connect(from, to, now).unwrap();
    hosts[0].endpoint.set_fast_open(id, now);
    for at in [0, 1] {
        hosts[at].transmit(now);
        let all = std::mem::take(&mut hosts[at].out);
        all.iter().for_each(|packet| hosts[1 - at].hear(at, packet, now));
    }
    hosts[0].endpoint.abort(id, now);
    hosts[0].endpoint.close(id, now);
    for _ in 0..2 {
        hosts[0].transmit(now);
        let all = std::mem::take(&mut hosts[0].out);
        all.iter().for_each(|packet| hosts[1].hear(0, packet, now));
    }
}

fn pseudo(from: usize, len: usize) -> Pseudo {
    let both = [ADDRESSES[from], ADDRESSES[1 - from]].concat();
    Pseudo::v4(both.first_chunk().unwrap(), 6, len as u16)
}

fuzz_target!(|data: &[u8]| {
    let Some((how, steps)) = data.split_first() else { return };
    let config = |bits: u8| TcpConfig {
        sack: bits & 1 == 0,
        timestamps: bits & 2 == 0,
        window_scaling: bits & 4 == 0,
        pacing: bits & 8 != 0,
        receive_capacity: CAPACITY as u32,
        mtu: 576,
        ..TcpConfig::default()
    };
    let mut hosts = [Host::new(config(how & 15), 1), Host::new(config(how >> 4), 2)];
    let mut now = 1000 * MILLIS;
    let fast = steps.len() % 2 == 1;
    let listener = ListenerConfig { fast_open: u32::from(fast), ..ListenerConfig::new(80) };
    let listener = hosts[1].endpoint.listen(listener).unwrap();
    let from = SocketAddr::from((Ipv4Addr::from(ADDRESSES[0]), 0));
    let to = SocketAddr::from((Ipv4Addr::from(ADDRESSES[1]), 80));
    if fast {
        learn_cookie(&mut hosts, (from, to), now);
    }
    hosts[0].id = hosts[0].endpoint.connect(from, to, now).ok();
    if let Some(id) = hosts[0].id.filter(|_| fast) {
        hosts[0].endpoint.set_fast_open(id, now);
        hosts[0].write(400, now);
    }
    for step in steps.chunks_exact(2) {
        let (what, value) = (step[0], step[1]);
        let at = usize::from(what & 1);
        let count = hosts[at].out.len();
        match what >> 1 & 7 {
            0 | 1 if count > 0 => {
                // Delivered: the oldest, or any; now and then it stays for once more.
                let which = if value & 1 == 0 { 0 } else { usize::from(value >> 2) % count };
                let packet = hosts[at].out[which].clone();
                if value & 2 == 0 {
                    hosts[at].out.remove(which);
                }
                hosts[1 - at].hear(at, &packet, now);
            }
            2 if count > 0 => drop(hosts[at].out.remove(usize::from(value) % count)),
            3 if count > 0 => {
                let (bytes, damaged) = &mut hosts[at].out[0];
                *damaged = true;
                let bit = usize::from(value) * 37 % (8 * bytes.len());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            4 => hosts[at].write(u64::from(value) * 16, now),
            5 => {
                let wrote = hosts[1 - at].written;
                hosts[at].read(u64::from(value) * 32, wrote, now);
            }
            6 => now += u64::from(value) * u64::from(value) * MILLIS,
            7 if value == 255 => {
                if let Some(id) = hosts[at].id {
                    hosts[at].endpoint.shutdown(id, now);
                }
            }
            _ => now += u64::from(value) * MILLIS / 8,
        }
        if hosts[1].id.is_none() {
            hosts[1].id = hosts[1].endpoint.accept(listener);
        }
        for host in &mut hosts {
            host.endpoint.handle_timeout(now);
            host.transmit(now);
            host.endpoint.check_invariants();
        }
    }
});
