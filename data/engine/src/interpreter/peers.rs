//! What goes from worker to worker: tasks for nodes that are at home elsewhere, wake-ups for tasks
//! that wait elsewhere, packets for links that others serve.

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use weever_block::Priority;
use weever_packet::Buffer;

use super::lane::Task;
use crate::schedule::{Entry, Idp};
use crate::worker::Doorbell;

/// Wake-ups that wait for room. When there are more, all tasks of the node are woken instead: who is
/// woken for nothing waits again, who is not woken waits for ever.
const MOST_WAKES: usize = 256;

/// A place in the graph, as those understand it who may run an older or a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) entry: Entry,
    pub(crate) idp: Idp,
    /// The number of the graph in which the place is meant.
    pub(crate) epoch: u64,
}

/// What lies in a ring.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// Starts a task.
    Task { at: Place, priority: Priority, task: Task },
    /// Wakes the tasks that wait for a key; for any without one.
    Wake { at: Place, key: Option<u64> },
    /// Sends a packet.
    Send { link: u16, buffer: Buffer },
}

impl Parcel {
    /// The number of the graph that its reader must run.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Parcel::Task { at, .. } | Parcel::Wake { at, .. } => at.epoch,
            Parcel::Send { .. } => 0,
        }
    }
}

/// The way to another worker.
#[derive(Debug)]
pub(crate) struct Outlet {
    ring: Producer<Parcel>,
    bell: Arc<Doorbell>,
    /// Whether something was put in since the bell was looked at.
    fresh: bool,
    wakes: VecDeque<(Place, Option<u64>)>,
    /// Tasks that wait for room: those that a change sends away.
    late: VecDeque<Parcel>,
}

impl Outlet {
    pub(crate) fn new(ring: Producer<Parcel>, bell: Arc<Doorbell>) -> Outlet {
        let wakes = VecDeque::with_capacity(MOST_WAKES);
        Outlet { ring, bell, fresh: false, wakes, late: VecDeque::new() }
    }

    fn put(&mut self, parcel: Parcel) -> Result<(), Parcel> {
        match self.ring.push(parcel) {
            Ok(()) => {
                self.fresh = true;
                Ok(())
            }
            Err(rtrb::PushError::Full(parcel)) => Err(parcel),
        }
    }

    fn wake(&mut self, at: Place, key: Option<u64>) {
        if self.wakes.len() < MOST_WAKES {
            self.wakes.push_back((at, key));
        } else {
            // By the dispatch point: the same entry of an older graph may be another node.
            self.wakes.retain(|(place, _)| place.idp != at.idp);
            self.wakes.push_back((at, None));
        }
        self.send_wakes();
    }

    /// Sends what waits, as far as there is room.
    fn send_waiting(&mut self) {
        self.send_wakes();
        while let Some(parcel) = self.late.pop_front() {
            if let Err(parcel) = self.put(parcel) {
                return self.late.push_front(parcel);
            }
        }
    }

    fn send_wakes(&mut self) {
        while let Some((at, key)) = self.wakes.pop_front() {
            if self.put(Parcel::Wake { at, key }).is_err() {
                self.wakes.push_front((at, key));
                return;
            }
        }
    }
}

/// The other workers, as one of them sees them.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) me: u16,
    /// By worker; none to itself.
    outlets: Box<[Option<Outlet>]>,
    inlets: Box<[Option<Consumer<Parcel>>]>,
    /// By link: a worker that serves it.
    carriers: Box<[Option<u16>]>,
    /// Parcels sent and received.
    pub(crate) given: u64,
    pub(crate) taken: u64,
}

impl Peers {
    pub(crate) fn new(
        me: u16,
        outlets: Vec<Option<Outlet>>,
        inlets: Vec<Option<Consumer<Parcel>>>,
        carriers: Vec<Option<u16>>,
    ) -> Peers {
        let (outlets, inlets) = (outlets.into(), inlets.into());
        Peers { me, outlets, inlets, carriers: carriers.into(), given: 0, taken: 0 }
    }

    fn give(&mut self, to: u16, parcel: Parcel) -> Result<(), Parcel> {
        match self.outlets.get_mut(to as usize) {
            Some(Some(outlet)) => {
                outlet.put(parcel)?;
                self.given += 1;
                Ok(())
            }
            _ => Err(parcel),
        }
    }

    /// Hands a task over; gives it back when the ring is full.
    pub(crate) fn start(
        &mut self,
        to: u16,
        at: Place,
        priority: Priority,
        task: Task,
    ) -> Result<(), Task> {
        // What has waited longer goes first.
        if let Some(Some(outlet)) = self.outlets.get_mut(to as usize)
            && !outlet.late.is_empty()
        {
            outlet.send_waiting();
            if !outlet.late.is_empty() {
                return Err(task);
            }
        }
        self.give(to, Parcel::Task { at, priority, task }).map_err(|parcel| match parcel {
            Parcel::Task { task, .. } => task,
            Parcel::Wake { .. } | Parcel::Send { .. } => None,
        })
    }

    /// Hands a task over, if need be once there is room. As many as wait at a node that goes: their queues
    /// were bounded.
    pub(crate) fn start_late(&mut self, to: u16, at: Place, priority: Priority, task: Task) {
        if let Some(Some(outlet)) = self.outlets.get_mut(to as usize) {
            outlet.late.push_back(Parcel::Task { at, priority, task });
            outlet.send_waiting();
            self.given += 1;
        }
    }

    /// How many parcels the ring to another worker takes before what waits for room already.
    #[inline]
    pub(crate) fn room(&self, to: u16) -> usize {
        match &self.outlets[to as usize] {
            Some(outlet) => outlet.ring.slots().saturating_sub(outlet.late.len()),
            None => usize::MAX,
        }
    }

    /// Wakes what waits for `key` on worker `to`, or on all others. Never lost.
    pub(crate) fn wake(&mut self, to: Option<u16>, at: Place, key: Option<u64>) {
        for (worker, outlet) in self.outlets.iter_mut().enumerate() {
            if to.is_none_or(|to| to as usize == worker)
                && let Some(outlet) = outlet
            {
                outlet.wake(at, key);
                self.given += 1;
            }
        }
    }

    /// Hands packets for a link over to a worker that serves it, as far as there is room. `false`:
    /// nobody serves it.
    pub(crate) fn carry(&mut self, link: u16, packets: &mut VecDeque<Buffer>) -> bool {
        let carrier = self.carriers.get(link as usize).copied().flatten();
        let Some(carrier) = carrier.filter(|worker| *worker != self.me) else { return false };
        while let Some(buffer) = packets.pop_front() {
            if let Err(parcel) = self.give(carrier, Parcel::Send { link, buffer }) {
                if let Parcel::Send { buffer, .. } = parcel {
                    packets.push_front(buffer);
                }
                break;
            }
        }
        true
    }

    /// How many workers there are, this one included.
    pub(crate) fn len(&self) -> usize {
        self.inlets.len()
    }

    /// The next parcel from a worker, left where it is.
    #[inline]
    pub(crate) fn next(&mut self, from: usize) -> Option<&Parcel> {
        self.inlets[from].as_mut()?.peek().ok()
    }

    /// Takes it.
    pub(crate) fn take(&mut self, from: usize) -> Option<Parcel> {
        let parcel = self.inlets[from].as_mut()?.pop().ok();
        self.taken += u64::from(parcel.is_some());
        parcel
    }

    /// How many parcels wait from a worker.
    pub(crate) fn depth(&self, from: usize) -> usize {
        self.inlets[from].as_ref().map_or(0, Consumer::slots)
    }

    /// Whether any parcel waits here.
    pub(crate) fn has_parcels(&self) -> bool {
        (0..self.len()).any(|from| self.depth(from) > 0)
    }

    /// Whether wake-ups or tasks wait for room in a ring.
    pub(crate) fn has_unsent(&self) -> bool {
        let waits = |outlet: &Outlet| !outlet.wakes.is_empty() || !outlet.late.is_empty();
        self.outlets.iter().flatten().any(waits)
    }

    /// Wakes those that sleep and have got something. Once per turn: their parcels are many.
    pub(crate) fn ring_bells(&mut self) {
        for outlet in self.outlets.iter_mut().flatten() {
            outlet.send_waiting();
            if std::mem::take(&mut outlet.fresh) {
                outlet.bell.ring();
            }
        }
    }
}
