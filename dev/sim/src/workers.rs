//! The workers of a simulated host. Several run at different speeds: in each instant some of them have no
//! core. Filters of the device take time to change, as they do on a NIC.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use weever_block::FlowKey;
use weever_engine::{FlowLists, FlowMoves, Moved, TeamError};
use weever_graph::{Graph, Node, Predicate, Verified};
use weever_host::Host;
use weever_packet::Nanos;
use weever_plan::simplify::{ForeignPackets, HandOver, Home, QueueFacts, simplify};

use crate::SimError;
use crate::sockets::{FLOWS, flow_key};
use crate::sorter::Sorter;

/// The part of a worker at which nothing is expected: it hands over to worker 0 what arrives.
pub fn idle_part(whole: &Verified) -> Graph {
    let registry = weever_blocks_std::registry();
    let home = |node: &Node| registry.home_for_parts(node).map_or(Home::Any, Home::Elsewhere);
    let foreign = ForeignPackets::HandOver(HandOver::default());
    let given = QueueFacts::of(&[], &Predicate::True);
    simplify(whole, &QueueFacts { home: &home, foreign, ..given }).graph
}

/// A worker without a core has one again after this time, and so long does a filter take to change.
const PAUSE: Nanos = 20_000;

/// Flows that a filter of peers' ports sends to another worker.
struct Move {
    flows: FlowMoves,
    ports: RangeInclusive<u16>,
    to: u16,
    /// When the filter has changed, once the move has begun.
    at: Option<Nanos>,
    redirected: bool,
}

/// A filter that waits for the lists of the flows that it takes.
struct Set {
    lists: FlowLists,
    ports: RangeInclusive<u16>,
    to: u16,
}

/// The turns of a host's workers, and the flows that move between them.
pub(crate) struct Workers {
    count: usize,
    sorters: Vec<Sorter>,
    /// The instant of the last turns, and the workers that have no core in it, a bit each.
    at: Nanos,
    without_core: u64,
    /// Whether there was work in it.
    was_busy: bool,
    random: u64,
    sets: Vec<Set>,
    moves: Vec<Move>,
    moved: Moved,
    /// Workers whose queues fail, and whose flows have not been given away.
    cut_off: Vec<usize>,
}

impl Workers {
    pub(crate) fn new(count: usize, sorters: Vec<Sorter>, seed: u64) -> Workers {
        Workers {
            count,
            sorters,
            at: 0,
            without_core: 0,
            was_busy: false,
            random: seed | 1,
            sets: Vec::new(),
            moves: Vec::new(),
            moved: Moved::default(),
            cut_off: Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// One turn of each worker that has a core. Whether there may be more to do at this instant.
    pub(crate) fn step(&mut self, host: &mut Host, now: Nanos) -> bool {
        if self.count == 1 {
            return host.step(now);
        }
        if now > self.at {
            // One that had no core has one now. A host with nothing to do comes to rest.
            let drawn = if self.was_busy { self.draw() & !self.without_core } else { 0 };
            (self.at, self.without_core, self.was_busy) = (now, drawn, false);
        }
        let (mut is_busy, without_core) = (false, self.without_core);
        for number in (0..self.count).filter(|number| without_core >> number & 1 == 0) {
            is_busy |= host.step_worker(number, now);
            self.relieve(host);
            self.begin_sets(host);
            self.go_on_moving(now);
        }
        self.was_busy |= is_busy;
        is_busy
    }

    /// When the workers have to be called next, beside their own deadlines.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let moves = !self.moves.is_empty() || !self.sets.is_empty() || !self.cut_off.is_empty();
        (self.without_core != 0 || moves).then_some(self.at + PAUSE)
    }

    /// Which workers have no core next: each one time in two.
    fn draw(&mut self) -> u64 {
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 32 & ((1 << self.count) - 1)
    }

    /// Has the flow of a peer's datagrams to a port arrive at another worker, and its state go there.
    pub(crate) fn begin(
        &mut self,
        host: &Host,
        name: &str,
        (peer, port): (SocketAddr, u16),
        to: u16,
    ) -> Result<(), SimError> {
        let ports = peer.port()..=peer.port();
        self.move_all(host, &[flow_key(peer, port)], ports, to).map_err(failed(name))
    }

    fn move_all(
        &mut self,
        host: &Host,
        flows: &[FlowKey],
        ports: RangeInclusive<u16>,
        to: u16,
    ) -> Result<(), TeamError> {
        let moves: Vec<_> = flows.iter().map(|flow| (*flow, to)).collect();
        let flows = host.handle().publisher.begin_moves(FLOWS, &moves)?;
        self.moves.push(Move { flows, ports, to, at: None, redirected: false });
        Ok(())
    }

    /// The same for all flows of a range of peers' ports, which the workers list first.
    pub(crate) fn begin_set(
        &mut self,
        host: &Host,
        name: &str,
        ports: RangeInclusive<u16>,
        to: u16,
    ) -> Result<(), SimError> {
        if usize::from(to) >= self.count {
            return Err(failed(name)(format!("it has no worker {to}")));
        }
        let lists = host.handle().publisher.list_flows(FLOWS).map_err(failed(name))?;
        self.sets.push(Set { lists, ports, to });
        Ok(())
    }

    /// Orders the flows to move that all workers have listed.
    fn begin_sets(&mut self, host: &Host) {
        let complete = self.sets.extract_if(.., |set| set.lists.is_complete());
        for Set { lists, ports, to } in complete.collect::<Vec<_>>() {
            let listed = lists.wait(Duration::ZERO).flows.into_iter();
            let taken = listed.filter(|(_, flow)| ports.contains(&flow.remote.port()));
            let flows: Vec<FlowKey> = taken.map(|(_, flow)| flow.key).collect();
            self.move_all(host, &flows, ports, to).expect("the worker and the node were there");
        }
    }

    /// Has all queues of a worker fail: it gives its flows to another.
    pub(crate) fn cut_off(&mut self, worker: u16) {
        self.sorters.iter().for_each(|sorter| sorter.fail(worker));
        self.cut_off.push(worker.into());
    }

    /// Has flows leave the workers that have noticed the failure of all their queues.
    fn relieve(&mut self, host: &Host) {
        let queues = self.sorters.len();
        let handle = host.handle();
        let noticed = |number: &mut usize| handle.workers[*number].lost_queues().len() == queues;
        if self.cut_off.extract_if(.., noticed).count() > 0 {
            // The workers have turns afterwards.
            handle.relieve(Duration::ZERO);
        }
    }

    /// What follows in the moves: first the old owner knows, then the filter changes.
    fn go_on_moving(&mut self, now: Nanos) {
        for moving in &mut self.moves {
            if moving.at.is_none() && moving.flows.wait_begun(Duration::ZERO) {
                moving.at = Some(now + PAUSE);
            }
            if !moving.redirected && moving.at.is_some_and(|at| now >= at) {
                self.sorters.iter().for_each(|sorter| sorter.set(moving.ports.clone(), moving.to));
                moving.flows.redirected();
                moving.redirected = true;
            }
        }
        let is_over = |moving: &mut Move| moving.redirected && moving.flows.progress().open == 0;
        for moving in self.moves.extract_if(.., is_over) {
            let outcome = moving.flows.progress();
            self.moved.moved += outcome.moved;
            self.moved.gone += outcome.gone;
            self.moved.stays += outcome.stays;
            self.moved.refused += outcome.refused;
        }
    }

    /// The results of the moves that are over; those that are not count as open.
    pub(crate) fn moved(&self) -> Moved {
        let mut moved = self.moved;
        moved.open = self.moves.len();
        moved
    }

    /// The datagrams that have arrived since the last call.
    pub(crate) fn take_arrived(&self) -> Vec<(u16, Vec<u8>)> {
        self.sorters.iter().flat_map(Sorter::take_arrived).collect()
    }
}

fn failed<E: ToString>(host: &str) -> impl Fn(E) -> SimError {
    move |problem| SimError::Host { host: host.into(), problem: problem.to_string() }
}
