//! One application's requests, whichever way they come.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use weever_app_ring::control::{Refusal, Request, Response, Share};
use weever_app_ring::{Geometry, VERSION};
use weever_net::demux::{BindError, Family, Sharing};

use crate::request::ServerError;
use crate::request::{Identity, QueueId, SocketRequest};
use crate::server::{AppServer, OpenedQueue};

/// Bytes of the longest name of an application.
const MAX_NAME: usize = 64;
/// The most connections that wait to be accepted by one listener.
const MAX_BACKLOG: u32 = 65_535;

/// An application with its queue, once it has asked for one.
pub struct Session {
    identity: Identity,
    /// The number of its queue, or its number as a holder.
    queue: Option<QueueId>,
    /// The connection holds streams instead of having a queue.
    holds: bool,
}

/// An answer, with its descriptors.
pub type Answer = (Response, Vec<OwnedFd>);

pub(crate) fn refused(kind: Refusal, message: String) -> Answer {
    (Response::Refused { kind, message }, Vec::new())
}

fn refused_by(error: &ServerError) -> Answer {
    refused(refusal(error), error.to_string())
}

impl Session {
    /// A session of this application, without a queue.
    pub fn new(identity: Identity) -> Session {
        Session { identity, queue: None, holds: false }
    }

    /// Closes its queue and all sockets on it, if it has one.
    pub fn close(&mut self, server: &mut AppServer) {
        let Some(queue) = self.queue.take() else { return };
        if self.holds {
            server.let_go(queue, None);
            server.wake();
            return;
        }
        // It is there: nobody else closes queues.
        let _ = server.close_queue(queue);
        server.wake();
        let Identity { name, pid, .. } = &self.identity;
        tracing::info!(queue, name, pid, "application queue closed");
    }

    /// Carries out a request. It is in effect once [`AppServer::settle`] returns: give the answer after
    /// that.
    pub fn answer(&mut self, server: &mut AppServer, request: Request) -> Answer {
        let done = match (request, self.queue) {
            (Request::OpenQueue { version, name, ring_len, frames, frame_size, slot }, None) => {
                let geometry = Geometry { ring_len, frames, frame_size };
                if let Some(holder) = server.owner_of(&name).filter(|_| slot) {
                    let message =
                        format!("slot {name:?} is occupied by a queue of process {}", holder.pid);
                    return refused(Refusal::InUse, message);
                }
                return self.open_queue(server, version, &name, geometry);
            }
            (Request::Hold { holder, key, stream, listeners }, None) => {
                let owner = self.identity.clone();
                let held = match listeners {
                    true => server.hold_listeners(holder, key, owner),
                    false => server.hold(holder, key, stream, owner),
                };
                held.map(|(holder, key)| {
                    (self.queue, self.holds) = (Some(holder), true);
                    Response::Held { holder, key }
                })
            }
            (Request::OpenQueue { .. } | Request::Hold { .. }, Some(_)) => {
                let message = "the connection has a queue; open another connection for another";
                return refused(Refusal::Protocol, message.into());
            }
            // Over a socket of the kernel's, the listener answers them.
            (Request::Credential | Request::Present { .. }, _) => {
                let message = "this stack gives no credentials";
                return refused(Refusal::Unsupported, message.into());
            }
            (_, None) => return refused(Refusal::Protocol, "open a queue first".into()),
            (request, Some(_)) if self.holds && !is_for_holders(&request) => {
                let message =
                    "the connection holds streams or listeners; open another one for a queue";
                return refused(Refusal::Protocol, message.into());
            }
            (Request::Serve { socket, serves }, Some(queue)) => {
                server.serve(queue, socket, serves).map(|()| Response::Done)
            }
            (Request::Claim { stream, queue, key }, Some(holder)) => {
                claim(server, (holder, stream), queue, key)
            }
            (Request::Release { stream }, Some(holder)) => {
                server.let_go(holder, Some(stream));
                Ok(Response::Done)
            }
            (
                Request::BindUdp { local, peer, v6_only, sharing, interface, in_kernel },
                Some(queue),
            ) => {
                let request = socket_request(local, peer, v6_only, sharing);
                let request = SocketRequest { interface, in_kernel, ..request };
                let opened = server.open_socket(queue, &request);
                opened.map(|o| Response::Socket { socket: o.id, local_port: o.local_port })
            }
            (
                Request::Listen { local, v6_only, sharing, backlog, accepts_each, in_kernel },
                Some(queue),
            ) => {
                let request = socket_request(local, None, v6_only, sharing);
                let backlog = Some(backlog.clamp(1, MAX_BACKLOG));
                let request = SocketRequest { backlog, accepts_each, in_kernel, ..request };
                let opened = server.open_socket(queue, &request);
                opened.map(|o| Response::Socket { socket: o.id, local_port: o.local_port })
            }
            (Request::TakePort { port, in_kernel }, Some(queue)) => {
                server.take_port(queue, port, in_kernel).map(|()| Response::Done)
            }
            (Request::Join { socket, group, interface }, Some(queue)) => {
                server.join(queue, socket, group, interface.as_deref()).map(|()| Response::Done)
            }
            (Request::Leave { socket, group, interface }, Some(queue)) => {
                server.leave(queue, socket, group, interface.as_deref()).map(|()| Response::Done)
            }
            (Request::Route { address }, Some(_)) => Ok(server.route(address)),
            (Request::RegisterFlow { socket, peer, rate }, Some(queue)) => {
                server.register_flow(queue, socket, peer, rate).map(|()| Response::Done)
            }
            (Request::UnregisterFlow { socket, peer }, Some(queue)) => {
                server.unregister_flow(queue, socket, peer).map(|()| Response::Done)
            }
            (Request::Plan, Some(queue)) => server.request_plan(queue, Instant::now()).map(planned),
            (Request::Close { socket }, Some(holder)) if self.holds => {
                server.close_held(holder, socket).map(|()| Response::Done)
            }
            (Request::Close { socket }, Some(queue)) => {
                server.close_socket(queue, socket).map(|()| Response::Done)
            }
        };
        done.map_or_else(|error| refused_by(&error), |response| (response, Vec::new()))
    }

    fn open_queue(
        &mut self,
        server: &mut AppServer,
        version: u32,
        name: &str,
        geometry: Geometry,
    ) -> Answer {
        if version != VERSION {
            let message = format!(
                "the application's library speaks version {version} of the ring protocol, this \
                 stack version {VERSION}; use the library that came with this weever"
            );
            return refused(Refusal::Protocol, message);
        }
        let printable = name.chars().filter(|c| !c.is_control());
        self.identity.name = printable.take(MAX_NAME).collect();
        let opened = match server.open_queue(self.identity.clone(), geometry) {
            Ok(opened) => opened,
            Err(error) => return refused_by(&error),
        };
        let OpenedQueue { id, key, channels, trusted, wake, worker_wakes } = opened;
        self.queue = Some(id);
        let Identity { name, pid, .. } = &self.identity;
        tracing::info!(queue = id, name, pid, "application queue opened");
        let shares_ports = server.shares_ports();
        let count = channels.len() as u32;
        let mut descriptors = vec![wake];
        let mut memories = trusted.into_iter().peekable();
        let mut trusted = Vec::new();
        for (number, (channel, wake)) in (0..).zip(channels.into_iter().zip(worker_wakes)) {
            descriptors.extend([channel, wake]);
            if let Some((number, memory)) = memories.next_if(|(of, _)| *of == number) {
                descriptors.push(memory);
                trusted.push(number);
            }
        }
        (Response::Queue { queue: id, channels: count, key, shares_ports, trusted }, descriptors)
    }
}

fn planned(wait: Option<Duration>) -> Response {
    // Rounded up: an application that waits as long has its token.
    let too_soon =
        |wait: Duration| Response::TooSoon { wait_ms: wait.as_nanos().div_ceil(1_000_000) as u64 };
    wait.map_or(Response::Done, too_soon)
}

fn socket_request(
    local: SocketAddr,
    peer: Option<SocketAddr>,
    v6_only: bool,
    sharing: Share,
) -> SocketRequest {
    let specified = (!local.ip().is_unspecified()).then(|| local.ip());
    let family = match local {
        SocketAddr::V4(_) => Family::V4,
        SocketAddr::V6(_) if v6_only => Family::V6,
        SocketAddr::V6(_) => Family::Both,
    };
    let sharing = match sharing {
        Share::Exclusive => Sharing::Exclusive,
        Share::Latest => Sharing::Latest,
        Share::ByFlow => Sharing::ByFlow,
        Share::ByWorker => Sharing::ByWorker,
    };
    SocketRequest {
        local_addr: specified,
        local_port: (local.port() != 0).then_some(local.port()),
        family,
        peer,
        interface: None,
        sharing,
        backlog: None,
        in_kernel: false,
        accepts_each: false,
    }
}

/// Whether a connection that holds streams or listeners may ask for it.
fn is_for_holders(request: &Request) -> bool {
    matches!(request, Request::Claim { .. } | Request::Release { .. } | Request::Close { .. })
}

/// Takes a stream to a queue. Waits until the workers have done it.
fn claim(
    server: &mut AppServer,
    stream: (u32, u32),
    queue: QueueId,
    key: u64,
) -> Result<Response, ServerError> {
    let claimed = server.claim(stream, queue, key)?;
    server.settle()?;
    let claimed = claimed.try_recv().map_err(|_| ServerError::NoStream(stream.1))?;
    let (local, remote) = claimed.ends;
    Ok(Response::Claimed { stream: claimed.stream, channel: claimed.worker, local, remote })
}

fn refusal(error: &ServerError) -> Refusal {
    match error {
        ServerError::Bind(BindError::InUse { .. }) | ServerError::Kernel { .. } => Refusal::InUse,
        ServerError::Bind(_) | ServerError::NotOurs(_) | ServerError::Interface(_) => {
            Refusal::NotAvailable
        }
        ServerError::Privileged { .. } => Refusal::Permission,
        ServerError::Ports(_)
        | ServerError::Sockets(_)
        | ServerError::Memory { .. }
        | ServerError::Flows(_) => Refusal::Limit,
        ServerError::NoPolicy | ServerError::NoTokens(_) => Refusal::Unsupported,
        ServerError::Stuck(_) | ServerError::System { .. } => Refusal::Internal,
        _ => Refusal::Invalid,
    }
}
