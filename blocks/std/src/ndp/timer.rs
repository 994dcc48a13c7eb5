//! What time does to neighbours, addresses and routers.

use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    Priority, StateKind,
};
use weever_graph::Effects;

use super::send;
use crate::check::reader;
use crate::host::Neighbours6;

const AGAIN: usize = 0;
const SEND: usize = 1;

/// Has solicitations repeated, addresses asked for, routers asked, and those woken who wait.
pub static TIMER: BlockType = BlockType {
    spawns: &["again", "send"],
    notifies: &["resolved"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[ParamDoc {
        name: "period",
        default: "10",
        doc: "milliseconds between two looks at the IPv6 neighbours",
    }],
    counters: &["solicitations"],
    ..reader(
        "TxL3NDTimer",
        "Asks for neighbours in use, for our own addresses before we use them, and for routers; \
         ages what they said, and wakes packets whose neighbour was resolved or given up.",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    let neighbours = build.env::<Neighbours6>("the IPv6 neighbours")?;
    let period = period * weever_net::MILLIS;
    Ok(Box::new(Timer { neighbours, period, seen: 0, look_at: 0 }))
}

struct Timer {
    neighbours: Arc<Neighbours6>,
    period: Nanos,
    /// The latest news that this worker's waiting packets have been told.
    seen: u64,
    /// When to tell what was used, even if nothing else is due.
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
        session.poll(now, |iface, transmit| {
            let sent = send(cx, SEND, iface, 0, &transmit);
            cx.count(0, sent.into());
        });
        let mut woken = Vec::new();
        self.seen = session.news_since(self.seen, |key| woken.push(key));
        // What is woken must find the new address published.
        drop(session);
        for key in woken {
            match key {
                Some(key) => cx.notify(0, key),
                None => cx.notify_all(0),
            }
        }
    }
}
