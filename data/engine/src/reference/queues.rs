//! Tasks between their runs.

use std::collections::VecDeque;

use weever_block::Priority;
use weever_graph::NodeId;
use weever_packet::{Buffer, Nanos};

type Task = (NodeId, Option<Buffer>);

struct Waiting {
    node: NodeId,
    key: u64,
    buffer: Option<Buffer>,
}

struct Later {
    due: Nanos,
    priority: Priority,
    task: Task,
}

#[derive(Default)]
pub(super) struct Queues {
    /// Woken tasks by the node they start at; the node woken first comes first.
    woken: Vec<(NodeId, VecDeque<Option<Buffer>>)>,
    high: VecDeque<Task>,
    low: VecDeque<Task>,
    waiting: Vec<Waiting>,
    later: Vec<Later>,
}

impl Queues {
    pub(super) fn enqueue(&mut self, priority: Priority, start: NodeId, buffer: Option<Buffer>) {
        match priority {
            Priority::High => self.high.push_back((start, buffer)),
            Priority::Low => self.low.push_back((start, buffer)),
        }
    }

    pub(super) fn enqueue_at(
        &mut self,
        due: Nanos,
        priority: Priority,
        start: NodeId,
        buffer: Option<Buffer>,
    ) {
        self.later.push(Later { due, priority, task: (start, buffer) });
        self.later.sort_by_key(|later| later.due);
    }

    pub(super) fn start_delayed(&mut self, now: Nanos) {
        while self.later.first().is_some_and(|later| later.due <= now) {
            let Later { priority, task, .. } = self.later.remove(0);
            self.enqueue(priority, task.0, task.1);
        }
    }

    pub(super) fn next(&mut self) -> Option<Task> {
        if let Some((start, queue)) = self.woken.first_mut() {
            let task = queue.pop_front().map(|buffer| (*start, buffer));
            if queue.is_empty() {
                self.woken.remove(0);
            }
            return task;
        }
        self.high.pop_front().or_else(|| self.low.pop_front())
    }

    pub(super) fn block(&mut self, node: NodeId, key: u64, buffer: Option<Buffer>) {
        self.waiting.push(Waiting { node, key, buffer });
    }

    pub(super) fn wake(&mut self, node: NodeId, key: Option<u64>) {
        let (awake, asleep): (Vec<_>, Vec<_>) = self
            .waiting
            .drain(..)
            .partition(|w| w.node == node && key.is_none_or(|key| w.key == key));
        self.waiting = asleep;
        for waiting in awake {
            match self.woken.iter_mut().find(|(start, _)| *start == node) {
                Some((_, queue)) => queue.push_back(waiting.buffer),
                None => self.woken.push((node, VecDeque::from([waiting.buffer]))),
            }
        }
    }

    pub(super) fn blocked(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn delayed(&self) -> usize {
        self.later.len()
    }
}
