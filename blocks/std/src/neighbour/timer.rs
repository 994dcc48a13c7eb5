//! The timer of a neighbour cache.

use std::sync::Arc;

use weever_block::{Block, Build, BuildError, Cx, Nanos};

use super::{Protocol, neighbours, send};
use crate::host::Neighbourhood;
use crate::periodic::{PeriodicTask, periodic};

pub(crate) const AGAIN: usize = 0;
/// The spawn edge of questions; that of announcements is the next.
const QUESTION: usize = 1;

/// A block that repeats questions, tells others of us, and wakes those that wait for a neighbour.
pub(crate) fn make<F: Protocol>(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    periodic(build, AGAIN, Timer { neighbours: neighbours::<F>(build)?, seen: 0, look_at: 0 })
}

struct Timer<F: Protocol> {
    neighbours: Arc<Neighbourhood<F>>,
    /// The latest news that waiting packets, on any worker, have been told.
    seen: u64,
    /// When to report the used neighbours, even if nothing else is due.
    look_at: Nanos,
}

impl<F: Protocol> PeriodicTask for Timer<F> {
    fn run_due(&mut self, cx: &mut Cx<'_>) {
        if cx.now >= self.look_at || self.neighbours.is_due(self.seen, cx.now) {
            self.look_at = cx.now + weever_net::SECOND;
            self.catch_up(cx);
        }
    }
}

impl<F: Protocol> Timer<F> {
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut session = self.neighbours.session(now);
        session.poll(now, |iface, message| {
            let kind = usize::from(F::is_announcement(&message));
            let sent = send::<F>(cx, QUESTION + kind, (iface, 0), &message);
            cx.count(kind, sent.into());
        });
        let mut woken = Vec::new();
        self.seen = session.news_since(self.seen, |key| woken.push(key));
        // Woken packets must find the new address published.
        drop(session);
        for key in woken {
            match key {
                Some(key) => cx.notify(0, key),
                None => cx.notify_all(0),
            }
        }
    }
}
