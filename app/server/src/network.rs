//! The host's network as sockets need it, and the groups that sockets have joined on it.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use weever_net::demux::Binding;

/// The host's network, as far as sockets depend on it. Interfaces are told apart by their numbers in
/// packets' metadata.
pub trait HostNetwork: Send {
    /// The interface of this name.
    fn interface(&self, name: &str) -> Option<u16>;

    /// Its name.
    fn interface_name(&self, interface: u16) -> Option<String>;

    /// The interface by which the route to an address or a group leads.
    fn interface_to(&self, address: IpAddr) -> Option<u16>;

    /// The address from which packets to an address are sent, where the sender does not choose.
    fn source_to(&self, address: IpAddr) -> Option<IpAddr>;

    /// Whether an address is one of the host's.
    fn has_address(&self, address: IpAddr) -> bool;

    /// Joins a group on an interface, or leaves it. It is joined when this returns. Memberships
    /// that others hold stay.
    ///
    /// # Errors
    /// The reason, for people.
    fn set_member(&self, interface: u16, group: IpAddr, member: bool) -> Result<(), String>;
}

/// A group on an interface.
pub(crate) type Group = (u16, IpAddr);

/// How many sockets are in each group: the host joins with the first and leaves with the last.
#[derive(Default)]
pub(crate) struct Groups {
    members: BTreeMap<Group, usize>,
}

impl Groups {
    pub(crate) fn join(&mut self, group: Group, network: &dyn HostNetwork) -> Result<(), String> {
        let members = self.members.get(&group).copied().unwrap_or(0);
        if members == 0 {
            network.set_member(group.0, group.1, true)?;
        }
        self.members.insert(group, members + 1);
        Ok(())
    }

    pub(crate) fn leave(&mut self, group: Group, network: &dyn HostNetwork) {
        let Some(members) = self.members.get_mut(&group) else { return };
        *members -= 1;
        if *members == 0 {
            self.members.remove(&group);
            // The interface is gone, and its memberships with it.
            let _ = network.set_member(group.0, group.1, false);
        }
    }
}

/// The binding that a member of a group gets beside its own; none when its own is of the group.
pub(crate) fn binding_of(own: &Binding, (interface, group): Group) -> Option<Binding> {
    let is_bound_to_it = own.local_addr == Some(group);
    (!is_bound_to_it).then_some(Binding {
        local_addr: Some(group),
        interface: Some(interface),
        ..*own
    })
}

/// The groups of one socket. Most are in none.
pub(crate) type Joined = Option<Box<HashSet<Group>>>;
