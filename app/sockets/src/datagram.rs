//! What arrives, and how something is sent.

use std::net::{IpAddr, SocketAddr};

use weever_app_ring::{PacketFlags, PacketInfo, Payload, SocketId};

use crate::channel::Returns;

/// Something that happened on a queue.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A datagram has arrived.
    Datagram(Datagram),
    /// The socket has an error: an `errno`.
    Error(SocketId, u16),
    /// The stack has closed the socket.
    Closed(SocketId),
}

/// A received datagram, in the frames in which it came. Dropping it gives the frames back.
#[derive(Debug)]
pub struct Datagram {
    pub(crate) socket: SocketId,
    /// The channel that it came by.
    pub(crate) channel: usize,
    pub(crate) info: PacketInfo,
    /// One, unless it is longer than a frame.
    pub(crate) parts: Vec<Payload>,
    pub(crate) returns: Returns,
}

impl Datagram {
    /// The socket that it came to.
    pub fn socket(&self) -> SocketId {
        self.socket
    }

    /// Who sent it.
    pub fn remote(&self) -> SocketAddr {
        self.info.remote
    }

    /// The address and port that it was sent to.
    pub fn local(&self) -> SocketAddr {
        self.info.local
    }

    /// The interface that it came by, as the stack numbers them.
    pub fn interface(&self) -> u32 {
        self.info.interface
    }

    /// Its time to live or hop limit.
    pub fn hops(&self) -> u8 {
        self.info.hops
    }

    /// Its type of service or traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.info.traffic_class
    }

    /// Whether it came to a group or to everybody.
    pub fn is_group(&self) -> bool {
        self.info.flags.contains(PacketFlags::GROUP)
    }

    /// When it was received: nanoseconds of the monotonic clock.
    pub fn timestamp(&self) -> u64 {
        self.info.timestamp
    }

    /// The payload's length in bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.bytes().len()).sum()
    }

    /// Whether it has no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, if it lies in one frame, as nearly all do.
    pub fn payload(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [part] => Some(part.bytes()),
            _ => None,
        }
    }

    /// The payload, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Payload::bytes)
    }

    /// A copy of the payload.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().flatten().copied().collect()
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        let frames = self.parts.drain(..).map(|part| part.into_frame().0);
        self.returns.give_back(self.channel, frames);
    }
}

/// What goes with a datagram to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The source address; `None`: the socket's, or the route's choice.
    pub source: Option<IpAddr>,
    /// Time to live or hop limit; `None`: the stack's default.
    pub hops: Option<u8>,
    /// Type of service or traffic class; `None`: 0.
    pub traffic_class: Option<u8>,
}

impl SendOptions {
    pub(crate) fn info(&self, remote: SocketAddr) -> PacketInfo {
        let mut info = PacketInfo { remote, ..PacketInfo::default() };
        if let Some(source) = self.source {
            info.local = SocketAddr::new(source, 0);
        }
        if let Some(hops) = self.hops {
            (info.hops, info.flags) = (hops, info.flags.with(PacketFlags::HOPS));
        }
        if let Some(class) = self.traffic_class {
            (info.traffic_class, info.flags) = (class, info.flags.with(PacketFlags::TRAFFIC_CLASS));
        }
        info
    }
}
