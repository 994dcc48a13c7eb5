//! What becomes of a batch, and what goes on in its burst.

use weever_block::Priority;
use weever_packet::{Burst, Mask};

use super::runtime::Runtime;
use super::task_queues::{Batch, Task};
use crate::schedule::{Entry, Program};
use crate::slots::Counter;

/// What has become of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course {
    /// Its tasks have ended together, and are counted. What was asked for them is to be carried out.
    Together,
    /// That is done too.
    Settled,
    /// The same, and its tasks go on in the burst, from this entry on.
    GoesOn(Entry),
    /// Its tasks have not ended: the masks and the steps that are due say where they are.
    Apart,
}

/// A new HIGH task.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) entry: Entry,
    pub(crate) task: Task,
    /// Counts it if its queue is full.
    pub(crate) full: Counter,
}

impl Fresh {
    /// Puts it into the burst, which is empty.
    pub(super) fn begin(self, burst: &mut Burst) -> Batch {
        let occupied = Mask::from(self.task.is_some());
        if let Some(packet) = self.task {
            burst.put(0, packet);
        }
        Batch { entry: self.entry, tasks: 1, occupied }
    }

    /// Queues it.
    pub(super) fn queue(self, program: &Program, runtime: &mut Runtime) {
        runtime.enqueue(program, self.entry, Priority::High, self.task, self.full);
    }
}
