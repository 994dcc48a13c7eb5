//! Who we are: configuration that does not change while a graph runs.

use weever_net::addr::Locals;
use weever_net::ipv4::Routes;
use weever_wire::MacAddr;

/// The host's identity on its link. Provide it in the
/// [`Env`](weever_blocks_api::Env) before blocks are built; a change makes a new one and a new
/// graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// Our link address.
    pub mac: MacAddr,
    /// Our IPv4 addresses with their subnets.
    pub locals: Locals,
    /// Where datagrams go.
    pub routes: Routes,
    /// Longest IP packet that we send, in bytes.
    pub mtu: u16,
    /// The VLAN we are in; `None`: untagged.
    pub vlan: Option<u16>,
}

impl HostState {
    /// A host with these addresses, routes to their subnets, an MTU of 1,500 and no VLAN.
    pub fn new(mac: MacAddr, locals: Locals) -> HostState {
        let routes = Routes::connected(&locals);
        HostState { mac, locals, routes, mtu: 1500, vlan: None }
    }
}
