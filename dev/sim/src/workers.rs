//! The workers of a simulated host. Several run at different speeds: in each instant some of them have no
//! core. Filters of the device take time to change, as they do on a NIC.

use std::net::SocketAddr;
use std::time::Duration;

use weever_engine::{FlowMoves, Moved};
use weever_host::Host;
use weever_packet::Nanos;

use crate::SimError;
use crate::sockets::{FLOWS, flow_key};
use crate::sorter::Sorter;

/// A worker without a core has one again after this time, and so long does a filter take to change.
const PAUSE: Nanos = 20_000;

/// A flow that a filter sends to another worker.
struct Move {
    flows: FlowMoves,
    port: u16,
    to: u16,
    /// When the filter has changed, once the move has begun.
    at: Option<Nanos>,
    redirected: bool,
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
    moves: Vec<Move>,
    moved: Moved,
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
            moves: Vec::new(),
            moved: Moved::default(),
        }
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
            let worker = host.worker(number);
            let turn = worker.turn(now);
            is_busy |= !turn.is_idle() || !worker.engine().idle();
            self.go_on_moving(now);
        }
        self.was_busy |= is_busy;
        is_busy
    }

    /// When the workers have to be called next, beside their own deadlines.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        (self.without_core != 0 || !self.moves.is_empty()).then_some(self.at + PAUSE)
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
        let failed = |problem: String| SimError::Host { host: name.into(), problem };
        let publisher = &host.handle().publisher;
        let flows = publisher.begin_moves(FLOWS, &[(flow_key(peer, port), to)]);
        let flows = flows.map_err(|error| failed(error.to_string()))?;
        self.moves.push(Move { flows, port: peer.port(), to, at: None, redirected: false });
        Ok(())
    }

    /// What follows in the moves: first the old owner knows, then the filter changes.
    fn go_on_moving(&mut self, now: Nanos) {
        for moving in &mut self.moves {
            if moving.at.is_none() && moving.flows.wait_begun(Duration::ZERO) {
                moving.at = Some(now + PAUSE);
            }
            if !moving.redirected && moving.at.is_some_and(|at| now >= at) {
                self.sorters.iter().for_each(|sorter| sorter.set(moving.port, moving.to));
                moving.flows.redirected();
                moving.redirected = true;
            }
        }
        let is_over = |moving: &mut Move| moving.redirected && moving.flows.progress().open == 0;
        for moving in self.moves.extract_if(.., is_over) {
            let outcome = moving.flows.progress();
            self.moved.moved += outcome.moved;
            self.moved.gone += outcome.gone;
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
