//! A stack over a memory link, and a peer made by hand.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use weever_blocks_std::testing::frames::{self, HOST, PEER};
use weever_daemon::config::{Config, Services};
use weever_daemon::{Stack, StartError};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};
use weever_wire::arp::ArpView;
use weever_wire::ethernet::HEADER_LEN;
use weever_wire::ipv4::Ipv4View;
use weever_wire::udp::UdpView;

use super::temporary_path;

pub(crate) const ECHO: u16 = 7;
pub(crate) const DISCARD: u16 = 9;
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The host at the other end of a link.
pub(crate) struct Peer {
    pub(crate) queue: Box<dyn LinkQueue>,
    pub(crate) cache: PoolCache,
}

impl Peer {
    pub(crate) fn send(&mut self, frame: &[u8]) {
        let mut buffer = self.cache.alloc().unwrap();
        assert!(buffer.append(frame));
        let mut packets = [buffer].into();
        let deadline = Instant::now() + PATIENCE;
        while self.queue.tx(&mut self.cache, &mut packets).unwrap() == 0 {
            assert!(Instant::now() < deadline, "the stack takes nothing");
            std::thread::yield_now();
        }
        self.queue.flush(&mut self.cache).unwrap();
    }

    /// The next frame that is no ARP packet, and no IPv6 one, which a stack that speaks it sends
    /// unasked; ARP requests are answered on the way.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        loop {
            let frame = self.receive_any(PATIENCE).expect("no answer");
            match ArpView::new(&frame[HEADER_LEN..]) {
                Ok(arp) if arp.header().tpa() == PEER => self.send(&frames::arp_reply()),
                // An announcement, or a request for somebody else.
                Ok(_) => {}
                Err(_) if frame[12..14] == [0x86, 0xdd] => {}
                Err(_) => return frame,
            }
        }
    }

    pub(crate) fn receive_any(&mut self, patience: Duration) -> Option<Vec<u8>> {
        let (mut burst, deadline) = (Burst::new(), Instant::now() + patience);
        while Instant::now() < deadline {
            if self.queue.rx(&mut self.cache, &mut burst, 1).unwrap() == 1 {
                return burst.take(0).map(|buffer| buffer.data().to_vec());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        None
    }

    pub(crate) fn echo(&mut self, payload: &[u8]) {
        self.exchange(HOST, ECHO, payload);
    }

    pub(crate) fn echo_to(&mut self, port: u16, payload: &[u8]) {
        self.exchange(HOST, port, payload);
    }

    pub(crate) fn echo_from(&mut self, host: Ipv4Addr, payload: &[u8]) {
        self.exchange(host, ECHO, payload);
    }

    fn exchange(&mut self, host: Ipv4Addr, port: u16, payload: &[u8]) {
        let (from, to) = (SocketAddrV4::new(PEER, 4000), SocketAddrV4::new(host, port));
        self.send(&frames::from_peer(&frames::udp_datagram(from, to, payload)));
        let answer = self.receive();
        let ip = Ipv4View::new(&answer[HEADER_LEN..]).unwrap();
        assert_eq!((ip.header().src(), ip.header().dst()), (host, PEER));
        let udp = UdpView::new(ip.payload()).unwrap();
        assert_eq!((udp.header().src_port(), udp.header().dst_port()), (port, 4000));
        assert_eq!(udp.payload(), payload);
    }
}

pub(crate) fn config() -> Config {
    let mut config = Config::new("memory0", "10.0.0.1/24".parse().unwrap());
    config.services = Services { echo: Some(ECHO), discard: Some(DISCARD), ..Services::default() };
    config.control = Some(temporary_path());
    config
}

pub(crate) fn try_start(config: Config) -> Result<(Stack, Vec<Peer>), StartError> {
    try_start_with(config, 1)
}

fn try_start_with(config: Config, queues: u16) -> Result<(Stack, Vec<Peer>), StartError> {
    let pool = Pool::new(PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
    let link = MemoryConfig { waitable: true, queues, ..MemoryConfig::default() };
    let (ours, mut theirs) = pair(&link).unwrap();
    let peer = |queue| Peer { queue, cache: pool.cache() };
    let peers = theirs.take_queues().into_iter().map(peer).collect();
    Ok((Stack::start_on(vec![Box::new(ours)], pool, config)?, peers))
}

/// A stack, and a peer on each of this many queues.
pub(crate) fn start_with(config: Config, queues: u16) -> (Stack, Vec<Peer>) {
    try_start_with(config, queues).unwrap()
}

pub(crate) fn start(config: Config) -> (Stack, Peer) {
    let (stack, mut peers) = start_with(config, 1);
    (stack, peers.remove(0))
}
