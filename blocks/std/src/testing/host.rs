//! A host in a box: a graph on an engine, with frames in, frames out, and a clock that tests move.

use weever_block::{Env, Nanos, Registry};
use weever_engine::{CounterKind, Engine, Entry, Limits, Reading, Schedule};
use weever_graph::{Graph, verify};
use weever_net::iface::Interface;
use weever_net::ipv6::Locals6;
use weever_net::state::NetConfig;
use weever_packet::{Burst, Flags, HugePages, Pool, PoolConfig};

use super::env;
use super::frames::HOST_MAC;
use crate::host::provide;

/// Where packets enter.
pub(super) const SOURCE: &str = "RxQueue";
/// Counters of blocks that make packets.
const MADE: [&str; 14] = [
    "requests",
    "announcements",
    "copies",
    "reassembled",
    "timeouts",
    "redirects",
    "fragments",
    "messages",
    "probes",
    "reports",
    "solicitations",
    "adverts",
    "sent",
    "resets_sent",
];
/// How far the clock moves at once, so that timers come in their order.
const STEP: Nanos = 10_000_000;

/// A graph that runs on memory alone.
#[derive(Debug)]
pub struct HostBox {
    engine: Engine,
    source: Entry,
    pool: Pool,
    burst: Burst,
    flags: Flags,
    now: Nanos,
    received: u64,
    sent: u64,
}

/// The host of the [frames](super::frames): 10.0.0.1/24.
pub fn host_state() -> NetConfig {
    NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().expect("a valid prefix")])
}

/// The same speaking IPv6: fd00::1/64 and fe80::1/64, which are used at once.
pub fn host_state6() -> NetConfig {
    let v6 = ["fd00::1/64", "fe80::1/64"].map(|text| text.parse().expect("a valid prefix"));
    let state = host_state();
    let only = state.interfaces()[0].clone().with_v6(Locals6::new(&v6));
    let mut config = NetConfig::new();
    config.add_interface(only).expect("a sound interface");
    config
}

/// The same in a VLAN, with this MTU.
pub fn host_state_in(vlan: Option<u16>, mtu: u16) -> NetConfig {
    let state = host_state();
    let only = Interface { vlan, mtu, ..state.interfaces()[0].clone() };
    let mut config = NetConfig::new();
    config.add_interface(only).expect("a sound interface");
    config
}

impl HostBox {
    /// Runs `graph` as the host of the [frames](super::frames), with the engine's default limits.
    pub fn new(graph: Graph) -> HostBox {
        HostBox::with(graph, host_state(), Limits::default())
    }

    /// Runs `graph` as `host`. Its source is called `RxQueue`.
    ///
    /// Panics when the graph does not verify or a block cannot be made, saying why.
    pub fn with(graph: Graph, host: NetConfig, limits: Limits) -> HostBox {
        let env = env();
        provide(&env, host, 0);
        HostBox::in_env(graph, &env, limits)
    }

    /// Runs `graph` with the shared state in `env`; panics as [`with`](Self::with) does.
    pub fn in_env(graph: Graph, env: &Env, limits: Limits) -> HostBox {
        HostBox::of(graph, &crate::registry(), env, limits)
    }

    /// Runs `graph` with blocks of `registry`; panics as [`with`](Self::with) does.
    pub fn of(mut graph: Graph, registry: &Registry, env: &Env, limits: Limits) -> HostBox {
        registry.annotate(&mut graph).unwrap_or_else(|e| panic!("{e}"));
        let verified = verify(graph).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let schedule = Schedule::compile(&verified, registry, env);
        let schedule = schedule.unwrap_or_else(|e| panic!("{e}"));
        let source = schedule.entry(SOURCE).expect("the graph has a node `RxQueue`");
        // The most frames held at once: sent, blocked, and a few bursts on their way.
        let frames = (limits.outbox * usize::from(limits.links) + limits.blocked + 512) as u32;
        let config = PoolConfig { frames, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).expect("memory for a pool");
        let mut engine = Engine::new(schedule, pool.cache(), limits);
        engine.start();
        let burst = Burst::new();
        let flags = Flags::NONE;
        HostBox { engine, source, pool, burst, flags, now: 0, received: 0, sent: 0 }
    }

    /// Sets the link's flags on frames received from now on.
    pub fn set_flags(&mut self, flags: Flags) {
        self.flags = flags;
    }

    /// Receives frames by link 0, 64 at a time, and runs everything that follows from them. Frames
    /// too long for a buffer are cut off.
    pub fn receive<F: AsRef<[u8]>>(&mut self, frames: &[F]) {
        self.receive_by(0, frames);
    }

    /// [`receive`](Self::receive) by any link.
    pub fn receive_by<F: AsRef<[u8]>>(&mut self, link: u16, frames: &[F]) {
        for chunk in frames.chunks(64) {
            let mut tasks = 0;
            for (task, frame) in chunk.iter().enumerate() {
                let mut packet = self.engine.pool().alloc().expect("the pool is large enough");
                let frame = frame.as_ref();
                packet.append(&frame[..frame.len().min(packet.tailroom())]);
                let start = packet.head();
                let meta = packet.meta_mut();
                (meta.l2, meta.flags, meta.arrived) = (start, self.flags, self.now);
                meta.link = link;
                self.burst.put(task, packet);
                tasks |= 1 << task;
                self.received += 1;
            }
            self.engine.inject(self.source, &mut self.burst, tasks, self.now);
            self.settle();
        }
    }

    /// Lets time pass, in small steps.
    pub fn advance(&mut self, nanos: Nanos) {
        let end = self.now + nanos;
        while self.now < end {
            self.now = end.min(self.now + STEP);
            self.settle();
        }
    }

    fn settle(&mut self) {
        // Bounded: a graph that feeds itself without end is a failure, not a hang.
        for _ in 0..1000 {
            self.engine.run(self.now, 4096);
            if self.engine.idle() {
                return;
            }
        }
        panic!("the graph does not come to rest");
    }

    /// The time in nanoseconds.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The frames that were sent by link 0 since the last call, in their order.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.sent_by(0)
    }

    /// The frames that were sent by a link since the last call for it, in their order.
    pub fn sent_by(&mut self, link: u16) -> Vec<Vec<u8>> {
        let (pool, outbox) = self.engine.transmit(link);
        let mut frames = Vec::new();
        for packet in outbox.drain(..) {
            frames.push(packet.data().to_vec());
            pool.free(packet);
        }
        self.sent += frames.len() as u64;
        frames
    }

    /// Every drop with a stated reason that happened: node, reason, how often.
    pub fn drops(&self) -> Vec<(String, String, u64)> {
        let readings = self.readings().into_iter();
        let drops = readings.filter(|r| r.kind == CounterKind::Drop && r.value > 0);
        drops.map(|r| (r.node.to_string(), r.label.to_string(), r.value)).collect()
    }

    /// Every counter.
    pub fn readings(&self) -> Vec<Reading> {
        self.engine.counters().describe()
    }

    /// How often the counter of `kind` called `label` at `node` was raised; panics when there is
    /// no such counter.
    pub fn count(&self, node: &str, kind: CounterKind, label: &str) -> u64 {
        let value = self.engine.counters().get(node, kind, label);
        value.unwrap_or_else(|| panic!("{node} has no {} counter `{label}`", kind.name()))
    }

    /// The total called `label`, as [`weever_engine::Counters::total`].
    pub fn total(&self, label: &str) -> u64 {
        self.engine.counters().total(label)
    }

    /// Asserts that every packet has had exactly one fate: the packets received or made equal those
    /// sent, dropped for a reason, taken to their end, or still waiting; and that no two nodes
    /// wanted the same packet.
    pub fn check_fates(&mut self) {
        (0..self.engine.limits().links).for_each(|link| drop(self.sent_by(link)));
        let of = |kinds: &[CounterKind]| -> u64 {
            let readings = self.readings();
            readings.iter().filter(|r| kinds.contains(&r.kind)).map(|r| r.value).sum()
        };
        let made: u64 = MADE.iter().map(|name| self.own(name)).sum();
        let refused = of(&[
            CounterKind::Drop,
            CounterKind::SpawnFull,
            CounterKind::OutboxFull,
            CounterKind::BlockFull,
        ]);
        let ended =
            refused + self.total("unclaimed") + self.total("used") + self.total("blocked_now");
        // A timer that finds its queue full is no packet; none does within the default limits.
        assert_eq!(self.received + made, self.sent + ended, "each packet has exactly one fate");
        assert_eq!(self.total("conflicts"), 0);
        assert_eq!(self.engine.counters().faults(), [], "no block panics");
    }

    /// The sum of the blocks' own counters of this name.
    fn own(&self, name: &str) -> u64 {
        let readings = self.readings();
        let own = readings.iter().filter(|r| r.kind == CounterKind::Own && &*r.label == name);
        own.map(|r| r.value).sum()
    }

    /// Ends the host: [`check_fates`](Self::check_fates), and asserts that every buffer has come
    /// home once the engine is gone.
    pub fn finish(mut self) {
        self.check_fates();
        let HostBox { engine, pool, burst, .. } = self;
        drop((engine, burst));
        let census = pool.census();
        assert!(census.is_complete(), "buffers are conserved: {census}");
    }
}
