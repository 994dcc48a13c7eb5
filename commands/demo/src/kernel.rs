//! The Linux kernel as the peer: ordinary sockets in a network namespace.

use std::io::{self, ErrorKind};
use std::time::Duration;

use weever_link_sys::packet::{PacketSocket, Protocol as Seen};
use weever_testbed::Namespace;

use crate::peer::{Ends, Over, Peer, PeerError};
use crate::talk::Talk;

/// Sockets of the kernel's stack in one namespace.
pub(crate) struct KernelPeer {
    talks: Vec<(Over, Talk)>,
    raw: PacketSocket,
    ends: Ends,
}

impl KernelPeer {
    /// Opens the sockets in `namespace`, whose interface is `interface` with this index; `port` is
    /// where weever's echo service listens. Without `ipv6` there are sockets for IPv4 only.
    pub(crate) fn open(
        namespace: &Namespace,
        interface: (&str, u32),
        ends: Ends,
        port: u16,
        ipv6: bool,
    ) -> Result<KernelPeer, PeerError> {
        namespace.run(|| {
            let mut talks = Vec::new();
            for over in Over::ALL.into_iter().filter(|over| ipv6 || *over == Over::V4) {
                talks.push((over, Talk::open(ends.stack(over), interface.1, port)?));
            }
            let raw = PacketSocket::open(interface.0, Seen::All);
            let raw = raw.map_err(PeerError::of("packet socket"))?;
            let peer_port = talks[0].1.port()?;
            Ok(KernelPeer { talks, raw, ends: Ends { peer_port, ..ends } })
        })
    }

    fn talk(&mut self, over: Over) -> Result<&mut Talk, PeerError> {
        let found = self.talks.iter_mut().find(|(known, _)| *known == over);
        let missing = || PeerError::of("socket")(io::Error::from(ErrorKind::NotFound));
        found.map(|(_, talk)| talk).ok_or_else(missing)
    }
}

impl Peer for KernelPeer {
    fn name(&self) -> &'static str {
        "the Linux kernel"
    }

    fn ends(&self) -> Ends {
        self.ends
    }

    fn sends_long(&self, _: Over) -> bool {
        true
    }

    fn ping(
        &mut self,
        over: Over,
        payload: &[u8],
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, PeerError> {
        Ok(self.talk(over)?.ping(payload, wait)?.map(|reply| reply.payload))
    }

    fn send(&mut self, over: Over, payload: &[u8]) -> Result<(), PeerError> {
        self.talk(over)?.send(payload)
    }

    fn receive(
        &mut self,
        over: Over,
        into: &mut [u8],
        wait: Duration,
    ) -> Result<Option<usize>, PeerError> {
        self.talk(over)?.receive(into, wait)
    }

    fn send_frame(&mut self, frame: &[u8]) -> Result<(), PeerError> {
        self.raw.send(frame).map_err(PeerError::of("packet socket"))
    }
}
