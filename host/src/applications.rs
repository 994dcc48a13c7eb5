//! The host's network, as applications' sockets depend on it.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weever_app_server::HostNetwork;
use weever_blocks_std::host::Network;
use weever_net::iface::IfaceId;
use weever_net::route::Kind;
use weever_net::state::{Family, NetConfig, NetState, StateError};

/// The network, once the host is assembled.
pub(crate) type LaterNetwork = Arc<OnceLock<Arc<Network>>>;

/// The host as the server of applications sees it.
pub(crate) struct Surroundings {
    network: LaterNetwork,
    /// Groups joined here, and by nobody before.
    joined: Mutex<HashSet<(u16, IpAddr)>>,
}

impl Surroundings {
    pub(crate) fn of(network: LaterNetwork) -> Surroundings {
        Surroundings { network, joined: Mutex::default() }
    }

    fn state(&self) -> Option<Arc<NetState>> {
        Some(self.network.get()?.state())
    }
}

impl HostNetwork for Surroundings {
    fn interface(&self, name: &str) -> Option<u16> {
        Some(self.state()?.config().interface_named(name)?.id.0)
    }

    fn interface_name(&self, interface: u16) -> Option<String> {
        Some(self.state()?.interface(IfaceId(interface))?.name.clone())
    }

    fn interface_to(&self, address: IpAddr) -> Option<u16> {
        let state = self.state()?;
        match address {
            IpAddr::V4(address) => state.route4(address).map(|hop| hop.iface.0),
            IpAddr::V6(address) if !address.is_multicast() => {
                state.route6(address).map(|hop| hop.iface.0)
            }
            // RFC 4007 §6: a group has no route, only zones; a default zone is the host's choice.
            IpAddr::V6(_) => {
                let all = state.config().interfaces();
                all.iter().find(|iface| iface.up && iface.v6_settings.enabled).map(|i| i.id.0)
            }
        }
    }

    fn source_to(&self, address: IpAddr) -> Option<IpAddr> {
        let state = self.state()?;
        match address {
            IpAddr::V4(address) => {
                let hop = state.route4(address)?;
                let chosen = Some(hop.source).filter(|source| !source.is_unspecified());
                chosen.or_else(|| state.source4(hop.iface, address)).map(IpAddr::V4)
            }
            IpAddr::V6(address) => {
                let iface = IfaceId(self.interface_to(address.into())?);
                state.source6(iface, address).map(IpAddr::V6)
            }
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        let Some(state) = self.state() else { return false };
        match address {
            IpAddr::V4(v4) => state
                .route4(v4)
                .is_some_and(|hop| matches!(hop.kind, Kind::Local | Kind::Broadcast)),
            IpAddr::V6(v6) => {
                state.config().interfaces().iter().any(|iface| state.is_ours6(iface.id, v6))
            }
        }
    }

    fn set_member(&self, interface: u16, group: IpAddr, member: bool) -> Result<(), String> {
        let network = self.network.get().ok_or("the host has not started")?;
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let id = IfaceId(interface);
        if !member {
            // Groups that the operator had joined before are not ours to leave.
            if joined.remove(&(interface, group)) {
                network.update(|net| leave(net, id, group)).map_err(|e| e.to_string())?;
            }
            return Ok(());
        }
        if network.state().interface(id).is_some_and(|iface| iface.borrowed) {
            return Err("with `share = \"ports\"` the interface's groups are the kernel's".into());
        }
        let was_there = network.update(|net| join(net, id, group)).map_err(|e| e.to_string())?;
        if !was_there {
            joined.insert((interface, group));
        }
        Ok(())
    }
}

/// Joins; says whether the interface was in the group already.
fn join(net: &mut NetConfig, id: IfaceId, group: IpAddr) -> Result<bool, StateError> {
    fn of<A: Family>(net: &mut NetConfig, id: IfaceId, group: A) -> Result<bool, StateError> {
        let there = net.interface(id);
        let was = there.is_some_and(|iface| A::groups(iface).joined.contains(&group));
        net.join(id, group).map(|()| was)
    }
    match group {
        IpAddr::V4(group) => of(net, id, group),
        IpAddr::V6(group) => of(net, id, group),
    }
}

fn leave(net: &mut NetConfig, id: IfaceId, group: IpAddr) -> Result<bool, StateError> {
    match group {
        IpAddr::V4(group) => net.leave(id, group),
        IpAddr::V6(group) => net.leave(id, group),
    }
}
