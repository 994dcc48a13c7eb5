//! Requests of applications to the stack's policy: flows of their sockets, and plans.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weever_net::demux::Binding;

use crate::flows::{PlanLimits, PlanRequests};
use crate::request::{QueueId, ServerError};
use crate::server::AppServer;

impl AppServer {
    /// Lets applications ask for plans, as often as `limits` say. Before the first call there is no policy,
    /// and requests are refused.
    pub fn set_plan_limits(&mut self, limits: PlanLimits) {
        self.flows.limits = Some(limits);
    }

    /// How often applications have asked for plans so far. The steward searches when the number of
    /// granted requests has grown.
    pub fn plan_requests(&self) -> PlanRequests {
        self.flows.requests
    }

    /// Registers a flow of a socket with its rate, or changes the rate. It counts from the next plan on, and
    /// as long as the socket is open.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`], [`ServerError::FlowPeer`], [`ServerError::Flows`].
    pub(crate) fn register_flow(
        &mut self,
        queue: QueueId,
        socket: u32,
        peer: Option<SocketAddr>,
        rate: Option<u64>,
    ) -> Result<(), ServerError> {
        let binding = self.binding_of(queue, socket)?;
        let peer = the_peer(&binding, peer);
        if let Some(peer) = peer {
            let receives = match (binding.peer(), binding.local_addr) {
                (Some(_), _) => false,
                (None, Some(local)) => local.is_ipv4() == peer.is_ipv4(),
                (None, None) => true,
            };
            if !receives || peer.ip().is_unspecified() {
                return Err(ServerError::FlowPeer { socket, peer });
            }
        }
        self.flows.register(queue, socket, peer, rate)
    }

    /// Takes back the registration of a flow.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`], [`ServerError::NoFlow`].
    pub(crate) fn unregister_flow(
        &mut self,
        queue: QueueId,
        socket: u32,
        peer: Option<SocketAddr>,
    ) -> Result<(), ServerError> {
        let peer = the_peer(&self.binding_of(queue, socket)?, peer);
        let found = self.flows.unregister(queue, socket, peer);
        if found { Ok(()) } else { Err(ServerError::NoFlow(socket)) }
    }

    /// Asks for a plan on behalf of a queue's application. Returns `None`, or the time after which the
    /// application may ask.
    ///
    /// # Errors
    /// [`ServerError::NoQueue`], [`ServerError::NoPolicy`], [`ServerError::NoTokens`].
    pub(crate) fn request_plan(
        &mut self,
        queue: QueueId,
        now: Instant,
    ) -> Result<Option<Duration>, ServerError> {
        let owner = self.owner(queue).ok_or(ServerError::NoQueue(queue))?;
        let (name, user) = (owner.name.clone(), owner.uid);
        self.flows.spend(&name, user, now)
    }
}

/// All packets to a connected socket are from its peer: with or without the peer, it is the same
/// flow.
fn the_peer(binding: &Binding, peer: Option<SocketAddr>) -> Option<SocketAddr> {
    peer.filter(|peer| binding.peer() != Some(*peer))
}
