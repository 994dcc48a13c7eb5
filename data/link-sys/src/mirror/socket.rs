//! Two netlink sockets: one for announcements, one for requests.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// `RTNLGRP_LINK`, `_NEIGH`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];
/// A burst of changes of many routes fits; the kernel says when one did not.
const RECEIVE_BUFFER: usize = 1 << 20;
/// How often a dump is begun again because something changed under it.
const DUMPS: usize = 8;

type Message = NetlinkMessage<RouteNetlinkMessage>;

/// The contents of one datagram.
pub(super) enum Announced {
    /// Messages, and for each whether it replaces an existing object.
    Messages(Vec<(RouteNetlinkMessage, bool)>),
    /// The kernel had no room for some.
    Lost,
}

#[derive(Debug)]
pub(super) struct Subscription(Socket);

impl Subscription {
    pub(super) fn open() -> io::Result<Subscription> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
        socket.set_non_blocking(true)?;
        // As much as the system allows.
        let _smaller = socket.set_rx_buf_sz(RECEIVE_BUFFER);
        Ok(Subscription(socket))
    }

    /// The next datagram; `None` if there is none.
    pub(super) fn next(&mut self) -> io::Result<Option<Announced>> {
        match self.0.recv_from_full() {
            // From another process: any process may send to the socket.
            Ok((_, from)) if from.port_number() != 0 => Ok(Some(Announced::Messages(Vec::new()))),
            Ok((datagram, _)) => {
                let inner = |message: Message| {
                    let replaces = message.header.flags & NLM_F_REPLACE != 0;
                    match message.payload {
                        NetlinkPayload::InnerMessage(inner) => Some((inner, replaces)),
                        _ => None,
                    }
                };
                let messages = Messages(&datagram).filter_map(inner).collect();
                Ok(Some(Announced::Messages(messages)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                Ok(Some(Announced::Messages(Vec::new())))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Some(Announced::Lost)),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the socket's and lives as long.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

#[derive(Debug)]
pub(super) struct Requests {
    socket: Socket,
    sequence: u32,
}

impl Requests {
    pub(super) fn open() -> io::Result<Requests> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Requests { socket, sequence: 0 })
    }

    /// Sends a request; only a refusal is answered, and left for the next dump to pass over.
    pub(super) fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// All answers, from a moment at which nothing changed.
    pub(super) fn dump(
        &mut self,
        request: &RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..DUMPS {
            self.send(request.clone(), NLM_F_DUMP)?;
            if let Some(answers) = self.answers()? {
                return Ok(answers);
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "the network changes faster than it is read"))
    }

    /// `None`: something changed meanwhile.
    fn answers(&mut self) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        let (mut answers, mut consistent) = (Vec::new(), true);
        loop {
            let datagram = match self.socket.recv_from_full() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                received => received?.0,
            };
            for message in Messages(&datagram) {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Done(_) => return Ok(consistent.then_some(answers)),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The messages of a datagram. One that the parser does not know is passed over: newer kernels
/// say more than it knows.
struct Messages<'a>(&'a [u8]);

impl Iterator for Messages<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let length = u32::from_ne_bytes(*self.0.first_chunk()?) as usize;
            let (message, rest) = self.0.split_at(length.max(16).min(self.0.len()));
            let padding = length.next_multiple_of(4).saturating_sub(length).min(rest.len());
            self.0 = &rest[padding..];
            if let Ok(message) = Message::deserialize(message) {
                return Some(message);
            }
        }
    }
}
