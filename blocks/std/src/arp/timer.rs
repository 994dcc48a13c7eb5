//! What time does to neighbours, on every worker.

use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    Priority, StateKind,
};
use weever_graph::Effects;
use weever_net::arp::Transmit;

use super::address;
use crate::check::reader;
use crate::host::Neighbours;

const AGAIN: usize = 0;
const REQUEST: usize = 1;
const ANNOUNCE: usize = 2;

/// Has requests repeated, addresses announced, and those woken who wait for a neighbour.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "request", "announce"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[ParamDoc {
        name: "period",
        default: "10",
        doc: "milliseconds between two looks at the neighbour cache",
    }],
    counters: &["requests", "announcements"],
    ..reader(
        "TxL3ARPTimer",
        "Repeats ARP requests, asks neighbours in use, announces our addresses, and wakes packets \
         whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    let neighbours = build.env::<Neighbours>("the neighbour cache")?;
    let period = period * weever_net::MILLIS;
    Ok(Box::new(Timer { neighbours, period, seen: 0, look_at: 0 }))
}

struct Timer {
    neighbours: Arc<Neighbours>,
    period: Nanos,
    /// The latest news that waiting packets, on any worker, have been told.
    seen: u64,
    /// When to tell the cache what was used, even if nothing else is due.
    look_at: Nanos,
}

impl Block for Timer {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        if cx.now >= self.look_at || self.neighbours.is_due(self.seen, cx.now) {
            self.look_at = cx.now + weever_net::SECOND;
            self.catch_up(cx);
        }
        cx.spawn_new(AGAIN, None, self.period, Priority::Low);
        ports.enable(0, input);
    }
}

impl Timer {
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut session = self.neighbours.session(now);
        let free = session.poll(now, |iface, transmit| send(cx, iface, &transmit));
        let mut woken = Vec::new();
        self.seen = session.news_since(self.seen, |key| woken.push(key));
        // What is woken must find the new address published.
        drop(session);
        if !free.is_empty() {
            self.neighbours.confirm(&free);
        }
        for key in woken {
            match key {
                Some(key) => cx.notify(0, key),
                None => cx.notify_all(0),
            }
        }
    }
}

/// Without a buffer the packet counts as lost; the cache repeats it.
fn send(cx: &mut Cx<'_>, iface: u16, transmit: &Transmit) {
    let Some(mut buffer) = cx.alloc() else { return };
    address(&mut buffer, iface, transmit);
    let announcement = transmit.arp.spa == transmit.arp.tpa;
    let (edge, counter) = if announcement { (ANNOUNCE, 1) } else { (REQUEST, 0) };
    cx.count(counter, 1);
    cx.spawn_new(edge, Some(buffer), 0, Priority::High);
}
