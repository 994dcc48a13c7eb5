//! Streams that other processes hold, and may claim.

use std::sync::mpsc::{Receiver, channel};

use super::{AppServer, new_key};
use crate::holders::Claimed;
use crate::request::{QueueId, ServerError};
use crate::worker::Command;

impl AppServer {
    /// Sets whether a listener gets connections; while no listener with its binding does,
    /// connections wait.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`], [`ServerError::Stuck`].
    pub(crate) fn serve(
        &mut self,
        queue: QueueId,
        socket: u32,
        serves: bool,
    ) -> Result<(), ServerError> {
        self.own_socket(queue, socket)?;
        self.tell_all(|| Command::Serve { socket, serves })
    }

    /// A new holder of the streams that a queue or another holder has, or of the one with this number, and its key. It
    /// is in effect once [`settle`](Self::settle) returns.
    ///
    /// # Errors
    /// [`ServerError::NoHolder`] when there is none with this number and key, [`ServerError::Stuck`].
    pub(crate) fn hold(
        &mut self,
        from: u32,
        key: u64,
        only: Option<u32>,
    ) -> Result<(u32, u64), ServerError> {
        let known = self.queues.get(&from).map(|queue| queue.key);
        if known.or(self.holders.get(&from).copied()) != Some(key) {
            return Err(ServerError::NoHolder(from));
        }
        let (to, own) = (self.next_queue, new_key());
        self.next_queue += 1;
        self.holders.insert(to, own);
        self.tell_all(|| Command::Share { from, to, only })?;
        Ok((to, own))
    }

    /// Ends the hold of a holder on its streams, or on the one with this number. Streams without a queue and without
    /// holders are closed.
    pub(crate) fn let_go(&mut self, holder: u32, only: Option<u32>) {
        if only.is_none() {
            self.holders.remove(&holder);
        }
        // A worker that is gone has no streams any more.
        let _ = self.tell_all(|| Command::Release { holder, only });
    }

    /// Takes a stream of a holder, by its number there, to a queue with this key. The answer comes once
    /// [`settle`](Self::settle) has returned, if a worker has such a stream.
    ///
    /// # Errors
    /// [`ServerError::NoHolder`], [`ServerError::Stuck`].
    pub(crate) fn claim(
        &mut self,
        stream: (u32, u32),
        queue: QueueId,
        key: u64,
    ) -> Result<Receiver<Claimed>, ServerError> {
        if self.queues.get(&queue).is_none_or(|queue| queue.key != key) {
            return Err(ServerError::NoHolder(queue));
        }
        let (to, claimed) = channel();
        self.tell_all(|| Command::Claim { stream, queue, to: to.clone() })?;
        Ok(claimed)
    }
}
