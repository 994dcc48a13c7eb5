//! A thread's queue.

use std::collections::BTreeMap;
use std::env;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weever_app_ring::control::{Connection, Request, Response, Share};
use weever_app_ring::{
    AppEnd, Frame, Geometry, INFO_SIZE, Kind, PacketInfo, Payload, Received, SocketId, SubmitError,
    VERSION,
};

use crate::channel::{Channel, Returns};
use crate::datagram::{Datagram, Event, SendOptions};
use crate::error::Error;

/// Where a stack listens for applications unless it is told otherwise.
pub const DEFAULT_PATH: &str = "/run/weever/apps.sock";
/// Bytes of the longest UDP payload over IPv4 (RFC 768): 65,535 less both headers.
const LONGEST: usize = 65_507;

/// What a queue is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The stack's socket; by default what the environment's `WEEVER_APPS` says, or
    /// [`DEFAULT_PATH`].
    pub path: PathBuf,
    /// The application's name in `weever sockets`.
    pub name: String,
    /// Rings and frames of each channel; there is one for each of the stack's workers.
    pub geometry: Geometry,
}

impl Default for Config {
    fn default() -> Config {
        let path = env::var_os("WEEVER_APPS").map_or_else(|| DEFAULT_PATH.into(), PathBuf::from);
        let program = env::args_os().next().map(PathBuf::from);
        let name = program.as_deref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
        let name = name.map_or_else(|| "application".into(), |name| name.into_owned());
        Config { path, name, geometry: Geometry::default() }
    }
}

/// A UDP socket on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// Its number, as events name it.
    pub id: SocketId,
    /// Its port.
    pub local_port: u16,
    connected: bool,
}

/// An application's queue: its sockets, and the rings to every worker of the stack. It belongs to one
/// thread at a time; several threads have a queue each. Dropping it closes its sockets.
pub struct AppQueue {
    control: Connection,
    wake: OwnedFd,
    channels: Vec<Channel>,
    /// The channel that is read next.
    current: usize,
    /// The channel by which a socket sends what is no reply: that of its latest datagram, else the
    /// first.
    home: BTreeMap<SocketId, usize>,
    returns: Returns,
}

impl AppQueue {
    /// Connects to a stack and opens a queue. Blocks until the stack has answered.
    ///
    /// # Errors
    /// [`Error::NoStack`]; [`Error::Refused`] by a stack of another version, or when the geometry is
    /// not possible.
    pub fn connect(config: &Config) -> Result<AppQueue, Error> {
        let control = Connection::connect(&config.path)
            .map_err(|source| Error::NoStack { path: config.path.clone(), source })?;
        let Geometry { ring_len, frames, frame_size } = config.geometry;
        let name = config.name.clone();
        let request = Request::OpenQueue { version: VERSION, name, ring_len, frames, frame_size };
        control.send(&request, &[])?;
        let (answer, descriptors) = control.receive::<Response>()?;
        let Response::Queue { channels, .. } = accepted(answer)? else {
            return Err(Error::Protocol("no queue in the answer".into()));
        };
        if descriptors.len() != 1 + 2 * channels as usize || channels == 0 {
            let got = descriptors.len();
            return Err(Error::Protocol(format!("{got} descriptors for {channels} channels")));
        }
        let mut descriptors = descriptors.into_iter();
        let missing = || Error::Protocol("a descriptor is missing".into());
        let wake = descriptors.next().ok_or_else(missing)?;
        let mut opened = Vec::new();
        while let Some(memory) = descriptors.next() {
            let wake = descriptors.next().ok_or_else(missing)?;
            opened.push(Channel { end: AppEnd::map(memory)?, wake });
        }
        let (home, returns) = (BTreeMap::new(), Returns::default());
        Ok(AppQueue { control, wake, channels: opened, current: 0, home, returns })
    }

    /// Opens a UDP socket. An unspecified address is any of the stack's (an IPv6 one is of both
    /// families), port 0 an ephemeral one. Blocks until the stack has answered; what arrives then is
    /// the socket's.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Disconnected`].
    pub fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocket, Error> {
        self.open(Request::BindUdp { local, peer: None, v6_only: false, sharing: Share::Exclusive })
    }

    /// As [`bind_udp`](Self::bind_udp), but other sockets may have the same address and port, and
    /// divide what arrives.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn bind_udp_shared(
        &mut self,
        local: SocketAddr,
        sharing: Share,
    ) -> Result<UdpSocket, Error> {
        self.open(Request::BindUdp { local, peer: None, v6_only: false, sharing })
    }

    /// Opens a UDP socket that sends to one peer and receives from it alone.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn connect_udp(&mut self, local: SocketAddr, peer: SocketAddr) -> Result<UdpSocket, Error> {
        let (peer, sharing) = (Some(peer), Share::Exclusive);
        self.open(Request::BindUdp { local, peer, v6_only: false, sharing })
    }

    /// Opens many sockets; the requests are on their way together. The first that is refused ends
    /// it: those opened before stay open and come back with the error.
    ///
    /// # Errors
    /// As [`bind_udp`](Self::bind_udp).
    pub fn bind_many(&mut self, locals: &[SocketAddr]) -> (Vec<UdpSocket>, Result<(), Error>) {
        /// Requests on their way at once: few enough for the socket's buffers.
        const PIPELINED: usize = 64;
        let mut opened = Vec::new();
        let mut failed = Ok(());
        for group in locals.chunks(PIPELINED) {
            let sent = group.iter().take_while(|local| {
                let (local, sharing) = (**local, Share::Exclusive);
                let request = Request::BindUdp { local, peer: None, v6_only: false, sharing };
                failed = self.control.send(&request, &[]).map_err(Error::from);
                failed.is_ok()
            });
            for _ in 0..sent.count() {
                match self.socket_answer(false) {
                    Ok(socket) => opened.push(socket),
                    Err(error) => failed = failed.and(Err(error)),
                }
            }
            if failed.is_err() {
                break;
            }
        }
        (opened, failed)
    }

    fn open(&mut self, request: Request) -> Result<UdpSocket, Error> {
        let connected = matches!(request, Request::BindUdp { peer: Some(_), .. });
        self.control.send(&request, &[])?;
        self.socket_answer(connected)
    }

    fn socket_answer(&mut self, connected: bool) -> Result<UdpSocket, Error> {
        match accepted(self.control.receive::<Response>()?.0)? {
            Response::Socket { socket, local_port } => {
                self.home.insert(socket, 0);
                Ok(UdpSocket { id: socket, local_port, connected })
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Closes a socket. What arrived before may still come out of [`next`](Self::next).
    ///
    /// # Errors
    /// [`Error::Refused`] when it is not open, [`Error::Disconnected`].
    pub fn close(&mut self, socket: UdpSocket) -> Result<(), Error> {
        self.control.send(&Request::Close { socket: socket.id }, &[])?;
        accepted(self.control.receive::<Response>()?.0)?;
        self.home.remove(&socket.id);
        Ok(())
    }

    /// The next thing that happened, channel by channel in the order of arrival; `None` when there
    /// is nothing more now. Does not block.
    ///
    /// # Errors
    /// [`Error::Channel`]: the queue is of no more use.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and ends for now, not for good")]
    pub fn next(&mut self) -> Result<Option<Event>, Error> {
        for _ in 0..self.channels.len() {
            if let Some(received) = self.channels[self.current].end.receive()? {
                return self.event(received).map(Some);
            }
            self.current = (self.current + 1) % self.channels.len();
        }
        Ok(None)
    }

    fn event(&mut self, received: Received) -> Result<Event, Error> {
        let socket = received.socket;
        match received.kind {
            Kind::Data => self.datagram(received).map(Event::Datagram),
            Kind::Closed => Ok(Event::Closed(socket)),
            _ => Ok(Event::Error(socket, received.offset)),
        }
    }

    /// Joins the frames of one datagram.
    fn datagram(&mut self, first: Received) -> Result<Datagram, Error> {
        let channel = self.current;
        let end = &mut self.channels[channel].end;
        let broken = || Error::Protocol("a datagram without all of its frames".into());
        let (socket, mut more) = (first.socket, first.more);
        let info = end.info(first.frame.as_ref().ok_or_else(broken)?);
        let mut parts = vec![end.into_payload(first).ok_or_else(broken)?];
        while more > 0 {
            let next = end.receive()?.ok_or_else(broken)?;
            more = next.more;
            parts.push(end.into_payload(next).ok_or_else(broken)?);
        }
        self.home.insert(socket, channel);
        Ok(Datagram { socket, channel, info, parts, returns: self.returns.clone() })
    }

    /// Sends a received datagram back to its sender, in the same frames: nothing is copied on this
    /// side. The stack sees it after [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: the datagram is given up. [`Error::Channel`].
    pub fn reply(&mut self, mut datagram: Datagram) -> Result<(), Error> {
        let mut info = SendOptions::default().info(datagram.info.remote);
        if !datagram.is_group() {
            info.local = datagram.info.local;
        }
        let parts = std::mem::take(&mut datagram.parts);
        self.submit(
            datagram.channel,
            datagram.socket,
            &info,
            parts.into_iter().map(Payload::into_frame).collect(),
        )
    }

    /// Sends a payload, which is copied into frames, from a socket to a peer; a connected socket's
    /// peer is its own. The stack sees it after [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when no frame is free; [`Error::TooLong`]; [`Error::Channel`].
    pub fn send_to(
        &mut self,
        socket: UdpSocket,
        payload: &[u8],
        remote: SocketAddr,
        options: SendOptions,
    ) -> Result<(), Error> {
        let channel = *self.home.get(&socket.id).ok_or(Error::NoSocket(socket.id))?;
        self.returns.take_back(&mut self.channels);
        let end = &mut self.channels[channel].end;
        let size = usize::from(end.geometry().payload_size());
        let most = LONGEST.min(size * (usize::from(u8::MAX) + 1));
        if payload.len() > most {
            return Err(Error::TooLong { len: payload.len(), most });
        }
        let mut parts: Vec<(Frame, u16, u16)> = Vec::new();
        let mut rest = payload;
        loop {
            let (now, later) = rest.split_at(rest.len().min(size));
            let Some(mut frame) = end.alloc()? else {
                parts.into_iter().for_each(|(frame, ..)| end.release(frame));
                return Err(Error::WouldBlock);
            };
            end.payload_mut(&mut frame)[..now.len()].copy_from_slice(now);
            parts.push((frame, INFO_SIZE, now.len() as u16));
            if later.is_empty() {
                break;
            }
            rest = later;
        }
        self.submit(channel, socket.id, &options.info(remote), parts)
    }

    /// As [`send_to`](Self::send_to), to a connected socket's peer.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to); [`Error::NoSocket`] for a socket without a peer.
    pub fn send(&mut self, socket: UdpSocket, payload: &[u8]) -> Result<(), Error> {
        if !socket.connected {
            return Err(Error::NoSocket(socket.id));
        }
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.send_to(socket, payload, nowhere, SendOptions::default())
    }

    fn submit(
        &mut self,
        channel: usize,
        socket: SocketId,
        info: &PacketInfo,
        parts: Vec<(Frame, u16, u16)>,
    ) -> Result<(), Error> {
        let end = &mut self.channels[channel].end;
        let count = parts.len();
        // All of a datagram or nothing.
        if (end.transmit_room(count as u32)? as usize) < count {
            parts.into_iter().for_each(|(frame, ..)| end.release(frame));
            return Err(Error::WouldBlock);
        }
        for (i, (frame, offset, len)) in parts.into_iter().enumerate() {
            match end.submit(frame, socket, info, (offset, len, (count - 1 - i) as u8)) {
                Ok(()) => {}
                Err(SubmitError::Full(frame) | SubmitError::Range { frame, .. }) => {
                    end.release(frame);
                    return Err(Error::WouldBlock);
                }
                Err(SubmitError::Channel(error)) => return Err(error.into()),
                Err(other) => return Err(Error::Protocol(other.to_string())),
            }
        }
        Ok(())
    }

    /// Hands everything sent to the stack, and frames that are free again. A system call only for
    /// workers that sleep.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn commit(&mut self) -> Result<(), Error> {
        self.returns.take_back(&mut self.channels);
        for channel in &mut self.channels {
            if channel.end.commit()? {
                // The only way to fail is a full counter: then it is readable already.
                let _ = rustix::io::write(&channel.wake, &1u64.to_ne_bytes());
            }
        }
        Ok(())
    }

    /// [Commits](Self::commit), then sleeps until there is something to receive, frames have come
    /// back, or the timeout has passed; `None` waits as long as it takes. True when there is
    /// something.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the stack is gone, [`Error::Channel`], [`Error::System`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.commit()?;
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if !self.arm()? {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let woken = self.sleep(left);
            self.channels.iter_mut().for_each(|channel| channel.end.disarm());
            if !woken? && left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// For an event loop that sleeps by itself: has the stack write to this queue's
    /// [descriptor](AsFd) when something comes. False when there is something already. After the
    /// descriptor became readable, [`acknowledge`](Self::acknowledge) it.
    ///
    /// # Errors
    /// [`Error::Channel`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let mut nothing = true;
        for channel in &mut self.channels {
            nothing &= channel.end.arm()?;
        }
        if !nothing {
            self.channels.iter_mut().for_each(|channel| channel.end.disarm());
        }
        Ok(nothing)
    }

    /// Makes the descriptor unreadable again.
    pub fn acknowledge(&mut self) {
        let mut count = [0; 8];
        let _nothing_there = rustix::io::read(&self.wake, &mut count);
        self.channels.iter_mut().for_each(|channel| channel.end.disarm());
    }

    /// True when the stack has woken this thread, false after the timeout.
    fn sleep(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let mut fds =
            [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(Error::System { call: "poll", source }),
        }
        let [wake, control] = fds.map(|fd| fd.revents());
        // The stack sends nothing unasked: what is there is the end.
        if !control.is_empty() {
            return Err(Error::Disconnected);
        }
        let mut count = [0; 8];
        Ok(wake.contains(PollFlags::IN) && rustix::io::read(&self.wake, &mut count).is_ok())
    }

    /// Frames that are free, and frames lent to the stack, over all channels. For checks.
    pub fn frames(&mut self) -> (usize, usize) {
        self.returns.take_back(&mut self.channels);
        let held = self.channels.iter().map(|channel| channel.end.held());
        held.fold((0, 0), |(free, lent), (f, l)| (free + f, lent + l))
    }
}

impl AsFd for AppQueue {
    /// Readable when the stack has woken this queue, after [`arm`](Self::arm).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

fn accepted(answer: Response) -> Result<Response, Error> {
    match answer {
        Response::Refused { kind, message } => Err(Error::Refused { kind, message }),
        answer => Ok(answer),
    }
}
