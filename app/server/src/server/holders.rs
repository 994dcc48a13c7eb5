//! Streams and listeners that other processes hold.

use std::sync::mpsc::{Receiver, channel};

use weever_net::demux::{Binding, Holder};

use super::{AppServer, Socket, new_key};
use crate::holders::{Claimed, HeldListener, HolderEntry, LastingListener};
use crate::request::{Identity, QueueId, ServerError, TransportPort};
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

    /// A new holder, this application's, of the streams that a queue or another holder has, or of the one with this
    /// number, and its key. It is in effect once [`settle`](Self::settle) returns.
    ///
    /// # Errors
    /// [`ServerError::NoHolder`] when there is none with this number and key, [`ServerError::Stuck`].
    pub(crate) fn hold(
        &mut self,
        from: u32,
        key: u64,
        only: Option<u32>,
        owner: Identity,
    ) -> Result<(u32, u64), ServerError> {
        let (to, own) = self.add_holder(from, key, owner)?;
        self.tell_all(|| Command::Share { from, to, only })?;
        Ok((to, own))
    }

    fn add_holder(
        &mut self,
        from: u32,
        key: u64,
        owner: Identity,
    ) -> Result<(u32, u64), ServerError> {
        let known = self.queues.get(&from).map(|queue| queue.key);
        if known.or(self.holders.get(&from).map(|holder| holder.key)) != Some(key) {
            return Err(ServerError::NoHolder(from));
        }
        let (to, own) = (self.next_queue, new_key());
        self.next_queue += 1;
        self.holders.insert(to, HolderEntry { key: own, owner, listeners: Vec::new() });
        Ok((to, own))
    }

    /// A new holder, this application's, of the listeners that a queue or another holder has, and its key: while no
    /// process serves them, connections wait. It is in effect once [`settle`](Self::settle) returns.
    ///
    /// # Errors
    /// As [`hold`](Self::hold), and those of [`open_socket`](Self::open_socket); nothing is left behind.
    pub(crate) fn hold_listeners(
        &mut self,
        from: u32,
        key: u64,
        owner: Identity,
    ) -> Result<(u32, u64), ServerError> {
        let (to, own) = self.add_holder(from, key, owner)?;
        let own_listener = |socket: &u32| HeldListener { number: *socket, socket: *socket };
        let all: Vec<HeldListener> = match self.queues.get(&from) {
            Some(queue) => queue.sockets.iter().map(own_listener).collect(),
            None => self.holders.get(&from).map_or(Vec::new(), |held| held.listeners.clone()),
        };
        for HeldListener { number, socket } in all {
            let Some(there) = self.sockets.get(&socket) else { continue };
            let Some(listener) = there.lasting else { continue };
            if let Err(error) = self.keep_listener((to, number), there.binding, listener) {
                self.let_go(to, None);
                return Err(error);
            }
        }
        Ok((to, own))
    }

    /// Stops holding a listener, by its number at the queue that opened it.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`].
    pub(crate) fn close_held(&mut self, holder: u32, number: u32) -> Result<(), ServerError> {
        let listeners = self.holders.get_mut(&holder).map(|held| &mut held.listeners);
        let listeners = listeners.ok_or(ServerError::NoSocket(number))?;
        let at = listeners.iter().position(|there| there.number == number);
        let held = listeners.swap_remove(at.ok_or(ServerError::NoSocket(number))?);
        self.forget(held.socket);
        Ok(())
    }

    /// Opens a listener for a holder, which serves nobody, under this number.
    fn keep_listener(
        &mut self,
        (holder, number): (u32, u32),
        binding: Binding,
        listener: LastingListener,
    ) -> Result<(), ServerError> {
        if self.entries >= self.max_sockets {
            return Err(ServerError::Sockets(self.max_sockets));
        }
        let LastingListener { backlog, sharing, user, own } = listener;
        let socket = self.next_id();
        self.listeners.bind(binding, sharing, Holder { socket, owner: holder.into(), user })?;
        let port = binding.local_port.map(|port| TransportPort { stream: true, port });
        if let Some((ports, port)) = self.ports.as_mut().zip(port)
            && let Err(error) = ports.reserve(port, own)
        {
            self.listeners.release(&binding, socket);
            return Err(error);
        }
        let (lasting, stats) = (Some(listener), Box::default());
        let there = Socket { queue: holder, binding, listens: true, lasting, groups: None, stats };
        self.sockets.insert(socket, there);
        self.entries += 1;
        self.changes += 1;
        if let Some(held) = self.holders.get_mut(&holder) {
            held.listeners.push(HeldListener { number, socket });
        }
        let (queue, accepts_each, serves) = (holder, true, false);
        self.tell_all(|| Command::AddListener {
            socket,
            queue,
            binding,
            backlog,
            accepts_each,
            serves,
        })
    }

    /// Ends the hold of a holder on all that it has, or on the stream with this number. Streams without a queue and
    /// without holders are closed.
    pub(crate) fn let_go(&mut self, holder: u32, only: Option<u32>) {
        if only.is_none()
            && let Some(held) = self.holders.remove(&holder)
        {
            held.listeners.into_iter().for_each(|held| self.forget(held.socket));
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
