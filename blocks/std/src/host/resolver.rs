//! Neighbours that another stack resolves: those of interfaces with borrowed addresses.

use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;

use weever_net::iface::IfaceId;

type Ask = Box<dyn Fn(IfaceId, IpAddr) + Send + Sync>;

/// Resolves the neighbours of [borrowed](weever_net::iface::Interface::borrowed) interfaces, through the
/// kernel. The answer comes by [`Neighbours::adopt`](super::Neighbours::adopt) or its sister for
/// IPv6; without one, the neighbour counts as absent after a while. Blocks find it in their
/// [`Env`](weever_block::Env).
#[derive(Default)]
pub struct Resolver(OnceLock<Ask>);

impl Resolver {
    /// Has `ask` called for each neighbour that a packet waits for, again while it is not found,
    /// and from time to time while it is used. It is called by workers, under a lock: it must return
    /// soon, and not use the neighbours. False if there is one already.
    pub fn ask_by(&self, ask: impl Fn(IfaceId, IpAddr) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(ask)).is_ok()
    }

    pub(super) fn ask(&self, iface: u16, ip: IpAddr) {
        if let Some(ask) = self.0.get() {
            ask(IfaceId(iface), ip);
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.0.get().is_some() { "set" } else { "unset" };
        write!(f, "Resolver({state})")
    }
}
