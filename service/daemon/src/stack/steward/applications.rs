//! Applications' sockets as flows of the policy: a policy gives an application queues, and its sockets say which
//! packets are the application's.

use std::sync::{Arc, Mutex, PoisonError};

use weever_app_server::{AppServer, SocketStatus};
use weever_policy::flows::{self, FlowSpec};
use weever_steward::Origin;

/// The most sockets that are flows of their own. Packets of further ones are sorted as other traffic is, which
/// is no error: any worker delivers to any socket.
const MOST: usize = 4096;

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

    /// The flows of sockets that anybody may send to. A connected socket's five-tuple is found by its traffic.
    pub(super) fn flows(&self) -> Vec<(Origin, FlowSpec)> {
        let all = |server: &AppServer| -> Vec<_> {
            let open = server.sockets().filter(|socket| socket.peer.is_none());
            open.filter_map(|socket| flow(&socket)).take(MOST).collect()
        };
        self.with(all).unwrap_or_default()
    }

    fn with<T>(&self, ask: impl FnOnce(&AppServer) -> T) -> Option<T> {
        let server = self.0.as_ref()?;
        Some(ask(&server.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Everything to the socket's port, and to its address if it has one.
fn flow(socket: &SocketStatus) -> Option<(Origin, FlowSpec)> {
    let protocol = if socket.listens { "tcp" } else { "udp" };
    let port = socket.binding.local_port?;
    let mut packets = format!("{protocol} dst port {port}");
    if let Some(address) = socket.binding.local_addr {
        packets.push_str(&format!(" and dst host {address}"));
    }
    let mut spec = flows::parse(packets.as_bytes()).flows.pop()?;
    spec.name = format!("{}: {packets}", socket.owner.name);
    spec.app = Some(socket.owner.name.clone());
    Some((Origin::Application(socket.id), spec))
}
