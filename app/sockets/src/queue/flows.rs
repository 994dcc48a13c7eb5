//! Flows that are registered with the stack's policy, and requests for a plan.

use std::net::SocketAddr;
use std::time::Duration;

use weever_app_ring::SocketId;
use weever_app_ring::control::{Refusal, Request, Response};

use super::AppQueue;
use crate::error::{Error, accepted};
use crate::events::Handle;
use crate::opening::UNDER_WAY;

/// Packets that an application expects: all packets to one of its sockets or listeners, or those of one peer.
/// [`AppQueue::register_flow`] registers them with the stack's policy.
///
/// ```
/// # use weever_app_sockets::{Flow, UdpSocket};
/// # fn flows(socket: UdpSocket) -> Result<[Flow; 2], std::net::AddrParseError> {
/// let everything = Flow::to(socket).rate(50_000);
/// let one_client = Flow::to(socket).peer("192.0.2.7:0".parse()?).rate(20_000);
/// # Ok([everything, one_client])
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Flow {
    socket: Handle,
    peer: Option<SocketAddr>,
    rate: Option<u64>,
}

impl Flow {
    /// Everything to a socket or a listener of this queue.
    pub fn to(socket: impl Into<Handle>) -> Flow {
        Flow { socket: socket.into(), peer: None, rate: None }
    }

    /// Only packets from this peer, from one port, or with port 0 from any of its ports.
    pub fn peer(self, peer: SocketAddr) -> Flow {
        Flow { peer: Some(peer), ..self }
    }

    /// Sets the rate in packets per second. Without it, the policy assumes a rate.
    pub fn rate(self, rate: u64) -> Flow {
        Flow { rate: Some(rate), ..self }
    }
}

impl AppQueue {
    /// Registers a flow, or changes its rate. The policy knows it from the next plan on, which is made when
    /// sockets or traffic come and go, or on [request](Self::request_plan), and until its socket is closed. After
    /// [`reconnect`](Self::reconnect) it has to be registered again. Without a policy it changes nothing. Blocks
    /// until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::Disconnected`]; [`Error::Refused`] for a peer from which the socket receives
    /// nothing, for a connection (register its listener, and the peer), and for more than 4,096 flows of a queue.
    pub fn register_flow(&self, flow: Flow) -> Result<(), Error> {
        self.register_flows(&[flow])
    }

    /// Registers many flows, without waiting for each answer. All are tried; those that can be registered are.
    ///
    /// # Errors
    /// As [`register_flow`](Self::register_flow), the first one.
    pub fn register_flows(&self, flows: &[Flow]) -> Result<(), Error> {
        self.finish_openings()?;
        let mut result = Ok(());
        for some in flows.chunks(UNDER_WAY) {
            let numbered = some.iter().map(|flow| Ok((self.number_of(flow.socket)?, flow)));
            let known: Vec<_> = numbered
                .filter_map(|found| found.map_err(|error| note(&mut result, error)).ok())
                .collect();
            let mut backend = self.backend.borrow_mut();
            for (socket, Flow { peer, rate, .. }) in &known {
                let (socket, peer, rate) = (*socket, *peer, *rate);
                backend.send(&Request::RegisterFlow { socket, peer, rate })?;
            }
            for _ in &known {
                let (answer, _) = backend.receive(true)?.ok_or(Error::Disconnected)?;
                if let Err(error) = accepted(answer) {
                    note(&mut result, error);
                }
            }
        }
        result
    }

    /// Takes back the registration of a flow, whatever its rate. Blocks until the stack has answered.
    ///
    /// # Errors
    /// As [`register_flow`](Self::register_flow); [`Error::Refused`] when it was not registered.
    pub fn unregister_flow(&self, flow: Flow) -> Result<(), Error> {
        let (socket, peer) = (self.number_of(flow.socket)?, flow.peer);
        self.ask(&Request::UnregisterFlow { socket, peer }).map(drop)
    }

    /// Asks for a plan with all flows that are registered now: within some tens of milliseconds the stack
    /// searches for queues for all flows anew. Each request takes one of the few tokens that the policy gives an
    /// application. Blocks until the stack has answered, which does not wait for the plan.
    ///
    /// # Errors
    /// [`Error::TooSoon`] with the time after which there is a token again, [`Error::Disconnected`];
    /// [`Error::Refused`] by a stack without a policy, or when the policy gives the application no tokens.
    pub fn request_plan(&self) -> Result<(), Error> {
        match self.ask(&Request::Plan)? {
            Response::TooSoon { wait_ms } => {
                Err(Error::TooSoon { wait: Duration::from_millis(wait_ms) })
            }
            _ => Ok(()),
        }
    }

    fn number_of(&self, socket: Handle) -> Result<SocketId, Error> {
        match socket {
            Handle::Udp(socket) => self.number(socket),
            Handle::Listener(listener) => self.streams.borrow().listener(listener),
            Handle::Stream(_) => {
                let message =
                    "a connection cannot be registered; register its listener, with the peer";
                Err(Error::Refused { kind: Refusal::Invalid, message: message.into() })
            }
        }
    }
}

/// Keeps the first failure.
fn note(result: &mut Result<(), Error>, error: Error) {
    if result.is_ok() {
        *result = Err(error);
    }
}
