//! Listeners: connections go to those with one binding in turn.
//!
//! The application of a listener that *accepts each* reports which connections its program has accepted. The others
//! wait: when their listener or its process is gone, they go to the next listener with the same binding, in the
//! order in which they came, with all their octets. If there is none they are reset, as on Linux.

use std::net::SocketAddr;

use weever_app_ring::{ChannelError, PacketInfo};
use weever_net::demux::Binding;
use weever_net::stream::{StreamId, StreamRequest};

use crate::channels::{Channel, Channels};
use crate::stream::{Group, Listener, Stream, Waits, close, note};
use crate::streams::Streams;

impl Streams {
    pub(crate) fn listen(&mut self, listener: Listener, binding: Binding) {
        self.unplaced.append(&mut self.stuck);
        if let Some(group) = self.groups.iter_mut().find(|group| group.binding == binding) {
            group.members.push(listener);
            return;
        }
        let Listener { number: id, backlog, .. } = listener;
        self.groups.push(Group { id, binding, members: vec![listener], next: 0 });
        self.requests.push(StreamRequest::Listen { listener: id, binding, backlog });
    }

    /// Sets whether a listener gets connections from now on.
    pub(crate) fn serve(&mut self, listener: u32, serves: bool) {
        let members = self.groups.iter_mut().flat_map(|group| &mut group.members);
        members
            .filter(|member| member.number == listener)
            .for_each(|member| member.serves = serves);
        self.unplaced.append(&mut self.stuck);
    }

    pub(crate) fn stop_listening(&mut self, listener: u32) {
        self.unplaced.append(&mut self.stuck);
        let requests = &mut self.requests;
        self.groups.retain_mut(|group| {
            group.members.retain(|member| member.number != listener);
            if group.members.is_empty() {
                requests.push(StreamRequest::StopListening { listener: group.id });
            }
            !group.members.is_empty()
        });
    }

    /// The transport's number of a listener that an entry of a channel names.
    pub(crate) fn group_of(&self, queue: u32, number: u32) -> Option<StreamId> {
        let is_it = |member: &Listener| (member.queue, member.number) == (queue, number);
        Some(self.groups.iter().find(|group| group.members.iter().any(is_it))?.id)
    }

    /// Gives a new connection to the next listener of a group; `None` while none has room.
    pub(crate) fn arrive(
        &mut self,
        listener: StreamId,
        (local, remote): (SocketAddr, SocketAddr),
        channels: &mut Channels,
    ) -> Option<StreamId> {
        let id = self.new_id();
        let group = self.groups.iter().position(|group| group.id == listener)?;
        let member = self.offer(group, id, (local, remote), channels);
        let Group { binding, members, .. } = &self.groups[group];
        let binding = *binding;
        if member.is_none() {
            let most = members.iter().map(|member| member.backlog as usize).max().unwrap_or(0);
            if members.iter().any(|member| member.serves) || self.stuck.len() >= most {
                return None;
            }
        }
        let mut stream = Stream::new(id);
        (stream.ends, stream.port) = (Some((local, remote)), local.port());
        if member.is_none_or(|member| member.accepts_each) {
            self.arrivals += 1;
            stream.waits = Some(Box::new(Waits { binding, order: self.arrivals }));
        }
        match member {
            Some(member) => stream.give_to(self.worker, channels.of(member.queue)?),
            None => {
                stream.rest = Some(Box::default());
                self.stuck.push(id);
            }
        }
        self.open.insert(id, stream);
        Some(id)
    }

    /// Tells the next member of a group with room of a connection.
    fn offer(
        &mut self,
        group: usize,
        id: StreamId,
        (local, remote): (SocketAddr, SocketAddr),
        channels: &mut Channels,
    ) -> Option<Listener> {
        let ends = PacketInfo { local, remote, ..PacketInfo::default() };
        let group = &mut self.groups[group];
        for _ in 0..group.members.len() {
            group.next = (group.next + 1) % group.members.len();
            let member = group.members[group.next];
            if !member.serves {
                continue;
            }
            let Some(channel) = channels.of(member.queue) else { continue };
            match channel.end.connected(id, member.number, &ends) {
                Ok(true) => {
                    channel.dirty = true;
                    return Some(member);
                }
                Ok(false) => note(&mut self.short, member.queue),
                Err(_) => channel.broken = true,
            }
        }
        None
    }

    /// The program has accepted a connection.
    pub(crate) fn take_in(
        &mut self,
        channel: &mut Channel,
        id: StreamId,
    ) -> Result<bool, ChannelError> {
        channel.end.complete()?;
        Ok(self.open.get_mut(&id).is_some_and(|stream| stream.waits.take().is_some()))
    }

    /// Gives connections that no program has accepted to other listeners, in the order in which they
    /// came.
    pub(crate) fn place(&mut self, channels: &mut Channels) {
        let mut all = std::mem::take(&mut self.unplaced);
        let order = |id: &StreamId| {
            let waits = self.open.get(id).and_then(|stream| stream.waits.as_ref());
            waits.map(|waits| waits.order)
        };
        all.sort_by_key(order);
        for id in all {
            let Some(stream) = self.open.get_mut(&id) else { continue };
            let Some((waits, ends)) = stream.waits.as_ref().zip(stream.ends) else { continue };
            let group = self.groups.iter().position(|group| group.binding == waits.binding);
            let Some(group) = group else {
                self.close_resting(id, true);
                continue;
            };
            match self.offer(group, id, ends, channels) {
                Some(member) => {
                    let accepts_each = member.accepts_each;
                    if let Some(stream) = self.open.get_mut(&id).filter(|_| !accepts_each) {
                        stream.waits = None;
                    }
                    self.settle_on(id, member.queue, channels);
                }
                None => self.stuck.push(id),
            }
        }
    }

    /// Closes or resets a stream without a queue and without holders; its later events are ignored.
    pub(crate) fn close_resting(&mut self, id: StreamId, reset: bool) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        stream.open = false;
        let request = if reset { StreamRequest::Abort { stream: id } } else { close(id, stream) };
        let rest = stream.rest.take();
        self.untold.extend(rest.into_iter().flat_map(|rest| rest.untold).map(|what| (id, what)));
        if let Some(stream) = self.open.get_mut(&id) {
            self.requests.push_of(&mut stream.last_request, request);
        }
    }
}
