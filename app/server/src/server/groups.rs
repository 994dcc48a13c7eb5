//! Sockets join and leave groups.

use std::net::IpAddr;

use weever_net::demux::Binding;

use super::{AppServer, Socket};
use crate::network::{Group, binding_of};
use crate::request::{QueueId, ServerError};
use crate::worker::Command;

impl AppServer {
    /// Adds a socket to a group: it receives datagrams to the group and its port that arrive by the
    /// interface, or by the one of the route to the group. Joining twice changes nothing.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`], [`ServerError::Interface`], [`ServerError::Group`],
    /// [`ServerError::Sockets`], [`ServerError::Stuck`].
    pub fn join(
        &mut self,
        queue: QueueId,
        socket: u32,
        group: IpAddr,
        interface: Option<&str>,
    ) -> Result<(), ServerError> {
        let (group, there) = self.membership(queue, socket, group, interface)?;
        let binding = there.binding;
        if there.groups.as_ref().is_some_and(|groups| groups.contains(&group)) {
            return Ok(());
        }
        if self.entries >= self.max_sockets {
            return Err(ServerError::Sockets(self.max_sockets));
        }
        let joined = self.groups.join(group, &*self.network);
        joined.map_err(|why| ServerError::Group { group: group.1, why })?;
        self.entries += 1;
        let groups = &mut self.own_socket(queue, socket)?.groups;
        groups.get_or_insert_default().insert(group);
        if let Some(binding) = binding_of(&binding, group) {
            self.tell_all(|| Command::AddBinding { socket, binding })?;
        }
        Ok(())
    }

    /// Takes a socket out of a group.
    ///
    /// # Errors
    /// [`ServerError::NoSocket`], [`ServerError::Interface`], [`ServerError::NotJoined`].
    pub fn leave(
        &mut self,
        queue: QueueId,
        socket: u32,
        group: IpAddr,
        interface: Option<&str>,
    ) -> Result<(), ServerError> {
        let (group, there) = self.membership(queue, socket, group, interface)?;
        let binding = there.binding;
        if !there.groups.as_mut().is_some_and(|groups| groups.remove(&group)) {
            return Err(ServerError::NotJoined { socket, group: group.1 });
        }
        self.leave_group(socket, &binding, group);
        Ok(())
    }

    /// A socket of this queue, and the group on the interface that the request means.
    fn membership(
        &mut self,
        queue: QueueId,
        socket: u32,
        group: IpAddr,
        interface: Option<&str>,
    ) -> Result<(Group, &mut Socket), ServerError> {
        let group = self.group(group, interface)?;
        Ok((group, self.own_socket(queue, socket)?))
    }

    pub(super) fn leave_group(&mut self, socket: u32, own: &Binding, group: Group) {
        self.entries -= 1;
        self.groups.leave(group, &*self.network);
        if let Some(binding) = binding_of(own, group) {
            // A worker that is gone has no bindings any more.
            let _ = self.tell_all(|| Command::RemoveBinding { socket, binding });
        }
    }

    fn group(&self, group: IpAddr, interface: Option<&str>) -> Result<Group, ServerError> {
        let refused = |why: &str| ServerError::Group { group, why: why.into() };
        if !group.is_multicast() {
            return Err(refused("it is no multicast address"));
        }
        let interface = match interface {
            Some(name) => self.interface(name)?,
            None => self
                .network
                .interface_to(group)
                .ok_or_else(|| refused("no route leads there; name an interface"))?,
        };
        Ok((interface, group))
    }
}
