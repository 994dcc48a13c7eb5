//! What the server asks the host's network for.

use std::net::IpAddr;

/// The host's network, as far as sockets depend on it. Interfaces are told apart by their numbers in
/// packets' metadata.
pub trait HostNetwork: Send {
    /// The interface of this name.
    fn interface(&self, name: &str) -> Option<u16>;

    /// Its name.
    fn interface_name(&self, interface: u16) -> Option<String>;

    /// The interface by which the route to a group leads.
    fn interface_to(&self, group: IpAddr) -> Option<u16>;

    /// Whether an address is one of the host's.
    fn has_address(&self, address: IpAddr) -> bool;

    /// Joins a group on an interface, or leaves it. It is joined when this returns. What somebody
    /// else has joined stays joined.
    ///
    /// # Errors
    /// The reason, for people.
    fn set_member(&self, interface: u16, group: IpAddr, member: bool) -> Result<(), String>;
}
