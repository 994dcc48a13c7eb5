//! The rings between the workers of a team.

use std::sync::Arc;

use rtrb::RingBuffer;

use crate::Worker;
use crate::interpreter::{Outlet, Parcel, Peers};
use crate::worker::Doorbell;

/// Parcels that one ring holds, where the pool is large enough.
const MOST: usize = 1024;
/// And at least.
const FEWEST: usize = 64;

/// Joins every worker with every other by a ring in each direction. `links`: the links that each
/// serves, and how many there are.
pub(super) fn connect(workers: &mut [Worker], links: &[Vec<u16>], count: u16) {
    let n = workers.len();
    if n < 2 {
        return;
    }
    let capacity = capacity(workers);
    let bells: Vec<Arc<Doorbell>> = workers.iter().map(Worker::doorbell).collect();
    let mut outlets: Vec<Vec<Option<Outlet>>> = (0..n).map(|_| Vec::new()).collect();
    let mut inlets: Vec<Vec<Option<rtrb::Consumer<Parcel>>>> = (0..n).map(|_| Vec::new()).collect();
    for (from, outlets) in outlets.iter_mut().enumerate() {
        for (to, inlets) in inlets.iter_mut().enumerate() {
            let (producer, consumer) = RingBuffer::new(capacity);
            let other = from != to;
            outlets.push(other.then(|| Outlet::new(producer, bells[to].clone())));
            // Filled from worker 0 on, so that the positions are the senders.
            inlets.push(other.then_some(consumer));
        }
    }
    let ends = outlets.into_iter().zip(inlets);
    for (me, (worker, (outlets, inlets))) in workers.iter_mut().zip(ends).enumerate() {
        let carriers = (0..count).map(|link| carrier(link, me, links)).collect();
        worker.engine().connect(Peers::new(me as u16, outlets, inlets, carriers));
    }
}

/// The worker that sends by `link` for worker `me`: itself, or else the next one that has a queue of
/// it, so that not all load falls on one.
fn carrier(link: u16, me: usize, links: &[Vec<u16>]) -> Option<u16> {
    let n = links.len();
    let mut workers = (0..n).map(|i| (me + i) % n);
    workers.find(|worker| links[*worker].contains(&link)).map(|worker| worker as u16)
}

/// Rings hold at most an eighth of the frames.
fn capacity(workers: &mut [Worker]) -> usize {
    let rings = workers.len() * (workers.len() - 1);
    let frames = workers[0].engine().pool().pool().frames();
    (frames / 8 / rings).clamp(FEWEST, MOST)
}
