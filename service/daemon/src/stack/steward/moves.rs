//! TCP connections move with their filters.
//!
//! Before a filter of a connection changes, the worker behind its next queue is told to hold what arrives
//! there, and when the filter has changed, the state follows between two segments (design note 0036). Wider
//! filters name no connection: theirs follow their segments by themselves, a little later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weever_block::FlowKey;
use weever_blocks_std::host::Secret;
use weever_blocks_std::tcp::flow_of;
use weever_engine::{FlowMoves, Publisher};
use weever_graph::Field;
use weever_graph::nic::FlowType;
use weever_plan::config::{Configuration, Rule, Target};
use weever_plan::map::place;
use weever_plan::nic::{Nic, Table};
use weever_plan::watch::FiveTuple;

/// The node whose flows are connections.
const ENDPOINT: &str = "RxL4TCPEndpoint";
const TCP: u8 = 6;
/// How long a worker may take to notice that connections leave it. A turn takes microseconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// The filters of single connections, with their destinations.
type Filters = BTreeMap<FiveTuple, Target>;

/// Moves connections to the workers behind their queues.
pub(super) struct ConnectionMover {
    publisher: Arc<Publisher>,
    secret: Secret,
    present: Filters,
    /// Connections whose filters are about to change.
    moving: Option<FlowMoves>,
}

impl ConnectionMover {
    /// The connections of a team under the root key of its host.
    pub(super) fn new(publisher: Arc<Publisher>, secret: Secret) -> ConnectionMover {
        ConnectionMover { publisher, secret, present: Filters::new(), moving: None }
    }

    /// The filters become those of `next`: connections that will arrive at another worker begin to move.
    /// Blocks until their workers have noticed.
    pub(super) fn begin(&mut self, nic: &Nic, next: &Configuration) {
        self.moving = None;
        let moves = self.to_move(nic, next);
        if moves.is_empty() {
            return;
        }
        match self.publisher.begin_moves(ENDPOINT, &moves) {
            Ok(moving) => {
                if !moving.wait_begun(PATIENCE) {
                    tracing::debug!("a worker is late: connections follow their filters later");
                }
                self.moving = Some(moving);
            }
            Err(error) => tracing::debug!("connections follow their filters later: {error}"),
        }
    }

    /// The filters are these now.
    pub(super) fn finish(&mut self, nic: &Nic, present: &Configuration) {
        self.present = filters(nic, present);
        self.let_go();
    }

    /// The filters may be either. Connections go where they were to go, and back to where their segments
    /// arrive.
    pub(super) fn let_go(&mut self) {
        if let Some(moving) = self.moving.take() {
            moving.redirected();
            let so_far = moving.progress();
            tracing::debug!(?so_far, "connections move with their filters");
        }
    }

    /// The connections whose own filter comes, goes or changes, with the workers where they will arrive.
    fn to_move(&self, nic: &Nic, next: &Configuration) -> Vec<(FlowKey, u16)> {
        let Ok(owners) = self.publisher.flow_owners(ENDPOINT) else { return Vec::new() };
        let next_filters = filters(nic, next);
        let differs = |tuple: &&FiveTuple| self.present.get(tuple) != next_filters.get(tuple);
        let gone = self.present.keys().filter(|tuple| !next_filters.contains_key(tuple));
        let changed = next_filters.keys().chain(gone).filter(differs);
        let of = |tuple: &FiveTuple| {
            let key = flow_of(&self.secret, tuple.dst, tuple.src);
            owners.owner(key)?;
            let queue = place(nic, next, &tuple.packets()?).queue()?;
            Some((key, u16::try_from(queue).ok()?))
        };
        changed.filter_map(of).collect()
    }
}

fn filters(nic: &Nic, configuration: &Configuration) -> Filters {
    let tables = nic.tables.iter().zip(&configuration.rules);
    let rules = tables.flat_map(|(table, rules)| rules.iter().map(move |rule| (table, rule)));
    let tuple = |packets| FiveTuple::of(&packets).filter(|tuple| tuple.protocol == TCP);
    let filter =
        |(table, rule): (&Table, &Rule)| Some((tuple(rule.matches(&table.model))?, rule.target));
    rules.filter(|(table, rule)| is_of_tcp(table, rule)).filter_map(filter).collect()
}

/// Whether a filter asks for TCP. Sorts the many filters of other flows out before anything is made of them.
fn is_of_tcp(table: &Table, rule: &Rule) -> bool {
    if let Some(protocol) = rule.flow_type.and_then(FlowType::protocol) {
        return protocol == TCP;
    }
    let protocol = |field| matches!(field, Field::Ip4Proto | Field::Ip6Next);
    let mut keys = table.model.matches.iter().zip(&rule.keys);
    keys.any(|(m, key)| protocol(m.field) && key.mask != 0 && key.value == TCP.into())
}
