//! TCP connections as `weever sockets` lists them: each worker's transport answers for its own.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use weever_net::stream::StreamStatus;

use crate::request::ConnectionStatus;
use crate::server::AppServer;
use crate::worker::Command;

/// How long a worker has to answer.
const PATIENCE: Duration = Duration::from_secs(1);

impl AppServer {
    /// The TCP connections of all workers, at most `most`, and how many there are. Blocks until each worker has
    /// answered, a second at the most: the connections of one that does not are left out.
    pub fn connections(&mut self, most: usize) -> (Vec<ConnectionStatus>, usize) {
        let workers = self.worker_count();
        let asked: Vec<_> = (0..workers)
            .map(|worker| {
                let (to, answer) = mpsc::channel();
                // A worker that takes no commands gives no answer.
                let _ = self.tell(worker, Command::Report { most, to });
                answer
            })
            .collect();
        self.wake();
        let (mut all, mut total) = (Vec::new(), 0);
        let until = Instant::now() + PATIENCE;
        for (worker, answer) in asked.into_iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(connections) = answer.recv_timeout(left) else { continue };
            total += connections.total;
            let room = most - all.len();
            all.extend(connections.all.into_iter().take(room).map(|(queue, status)| {
                let StreamStatus { local, remote, info, .. } = status;
                let owner = queue.and_then(|queue| Some((queue, self.owner(queue)?.clone())));
                ConnectionStatus { worker, owner, local, remote, info }
            }));
        }
        (all, total)
    }
}
