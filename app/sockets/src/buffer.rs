//! Frames in the application's hands: received datagrams, and datagrams to send.
//!
//! Both borrow their queue, so that none outlives it, and give their frames back when dropped.

use std::net::{IpAddr, SocketAddr};

use weever_app_ring::{Fragment, Frame, PackedInfo, PacketFlags, PacketInfo};

use crate::error::Error;
use crate::queue::AppQueue;
use crate::table::UdpSocket;

/// A frame, and where in it the bytes are.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) frame: Frame,
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

/// The frames of one datagram. The vector is only there, and only allocates, when it is longer than
/// a frame.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) first: Part,
    pub(crate) more: Vec<Part>,
}

/// A received datagram, in the frames in which it came. Dropping it gives the frames back.
pub struct RxBuf<'q> {
    pub(crate) queue: &'q AppQueue,
    pub(crate) socket: UdpSocket,
    /// The channel that it came by.
    pub(crate) channel: u16,
    /// `None` only while it is taken apart.
    pub(crate) parts: Option<Parts>,
}

impl<'q> RxBuf<'q> {
    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("taken by value only")
    }

    fn part<'b>(&'b self, part: &'b Part) -> &'b [u8] {
        self.queue.frames_of(self.channel).bytes(&part.frame, part.offset, part.len)
    }

    /// The socket that it came to.
    pub fn socket(&self) -> UdpSocket {
        self.socket
    }

    /// The worker of the stack that it came by, from 0 on; see [`send_by`](AppQueue::send_by).
    pub fn worker(&self) -> u16 {
        self.channel
    }

    /// Addresses, options and time of arrival.
    pub fn info(&self) -> Info {
        Info(self.queue.frames_of(self.channel).info(&self.parts().first.frame))
    }

    /// The info of an answer, which needs no address taken apart.
    #[inline]
    fn answer_info(&self) -> PackedInfo {
        self.queue.frames_of(self.channel).packed_info(&self.parts().first.frame).answer()
    }

    /// Its sender.
    pub fn remote(&self) -> SocketAddr {
        self.info().remote()
    }

    /// The payload's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        let Parts { first, more } = self.parts();
        let first = usize::from(first.len);
        if more.is_empty() {
            return first;
        }
        first + more.iter().map(|part| usize::from(part.len)).sum::<usize>()
    }

    /// Whether it has no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload, if it lies in one frame, as nearly all do.
    #[inline]
    pub fn payload(&self) -> Option<&[u8]> {
        let Parts { first, more } = self.parts();
        more.is_empty().then(|| self.part(first))
    }

    /// The payload, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let Parts { first, more } = self.parts();
        std::iter::once(first).chain(more).map(|part| self.part(part))
    }

    /// A copy of the payload.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| octets.extend_from_slice(piece));
        octets
    }

    /// Sends it back to its sender, in the same frames: nothing is copied on this side. The stack
    /// sees it after [`commit`](AppQueue::commit).
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: the datagram is given up. [`Error::NoSocket`], [`Error::Channel`].
    pub fn reply(mut self) -> Result<(), Error> {
        let info = self.answer_info();
        let (queue, socket, channel) = (self.queue, self.socket, self.channel);
        let parts = self.parts.take().expect("taken by value only");
        queue.submit(channel, socket, &info, parts)
    }

    /// The first of its frames, to write an answer into, which goes to its sender; the received bytes
    /// are still in it until they are written over.
    pub fn into_answer(mut self) -> TxBuf<'q> {
        let info = self.answer_info();
        let (queue, socket, channel) = (self.queue, self.socket, self.channel);
        let Parts { first, more } = self.parts.take().expect("taken by value only");
        queue.release(channel, more.into_iter().map(|part| part.frame));
        TxBuf { queue, socket, channel, info, frame: Some(first.frame), start: first.offset }
    }
}

impl Drop for RxBuf<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(Parts { first, more }) = self.parts.take() else { return };
        self.queue.release(self.channel, Some(first.frame));
        if !more.is_empty() {
            self.queue.release(self.channel, more.into_iter().map(|part| part.frame));
        }
    }
}

impl std::fmt::Debug for RxBuf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RxBuf({} bytes from {} to {:?})", self.len(), self.remote(), self.socket)
    }
}

/// Addresses, options and time of arrival of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info(PacketInfo);

impl Info {
    /// The length of the [bytes](Self::to_bytes).
    pub const SIZE: usize = 56;

    /// All of it as bytes, for another process of the same machine.
    pub fn to_bytes(&self) -> [u8; Info::SIZE] {
        PackedInfo::from(&self.0).to_bytes()
    }

    /// From [bytes](Self::to_bytes); any are valid.
    pub fn from_bytes(bytes: &[u8; Info::SIZE]) -> Info {
        Info(PackedInfo::from_bytes(bytes).into())
    }

    /// Its sender.
    pub fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// The address and port that it was sent to.
    pub fn local(&self) -> SocketAddr {
        self.0.local
    }

    /// The interface that it came by, as the stack numbers them.
    pub fn interface(&self) -> u32 {
        self.0.interface
    }

    /// Its time to live or hop limit.
    pub fn hops(&self) -> u8 {
        self.0.hops
    }

    /// Its type of service or traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.0.traffic_class
    }

    /// IPv6's flow label.
    pub fn flow_label(&self) -> u32 {
        self.0.flow_label
    }

    /// Whether it came to a group or to everybody.
    pub fn is_group(&self) -> bool {
        self.0.flags.contains(PacketFlags::GROUP)
    }

    /// When it was received: nanoseconds of the monotonic clock.
    pub fn timestamp(&self) -> u64 {
        self.0.timestamp
    }
}

/// A free frame to write a datagram into. Dropping it gives the frame back.
pub struct TxBuf<'q> {
    pub(crate) queue: &'q AppQueue,
    pub(crate) socket: UdpSocket,
    pub(crate) channel: u16,
    pub(crate) info: PackedInfo,
    /// `None` only while it is taken apart.
    pub(crate) frame: Option<Frame>,
    /// Where in the frame its space begins.
    pub(crate) start: u16,
}

impl TxBuf<'_> {
    /// The space for the payload: as long as the longest one of a single frame.
    pub fn space(&mut self) -> &mut [u8] {
        let frame = self.frame.as_mut().expect("taken by value only");
        self.queue.frames_of(self.channel).space(frame, self.start)
    }

    /// Sends it to this peer, with these options, instead of the socket's own peer or the sender
    /// that it answers.
    #[must_use]
    pub fn to(mut self, remote: SocketAddr, options: SendOptions) -> Self {
        self.info = options.info(remote);
        self
    }

    /// Sends it by this socket of the same queue instead.
    #[must_use]
    pub fn by(mut self, socket: UdpSocket) -> Self {
        self.socket = socket;
        self
    }

    /// Sends the first `len` bytes of its [space](Self::space). The stack sees them after
    /// [`commit`](AppQueue::commit).
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::NoDestination`] by a socket without a peer; [`Error::WouldBlock`]
    /// when the ring is full. The frame is given back.
    pub fn send(mut self, len: usize) -> Result<(), Error> {
        let most = self.space().len();
        if len > most {
            return Err(Error::TooLong { len, most });
        }
        let frame = self.frame.take().expect("taken by value only");
        let first = Part { frame, offset: self.start, len: len as u16 };
        self.queue.submit(self.channel, self.socket, &self.info, Parts { first, more: Vec::new() })
    }
}

impl Drop for TxBuf<'_> {
    fn drop(&mut self) {
        self.queue.release(self.channel, self.frame.take());
    }
}

impl std::fmt::Debug for TxBuf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TxBuf({:?})", self.socket)
    }
}

/// Addresses and options of a datagram to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The source address; `None`: the socket's, or the route's choice.
    pub source: Option<IpAddr>,
    /// Time to live or hop limit; `None`: the stack's default.
    pub hops: Option<u8>,
    /// Type of service or traffic class; `None`: 0.
    pub traffic_class: Option<u8>,
    /// Whether it may be cut up on its way. A datagram too long for [`Fragment::Never`] comes back as an
    /// error of the socket, `EMSGSIZE`.
    pub fragment: Fragment,
    /// IPv6's flow label; 0: the stack's choice.
    pub flow_label: u32,
    /// The interface, as the stack numbers them; 0: the route's choice.
    pub interface: u32,
    /// A datagram to a group does not come back to members on this host.
    pub no_loop: bool,
}

impl SendOptions {
    pub(crate) fn info(&self, remote: SocketAddr) -> PackedInfo {
        let SendOptions { fragment, flow_label, interface, .. } = *self;
        let flags = if self.no_loop { PacketFlags::NO_LOOP } else { PacketFlags::default() };
        let mut info =
            PacketInfo { remote, fragment, flow_label, interface, flags, ..PacketInfo::default() };
        if let Some(source) = self.source {
            info.local = SocketAddr::new(source, 0);
        }
        if let Some(hops) = self.hops {
            (info.hops, info.flags) = (hops, info.flags.with(PacketFlags::HOPS));
        }
        if let Some(class) = self.traffic_class {
            (info.traffic_class, info.flags) = (class, info.flags.with(PacketFlags::TRAFFIC_CLASS));
        }
        PackedInfo::from(&info)
    }
}
