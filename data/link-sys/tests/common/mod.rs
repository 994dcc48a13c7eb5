//! Common parts of the tests of AF_XDP: the link in one namespace, its peer in the other.
#![allow(dead_code, reason = "each test binary uses its part of it")]

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weever_ebpf::sys::XdpLink;
use weever_ebpf::xdp::classify::{Fallback, Target};
use weever_link::conformance::{ETHERTYPE, Peer, Setup};
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, OpenError, RingSizes, Steering};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::Fixture;

pub(crate) fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

/// Small enough to be filled by a test, and for the kernel's queues behind them to hold.
pub(crate) const RINGS: RingSizes = RingSizes { rx: 256, tx: 128, fill: 256, completion: 128 };

pub(crate) fn config(interface: &str, pool: &Pool) -> AfXdpConfig {
    AfXdpConfig { rings: RINGS, ..AfXdpConfig::new(interface, pool.clone()) }
}

/// Opens in the fixture's left namespace.
pub(crate) fn open_left(net: &Fixture, config: &AfXdpConfig) -> Result<AfXdp, OpenError> {
    net.left.run(|| AfXdp::open(config))
}

/// The left end of a cable, opened with small rings, and its first queue.
pub(crate) struct Opened {
    pub(crate) link: AfXdp,
    pub(crate) queue: Box<dyn LinkQueue>,
    pub(crate) pool: Pool,
    pub(crate) cache: PoolCache,
}

pub(crate) fn opened(net: &Fixture, frames: u32) -> Opened {
    let pool = pool(frames);
    let mut link = open_left(net, &config("left0", &pool)).unwrap();
    let (queue, cache) = (link.take_queues().remove(0), pool.cache());
    Opened { link, queue, pool, cache }
}

/// The kernel's end: a packet socket on `right0`.
pub(crate) struct KernelPeer {
    socket: PacketSocket,
    /// Keeps the cable.
    net: Fixture,
    buffer: Vec<u8>,
}

impl KernelPeer {
    pub(crate) fn new(net: &Fixture) -> KernelPeer {
        let socket =
            net.right.run(|| PacketSocket::open("right0", Protocol::EtherType(ETHERTYPE))).unwrap();
        socket.set_receive_buffer(8 << 20).unwrap();
        KernelPeer { socket, net: net.clone(), buffer: vec![0; 65536] }
    }
}

impl Peer for KernelPeer {
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool {
        assert_eq!(queue, 0, "the kernel chooses the queue");
        self.socket.send(frame).is_ok()
    }

    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)> {
        let received = self.socket.receive(&mut self.buffer, Duration::from_millis(100));
        let length = received.expect("the packet socket works")?;
        Some((None, self.buffer[..length].to_vec()))
    }

    fn leave(&mut self) -> bool {
        self.net.clone().veth.delete().unwrap();
        true
    }
}

/// Another AF_XDP link at the other end: the queues correspond.
pub(crate) struct XdpPeer {
    queues: Vec<Box<dyn LinkQueue>>,
    cache: PoolCache,
    inbox: VecDeque<(Option<u16>, Vec<u8>)>,
    _link: AfXdp,
}

impl XdpPeer {
    pub(crate) fn new(net: &Fixture) -> XdpPeer {
        let pool = pool(4096);
        let mut link = net.right.run(|| AfXdp::open(&config("right0", &pool))).unwrap();
        let (queues, inbox) = (link.take_queues(), VecDeque::new());
        XdpPeer { queues, cache: pool.cache(), inbox, _link: link }
    }

    fn poll(&mut self) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            for packet in receive(&mut **queue, &mut self.cache) {
                if packet.data()[12..14] == ETHERTYPE.to_be_bytes() {
                    self.inbox.push_back((Some(index as u16), packet.data().to_vec()));
                }
                self.cache.free(packet);
            }
        }
    }
}

impl Peer for XdpPeer {
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool {
        send(&mut *self.queues[queue as usize], &mut self.cache, frame)
    }

    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)> {
        let end = Instant::now() + Duration::from_millis(100);
        while self.inbox.is_empty() && Instant::now() < end {
            self.poll();
        }
        self.inbox.pop_front()
    }
}

/// Sends a frame at once; false if there is no room.
pub(crate) fn send(queue: &mut dyn LinkQueue, cache: &mut PoolCache, frame: &[u8]) -> bool {
    let Some(mut packet) = cache.alloc() else { return false };
    assert!(packet.append(frame));
    let mut packets = VecDeque::from([packet]);
    queue.tx(cache, &mut packets).unwrap();
    let taken = packets.is_empty();
    packets.into_iter().for_each(|packet| cache.free(packet));
    while queue.unsent() {
        queue.flush(cache).unwrap();
    }
    queue.flush(cache).unwrap();
    taken
}

/// The packets that have arrived.
pub(crate) fn receive(queue: &mut dyn LinkQueue, cache: &mut PoolCache) -> Vec<Buffer> {
    let mut burst = Burst::new();
    let n = queue.rx(cache, &mut burst, 64).unwrap();
    (0..n).filter_map(|slot| burst.take(slot)).collect()
}

/// Longest wait for an expected event, on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for a packet that `wanted` accepts, and frees all others.
pub(crate) fn await_packet(
    queue: &mut dyn LinkQueue,
    cache: &mut PoolCache,
    wanted: impl Fn(&Buffer) -> bool,
) -> Option<Buffer> {
    look_for(queue, cache, PATIENCE, wanted)
}

/// Whether no packet comes that `wanted` accepts, as far as a while tells; frees all others.
pub(crate) fn stays_away(
    queue: &mut dyn LinkQueue,
    cache: &mut PoolCache,
    wanted: impl Fn(&Buffer) -> bool,
) -> bool {
    let found = look_for(queue, cache, Duration::from_millis(500), wanted);
    found.map(|packet| cache.free(packet)).is_none()
}

fn look_for(
    queue: &mut dyn LinkQueue,
    cache: &mut PoolCache,
    patience: Duration,
    wanted: impl Fn(&Buffer) -> bool,
) -> Option<Buffer> {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        let mut found = None;
        for packet in receive(queue, cache) {
            if found.is_none() && wanted(&packet) {
                found = Some(packet);
            } else {
                cache.free(packet);
            }
        }
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A set-up for the conformance suite with the kernel as the peer.
pub(crate) fn against_the_kernel(configure: impl Fn(&mut AfXdpConfig)) -> Setup {
    let net = Fixture::pair(1).unwrap();
    let pool = pool(2048);
    let mut config = config("left0", &pool);
    configure(&mut config);
    let link = open_left(&net, &config).unwrap();
    Setup { link: Box::new(link), pool, peer: Box::new(KernelPeer::new(&net)) }
}

/// One with AF_XDP at both ends of several queues.
pub(crate) fn against_itself(queues: u32) -> Setup {
    let net = Fixture::pair(queues).unwrap();
    let pool = pool(4096);
    let link = open_left(&net, &config("left0", &pool)).unwrap();
    let peer = XdpPeer::new(&net);
    Setup { link: Box::new(WithNet(link, net)), pool, peer: Box::new(peer) }
}

/// One with several sockets on each of several queues, to any of which the peer can send.
pub(crate) fn sharing(queues: u32, sockets: u16) -> Setup {
    let net = Fixture::pair(queues).unwrap();
    let pool = pool(4096);
    let config = AfXdpConfig { sockets_per_queue: sockets, ..config("left0", &pool) };
    let link = open_left(&net, &config).unwrap();
    let steering = Arc::clone(link.steering());
    let peer = SortedPeer { peer: XdpPeer::new(&net), steering, sockets };
    Setup { link: Box::new(WithNet(link, net)), pool, peer: Box::new(peer) }
}

/// A peer whose packets arrive at the intended socket.
struct SortedPeer {
    peer: XdpPeer,
    steering: Arc<Steering>,
    sockets: u16,
}

impl Peer for SortedPeer {
    fn send(&mut self, queue: u16, frame: &[u8]) -> bool {
        all_to(&self.steering, queue % self.sockets);
        self.peer.send(queue / self.sockets, frame)
    }

    fn receive(&mut self) -> Option<(Option<u16>, Vec<u8>)> {
        self.peer.receive().map(|(_, frame)| (None, frame))
    }
}

/// Sends everything to one of the sockets of each device queue.
pub(crate) fn all_to(steering: &Steering, socket: u16) {
    let wanted = Fallback::To(Target::Queue(socket.into()));
    let mut sorting = steering.classifier().unwrap().lock().unwrap();
    if *sorting.fallback() != wanted {
        sorting.set_fallback(wanted).unwrap();
    }
}

/// Keeps the cable while the link is open.
struct WithNet(AfXdp, #[expect(dead_code, reason = "kept for its drop")] Fixture);

impl Link for WithNet {
    fn info(&self) -> &weever_link::LinkInfo {
        self.0.info()
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        self.0.take_queues()
    }
}

/// A program on the right end that leaves everything to the kernel: a veth end without one has no
/// NAPI to deliver frames that the other end redirects.
pub(crate) fn pass_on_the_right(net: &Fixture) -> XdpLink {
    let program = weever_ebpf::xdp::pass().unwrap();
    net.right.run(|| XdpLink::attach(&program, net.veth.right.index)).unwrap()
}

/// Both ends of a datagram.
pub(crate) struct Ends {
    pub(crate) from: ([u8; 6], Ipv4Addr),
    pub(crate) to: ([u8; 6], Ipv4Addr),
    pub(crate) port: u16,
}

/// A frame with a UDP datagram whose checksum is partial: the pseudo-header's sum.
pub(crate) fn partial_datagram(ends: &Ends, payload: &[u8]) -> Vec<u8> {
    let udp = 8 + payload.len();
    let mut frame = ends.to.0.to_vec();
    frame.extend(ends.from.0);
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + udp as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(ends.from.1.octets());
    frame.extend(ends.to.1.octets());
    let header = !sum(&frame[14..]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let pseudo = u32::from(sum(&frame[26..])) + 17 + udp as u32;
    let pseudo = (pseudo >> 16) + (pseudo & 0xffff);
    frame.extend(ends.port.to_be_bytes());
    frame.extend(ends.port.to_be_bytes());
    frame.extend((udp as u16).to_be_bytes());
    frame.extend((pseudo as u16).to_be_bytes());
    frame.extend(payload);
    frame
}

/// RFC 1071, the plain way.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let total: u32 = bytes.chunks(2).map(word).sum();
    let once = (total >> 16) + (total & 0xffff);
    ((once >> 16) + (once & 0xffff)) as u16
}
