//! Applications' sockets as flows of the policy: a policy gives an application queues, and its sockets say which
//! packets are the application's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weever_app_server::{AppServer, PlanLimits, PlanTokens, RegisteredFlow, SocketStatus};
use weever_policy::flows::{self, FlowSpec};
use weever_policy::policy::{CheckedPolicy, Searches};
use weever_steward::Origin;

/// The most flows of sockets and applications. Packets of further ones are sorted as other traffic is, which
/// is no error: any worker delivers to any socket.
const MOST: usize = 4096;
const MINUTE: Duration = Duration::from_secs(60);

/// The sockets of the applications of a stack, if it serves any.
pub(super) struct ApplicationSockets(Option<Arc<Mutex<AppServer>>>);

impl ApplicationSockets {
    pub(super) fn new(server: Option<Arc<Mutex<AppServer>>>) -> ApplicationSockets {
        ApplicationSockets(server)
    }

    /// Another number whenever [`flows`](Self::flows) may have changed.
    pub(super) fn changes(&self) -> u64 {
        self.with(AppServer::changes).unwrap_or_default()
    }

    /// How many plans applications have been granted so far.
    pub(super) fn plans(&self) -> u64 {
        self.with(|server| server.plan_requests().granted).unwrap_or_default()
    }

    /// The flows of unconnected sockets and listeners, and those that applications have registered. A
    /// connected socket without a registered flow is found by its traffic.
    pub(super) fn flows(&self) -> Vec<(Origin, FlowSpec)> {
        let all = |server: &AppServer| -> Vec<_> {
            let known = server.sockets().filter(|s| s.peer.is_none() || !s.flows.is_empty());
            known.flat_map(|socket| flows(&socket)).take(MOST).collect()
        };
        self.with(all).unwrap_or_default()
    }

    fn with<T>(&self, ask: impl FnOnce(&AppServer) -> T) -> Option<T> {
        let server = self.0.as_ref()?;
        Some(ask(&server.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// How often applications may ask for a plan, as the policy says.
pub(in crate::stack) fn plan_limits(policy: &CheckedPolicy) -> PlanLimits {
    let tokens = |searches: &Searches| PlanTokens {
        tokens: searches.tokens,
        refill: MINUTE / searches.refill.max(1),
    };
    let named = policy.searches_of.iter();
    let named = named.map(|(app, searches)| (app.clone(), tokens(searches))).collect();
    PlanLimits { named, others: tokens(&policy.searches) }
}

/// The flow of all packets to the socket, with its registered rate, and its registered flows of single
/// peers.
fn flows(socket: &SocketStatus) -> Vec<(Origin, FlowSpec)> {
    let all = RegisteredFlow { number: 0, peer: None, rate: None };
    let all = socket.flows.iter().find(|flow| flow.peer.is_none()).copied().unwrap_or(all);
    let of_peers = socket.flows.iter().filter(|flow| flow.peer.is_some()).copied();
    let origin = |flow| Origin::Application { socket: socket.id, flow };
    let whole = packets(socket, socket.peer, all.rate).map(|spec| (origin(0), spec));
    let others = of_peers
        .filter_map(|flow| Some((origin(flow.number), packets(socket, flow.peer, flow.rate)?)));
    whole.into_iter().chain(others).collect()
}

/// The packets from a peer, or from anywhere, to the socket's port, and to its address if it has
/// one.
fn packets(socket: &SocketStatus, peer: Option<SocketAddr>, rate: Option<u64>) -> Option<FlowSpec> {
    let protocol = if socket.listens { "tcp" } else { "udp" };
    let port = socket.binding.local_port?;
    let mut packets = format!("{protocol} dst port {port}");
    if let Some(address) = socket.binding.local_addr {
        packets.push_str(&format!(" and dst host {address}"));
    }
    if let Some(peer) = peer {
        packets.push_str(&format!(" and src host {}", peer.ip().to_canonical()));
        if peer.port() != 0 {
            packets.push_str(&format!(" and src port {}", peer.port()));
        }
    }
    let mut spec = flows::parse(packets.as_bytes()).flows.pop()?;
    spec.name = format!("{}: {packets}", socket.owner.name);
    spec.app = Some(socket.owner.name.clone());
    spec.rate = rate;
    Some(spec)
}
