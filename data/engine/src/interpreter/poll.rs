//! Calls blocks whose deadlines have come.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_block::Cx;
use weever_packet::Nanos;

use super::Engine;
use super::batch::owners;
use super::task_queues::Batch;
use super::walk::Walk;
use crate::schedule::{Entry, NO_NODE};

/// The most blocks polled in one go, so that packets are not kept waiting.
const MAX_POLLS: usize = 64;

impl Engine {
    /// Polls blocks whose deadlines have come. Returns how many.
    pub(super) fn poll_blocks(&mut self, now: Nanos) -> usize {
        if self.runtime.deadlines.is_empty() {
            return 0;
        }
        let mut burst = self.burst.take().unwrap_or_default();
        let mut polled = 0;
        while polled < MAX_POLLS
            && let Some(node) = self.runtime.deadlines.due(now)
        {
            let batch = Batch { entry: Entry(0), tasks: 0, occupied: 0 };
            self.walker(&mut burst, batch, now).poll(node);
            polled += 1;
        }
        self.burst = Some(burst);
        polled
    }
}

impl Walk<'_> {
    fn poll(mut self, node: u32) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.call(node))) {
            self.replace_culprit(panic);
        }
    }

    fn call(&mut self, node: u32) {
        let Some(block) = &mut self.blocks[node as usize] else { return };
        self.state.running = node;
        let mut cx = Cx::new(self.now, &mut self.runtime.pool, &mut self.state.requests)
            .on_worker(self.runtime.worker)
            .with_flows(owners(self.program, node));
        block.poll(&mut cx);
        self.dispositions().end_call(node);
        self.state.running = NO_NODE;
    }
}
