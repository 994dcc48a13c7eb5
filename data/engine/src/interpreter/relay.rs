//! Taking over what other workers hand to this one.

use super::Engine;
use super::lane::Task;
use super::peers::{Parcel, Peers, Place};
use super::runtime::Runtime;
use crate::counters::{Counter, total};
use crate::schedule::{DEFAULT, Entry, Program};
use weever_block::Priority;

/// Parcels taken from one worker in one turn.
const MOST: usize = 256;

impl Engine {
    /// Makes this the engine of one of several workers.
    pub(crate) fn connect(&mut self, peers: Peers) {
        self.runtime.peers = Some(Box::new(peers));
    }

    pub(crate) fn peers(&mut self) -> Option<&mut Peers> {
        self.runtime.peers.as_deref_mut()
    }

    /// Takes parcels over, as far as there is room for the tasks in them. Stops at one that belongs
    /// to a newer graph than this engine runs, and returns that graph's number.
    #[inline]
    pub(crate) fn take_over(&mut self) -> Option<u64> {
        let workers = self.runtime.peers.as_ref().map_or(0, |peers| peers.len());
        (0..workers).find_map(|from| self.take_over_from(from))
    }

    fn take_over_from(&mut self, from: usize) -> Option<u64> {
        for _ in 0..MOST {
            let program = &self.plan.program;
            let next = self.runtime.peers.as_mut()?.next(from)?;
            if next.epoch() > self.runtime.epoch {
                return Some(next.epoch());
            }
            if let Parcel::Task { at, priority, .. } = next {
                let (at, priority) = (*at, *priority);
                let entry = program.at(at);
                if entry.is_some_and(|entry| !self.runtime.tasks.lane(priority).has_room(entry)) {
                    return None;
                }
            }
            let parcel = self.runtime.peers.as_mut()?.take(from)?;
            self.runtime.unpack(program, parcel);
        }
        None
    }

    /// Whether other workers have left something for this one.
    pub(crate) fn has_parcels(&self) -> bool {
        self.runtime.peers.as_ref().is_some_and(|peers| peers.has_parcels())
    }

    /// How many packets may turn out not to be for this worker's part of the graph: they need room in the
    /// ring to the worker that has all of it.
    #[inline]
    pub(crate) fn room_for_strangers(&self) -> usize {
        match &self.runtime.peers {
            Some(peers) if self.plan.program.is_part => peers.room(DEFAULT),
            _ => usize::MAX,
        }
    }

    /// Whether something for other workers waits for room.
    pub(crate) fn has_unsent_parcels(&self) -> bool {
        self.runtime.peers.as_ref().is_some_and(|peers| peers.has_unsent())
    }
}

impl Runtime {
    fn unpack(&mut self, program: &Program, parcel: Parcel) {
        match parcel {
            Parcel::Task { at, priority, task } => match program.at(at) {
                Some(entry) => self.enqueue(program, entry, priority, task, program.dropped),
                None => self.refuse(task, program.dropped),
            },
            Parcel::Wake { at, key } => {
                if let Some(entry) = program.at(at) {
                    self.wake_here(entry, key);
                }
            }
            Parcel::Send { link, buffer } => match self.outboxes.room_of(link) {
                Some((outbox, _)) => outbox.push_back(buffer),
                None => self.refuse(Some(buffer), total::RELAY_FULL),
            },
        }
    }

    fn wake_here(&mut self, entry: Entry, key: Option<u64>) {
        let Runtime { blocked, tasks, .. } = self;
        match key {
            Some(key) => blocked.wake(entry, key, |task| tasks.wake(entry, task)),
            None => blocked.wake_all(entry, |task| tasks.wake(entry, task)),
        }
        self.counters.set(total::BLOCKED, self.blocked.len() as u64);
    }

    /// Wakes the tasks that wait for `key` at `entry`, or for anything without one, on every worker that may have some.
    pub(crate) fn notify(&mut self, program: &Program, epoch: u64, entry: Entry, key: Option<u64>) {
        let home = program.home(entry);
        if let Some(peers) = &mut self.peers {
            let place = Place { entry, idp: program.entries[entry.index()].idp, epoch };
            if home.is_none_or(|home| home != peers.me) {
                peers.wake(home, place, key);
            }
        }
        if self.is_home(home) {
            self.wake_here(entry, key);
        }
    }

    /// Whether what is at home there runs here.
    #[inline]
    pub(crate) fn is_home(&self, home: Option<u16>) -> bool {
        home.is_none_or(|home| self.peers.as_ref().is_none_or(|peers| peers.me == home))
    }

    /// Hands a task over to the worker where its node is at home; gives it back when there is no room.
    #[cold]
    pub(crate) fn hand_over(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
    ) -> Result<(), Task> {
        let (Some(home), Some(peers)) = (program.home(entry), &mut self.peers) else {
            return Err(task);
        };
        let place = Place { entry, idp: program.entries[entry.index()].idp, epoch: self.epoch };
        peers.start(home, place, priority, task)
    }

    /// Enqueues a task here, or where its node is at home.
    pub(crate) fn enqueue(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
        full: Counter,
    ) {
        let result = if self.is_home(program.home(entry)) {
            self.tasks.lane(priority).push(entry, task)
        } else {
            self.hand_over(program, entry, priority, task)
        };
        if let Err(task) = result {
            self.refuse(task, full);
        }
    }

    /// The same for tasks that wait where a change takes a node away: no ring is too full for them.
    pub(crate) fn pass_on(
        &mut self,
        program: &Program,
        entry: Entry,
        priority: Priority,
        task: Task,
        full: Counter,
    ) {
        let home = program.home(entry).filter(|home| !self.is_home(Some(*home)));
        match (home, &mut self.peers) {
            (Some(home), Some(peers)) => {
                let idp = program.entries[entry.index()].idp;
                let at = Place { entry, idp, epoch: self.epoch };
                peers.start_late(home, at, priority, task);
            }
            _ => self.enqueue(program, entry, priority, task, full),
        }
    }
}
