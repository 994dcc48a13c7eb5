//! weever's TCP behind a TAP: a bare loop in a thread of its own, without a graph.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weever_link::{Link, LinkQueue};
use weever_link_sys::tap::{Tap, TapConfig};
use weever_packet::{Buffer, Burst, Flags, Pool, PoolCache, PoolConfig};
use weever_tcp::{
    Ecn, Endpoint, Id, ListenerConfig, ListenerId, Segment, TcpConfig, Transmit, Tuple,
};
use weever_testbed::Namespace;
use weever_wire::checksum::Pseudo;
use weever_wire::ipv4::{Ipv4Repr, Ipv4View};
use weever_wire::tcp::TcpView;

use super::expert::Capture;
use super::stream::{Job, Stream};

pub(crate) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 1);
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 2);
pub(crate) const PORT: u16 = 8080;
const ETHERNET: usize = 14;

/// The script of a host.
pub(crate) struct Plan {
    pub(crate) config: TcpConfig,
    /// The job of accepted connections.
    pub(crate) accepts: Option<Job>,
    /// Every so many packets, one that arrives and one to be sent are lost; 0: none.
    pub(crate) lose: u64,
    /// Where all packets are noted down.
    pub(crate) capture: Option<Capture>,
}

/// The result.
pub(crate) struct Outcome {
    pub(crate) streams: Vec<Stream>,
    pub(crate) bad_checksums: u64,
    pub(crate) left: usize,
    pub(crate) capture: Option<Capture>,
}

/// A host that runs.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    stop: Arc<AtomicBool>,
    connects: Sender<(u16, Job)>,
    thread: JoinHandle<Outcome>,
}

impl Host {
    pub(crate) fn start(plan: Plan) -> Host {
        let namespace = Namespace::new().unwrap();
        let mut tap = namespace.run(|| Tap::open(&TapConfig::new("tap0"))).unwrap();
        namespace.add_address("tap0", KERNEL, 24).unwrap();
        namespace.add_neighbour("tap0", OURS, tap.info().mac).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, macs) = (Arc::clone(&stop), (tap.info().mac, tap.interface().mac));
        let queue = tap.take_queues().remove(0);
        let (connects, asked_for) = channel();
        let thread = std::thread::spawn(move || {
            let _kept = tap;
            Loop::new(queue, macs, plan, asked_for).run(&asked)
        });
        Host { namespace, stop, connects, thread }
    }

    /// Asks for a connection to this port of the kernel's.
    pub(crate) fn connect(&self, port: u16, job: Job) {
        self.connects.send((port, job)).unwrap();
    }

    /// Ends the loop once it holds no connection any more, or gives up after a minute.
    pub(crate) fn finish(self) -> Outcome {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the host does not panic")
    }
}

struct Loop {
    queue: Box<dyn LinkQueue>,
    macs: ([u8; 6], [u8; 6]),
    pool: Pool,
    cache: PoolCache,
    out: VecDeque<Buffer>,
    began: Instant,
    endpoint: Endpoint,
    listener: Option<ListenerId>,
    plan: Plan,
    connects: Receiver<(u16, Job)>,
    streams: HashMap<Id, Stream>,
    done: Vec<Stream>,
    bad_checksums: u64,
    packets: u64,
}

impl Loop {
    fn new(
        queue: Box<dyn LinkQueue>,
        macs: ([u8; 6], [u8; 6]),
        plan: Plan,
        connects: Receiver<(u16, Job)>,
    ) -> Self {
        let pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
        let mut endpoint = Endpoint::new(plan.config.clone(), [11, 12], 1);
        let listening = plan.accepts.as_ref().map(|_| {
            let config = ListenerConfig { accept_queue: 4096, ..ListenerConfig::new(PORT) };
            endpoint.listen(config).unwrap()
        });
        Self {
            queue,
            macs,
            cache: pool.cache(),
            pool,
            out: VecDeque::new(),
            began: Instant::now(),
            endpoint,
            listener: listening,
            plan,
            connects,
            streams: HashMap::new(),
            done: Vec::new(),
            bad_checksums: 0,
            packets: 0,
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64 + 1_000_000_000
    }

    fn run(mut self, stop: &AtomicBool) -> Outcome {
        let mut idle = 0u32;
        let mut stopped = None;
        loop {
            let stops = stop.load(Ordering::Acquire);
            let now = self.now();
            while let Ok((port, job)) = self.connects.try_recv() {
                let (from, to) = (SocketAddr::from((OURS, 0)), SocketAddr::from((KERNEL, port)));
                let id = self.endpoint.connect(from, to, now).unwrap();
                self.streams.insert(id, Stream::new(id, job));
            }
            if stops {
                let since: &mut Instant = stopped.get_or_insert_with(Instant::now);
                if self.streams.is_empty() || since.elapsed() > Duration::from_secs(60) {
                    break;
                }
            }
            match self.turn() {
                true => idle = 0,
                false => idle += 1,
            }
            if idle > 20 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let left = self.streams.len();
        self.done.extend(self.streams.into_values());
        let (streams, bad_checksums) = (self.done, self.bad_checksums);
        Outcome { streams, bad_checksums, left, capture: self.plan.capture }
    }

    /// Whether anything happened.
    fn turn(&mut self) -> bool {
        let mut burst = Burst::new();
        let got = self.queue.rx(&mut self.cache, &mut burst, 64).unwrap();
        for packet in (0..got).filter_map(|slot| burst.take(slot)) {
            self.packets += 1;
            if self.plan.lose == 0 || !self.packets.is_multiple_of(self.plan.lose) {
                self.receive(&packet);
            }
            self.cache.free(packet);
        }
        let now = self.now();
        if self.endpoint.next_deadline().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.work(now);
        let sent = self.transmit(now);
        got > 0 || sent
    }

    fn receive(&mut self, packet: &Buffer) {
        let frame = packet.data();
        self.note(frame);
        if frame.get(12..ETHERNET) != Some(&[8, 0]) {
            return;
        }
        let Ok(ip) = Ipv4View::new(&frame[ETHERNET..]) else { return };
        if ip.header().protocol() != 6 || ip.header().dst() != OURS {
            return;
        }
        let text = ip.payload();
        let partial = packet.meta().flags.has(Flags::PARTIAL_CHECKSUM);
        let pseudo = Pseudo::v4(&ip.header().addresses(), 6, text.len() as u16);
        if !partial && !pseudo.verifies(text) {
            self.bad_checksums += 1;
            return;
        }
        let Ok(view) = TcpView::new(text) else { return };
        let tuple = Tuple {
            local: IpAddr::V4(OURS),
            remote: ip.header().src().into(),
            local_port: view.header().dst_port(),
            remote_port: view.header().src_port(),
        };
        let ecn = Ecn::from_bits(frame[ETHERNET + 1]);
        let Ok(segment) = Segment::parse(view, ecn) else { return };
        let now = self.now();
        let Ok(handled) = self.endpoint.handle(&tuple, &segment, now) else { return };
        self.accept();
        if let (Some(id), Some(payload)) = (handled.id, handled.payload)
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.receive.write(payload.offset, &segment.payload[payload.range]);
        }
    }

    fn note(&mut self, frame: &[u8]) {
        let now = self.now();
        if let Some(capture) = &mut self.plan.capture {
            capture.write(now, frame);
        }
    }

    fn accept(&mut self) {
        let (Some(listener), Some(job)) = (self.listener, &self.plan.accepts) else { return };
        while let Some(id) = self.endpoint.accept(listener) {
            self.streams.insert(id, Stream::new(id, job.clone()));
        }
    }

    fn work(&mut self, now: u64) {
        while let Some((id, events)) = self.endpoint.poll_event() {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            if stream.work(&mut self.endpoint, events, now) {
                self.done.extend(self.streams.remove(&id));
            }
        }
    }

    fn transmit(&mut self, now: u64) -> bool {
        let mut busy = false;
        while self.out.len() < 64 {
            let Some(transmit) = self.endpoint.poll_transmit(now) else { break };
            busy = true;
            for piece in transmit.cut() {
                self.packets += 1;
                if self.plan.lose == 0 || !self.packets.is_multiple_of(self.plan.lose) {
                    self.build(&piece);
                }
            }
        }
        if !self.out.is_empty() {
            self.queue.tx(&mut self.cache, &mut self.out).unwrap();
            self.queue.flush(&mut self.cache).unwrap();
        }
        busy
    }

    fn build(&mut self, transmit: &Transmit) {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (transmit.tuple.local, transmit.tuple.remote)
        else {
            return;
        };
        let len = transmit.len();
        let mut frame = vec![0; ETHERNET + 20 + len];
        frame[..6].copy_from_slice(&self.macs.1);
        frame[6..12].copy_from_slice(&self.macs.0);
        frame[12..ETHERNET].copy_from_slice(&[8, 0]);
        let ip = Ipv4Repr {
            tos: transmit.ecn as u8,
            ident: 0,
            flags_frag: 0x4000,
            ttl: 64,
            protocol: 6,
            src,
            dst,
            payload_len: len as u16,
        };
        ip.emit(&mut frame[ETHERNET..]).unwrap();
        let stream = transmit.connection.and_then(|id| self.streams.get(&id));
        let text = &mut frame[ETHERNET + 20..];
        transmit
            .emit(text, |range, out| {
                // A connection that its application let go of has its region in `done`.
                let of = |it: &&Stream| Some(it.id) == transmit.connection;
                let stream = stream.or_else(|| self.done.iter().rev().find(of));
                stream.expect("whose payload it is").send.read(range.start, out)
            })
            .unwrap();
        self.note(&frame);
        // Without a buffer the packet is lost, and TCP sends it again.
        if let Some(mut packet) = self.pool.alloc() {
            assert!(packet.append(&frame));
            self.out.push_back(packet);
        }
    }
}
