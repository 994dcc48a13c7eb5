//! Flows that applications register with a policy, and how often each may ask for a plan.
//!
//! An application knows before its packets come how fast a flow will be: it registers all packets to one of its
//! sockets, or those of one peer, with a rate. Registering is cheap and changes nothing by itself; the steward
//! reads the registered flows whenever it plans. A search takes time, so an application that asks for one spends
//! a token, of which it gets a few, and one more from time to time (Dragonet's queue management, §3.2.5). An
//! application without a token learns when it will have one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::request::{QueueId, RegisteredFlow, ServerError};

/// The most flows that one application queue registers.
pub(crate) const MAX_FLOWS: usize = 4096;

/// How often an application may ask for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanTokens {
    /// The tokens that it begins with, and the most that it saves up.
    pub tokens: u32,
    /// The time in which it gets another.
    pub refill: Duration,
}

/// The tokens of applications: each application that the policy names has its own, all others of
/// one user share theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// By the name that the application gave its queue.
    pub named: BTreeMap<String, PlanTokens>,
    /// The limits of every user for all other applications together, since a process may open
    /// queues with many names.
    pub others: PlanTokens,
}

/// How often applications have asked for plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanRequests {
    /// Plans that are to be made.
    pub granted: u64,
    /// Requests that came too soon.
    pub refused: u64,
}

/// The owner of tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Account {
    Named(String),
    User(u32),
}

/// Registered flows and spent tokens.
#[derive(Default)]
pub(crate) struct Flows {
    /// By socket, then by peer.
    by_socket: BTreeMap<u32, BTreeMap<Option<SocketAddr>, RegisteredFlow>>,
    of_queue: BTreeMap<QueueId, usize>,
    last_number: u32,
    /// `None`: the stack has no policy.
    pub(crate) limits: Option<PlanLimits>,
    /// When each account will have all of its tokens again.
    full_at: BTreeMap<Account, Instant>,
    pub(crate) requests: PlanRequests,
}

impl Flows {
    /// Registers a flow of a socket on this queue, or changes its rate.
    ///
    /// # Errors
    /// [`ServerError::Flows`].
    pub(crate) fn register(
        &mut self,
        queue: QueueId,
        socket: u32,
        peer: Option<SocketAddr>,
        rate: Option<u64>,
    ) -> Result<(), ServerError> {
        let of_queue = self.of_queue.entry(queue).or_default();
        let flows = self.by_socket.entry(socket).or_default();
        if let Some(known) = flows.get_mut(&peer) {
            known.rate = rate;
            return Ok(());
        }
        if *of_queue >= MAX_FLOWS {
            return Err(ServerError::Flows(MAX_FLOWS));
        }
        *of_queue += 1;
        self.last_number = self.last_number.wrapping_add(1);
        flows.insert(peer, RegisteredFlow { number: self.last_number, peer, rate });
        Ok(())
    }

    /// Removes the registration of a flow; false if there is none.
    pub(crate) fn unregister(
        &mut self,
        queue: QueueId,
        socket: u32,
        peer: Option<SocketAddr>,
    ) -> bool {
        let flows = self.by_socket.get_mut(&socket);
        let found = flows.is_some_and(|flows| flows.remove(&peer).is_some());
        if found && let Some(count) = self.of_queue.get_mut(&queue) {
            *count -= 1;
        }
        found
    }

    /// The flows of a socket.
    pub(crate) fn of(&self, socket: u32) -> impl Iterator<Item = &RegisteredFlow> {
        self.by_socket.get(&socket).into_iter().flat_map(BTreeMap::values)
    }

    /// Removes the flows of a socket that is closed.
    pub(crate) fn forget(&mut self, queue: QueueId, socket: u32) {
        let gone = self.by_socket.remove(&socket).map_or(0, |flows| flows.len());
        if let Some(count) = self.of_queue.get_mut(&queue) {
            *count -= gone;
        }
    }

    /// Removes the flows of a queue that is closed, with all its sockets.
    pub(crate) fn forget_queue(&mut self, queue: QueueId) {
        self.of_queue.remove(&queue);
    }

    /// Spends a token, or says how long it is until there is one.
    ///
    /// # Errors
    /// [`ServerError::NoPolicy`], [`ServerError::NoTokens`].
    pub(crate) fn spend(
        &mut self,
        name: &str,
        user: u32,
        now: Instant,
    ) -> Result<Option<Duration>, ServerError> {
        let limits = self.limits.as_ref().ok_or(ServerError::NoPolicy)?;
        let (account, limit) = match limits.named.get(name) {
            Some(limit) => (Account::Named(name.to_owned()), *limit),
            None => (Account::User(user), limits.others),
        };
        if limit.tokens == 0 {
            return Err(ServerError::NoTokens(name.to_owned()));
        }
        // An account that is full again needs no entry.
        self.full_at.retain(|_, full_at| *full_at > now);
        let full_at = self.full_at.get(&account).copied().unwrap_or(now) + limit.refill;
        let wait = full_at.saturating_duration_since(now + limit.refill * limit.tokens);
        if wait.is_zero() {
            self.full_at.insert(account, full_at);
            self.requests.granted += 1;
            return Ok(None);
        }
        self.requests.refused += 1;
        Ok(Some(wait))
    }
}
