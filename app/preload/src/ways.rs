//! The ways to addresses: which the stack has, and from which address its packets go.

use std::net::{IpAddr, SocketAddr};

use libc::c_int;

use crate::failure::Answer;
use crate::file::{Kind, Udp};
use crate::interfaces;
use crate::state::State;

/// The most ways that are remembered; then they are asked for again.
const MOST_WAYS: usize = 4096;

/// The way to an address: whether it is the stack's own, and the interface by which packets go there.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) own: bool,
    pub(crate) interface: Option<u32>,
    /// The address from which they go, where the program has chosen none.
    pub(crate) source: Option<IpAddr>,
    /// The kernel has it as one of its own addresses.
    pub(crate) kernels: bool,
}

impl State {
    /// The way to an address.
    pub(crate) fn way(&mut self, to: IpAddr) -> Answer<Way> {
        if let Some(way) = self.ways.get_or_insert_default().get(&to) {
            return Ok(way.clone());
        }
        let weever_app_sockets::Way { own, interface, source, .. } =
            self.need_queue()?.route(to)?;
        let index = interface
            .and_then(|name| Some(interfaces::number(&std::ffi::CString::new(name).ok()?)));
        let way = Way { own, interface: index, source, kernels: interfaces::have(to) };
        let ways = self.ways.get_or_insert_default();
        if ways.len() >= MOST_WAYS {
            ways.clear();
        }
        ways.insert(to, way.clone());
        Ok(way)
    }

    /// A socket's own address, and its family. A connected datagram socket has the address from which its datagrams
    /// go.
    pub(crate) fn local_name(&mut self, fd: c_int) -> Answer<(SocketAddr, c_int)> {
        let (_, file) = self.of(fd)?;
        let (mut local, family) = (file.local, file.family);
        if let Kind::Udp(Udp { peer: Some(peer), .. }) = file.kind
            && local.ip().is_unspecified()
            && let Ok(Way { source: Some(source), .. }) = self.way(peer.ip())
        {
            local.set_ip(source);
        }
        Ok((local, family))
    }

    /// Whether packets to an address go by weever.
    pub(crate) fn reaches(&mut self, to: IpAddr) -> bool {
        if to.is_loopback() || to.is_unspecified() {
            return false;
        }
        self.way(to).is_ok_and(|way| (way.own || way.interface.is_some()) && !way.kernels)
    }

    /// Whether an address is the stack's.
    pub(crate) fn is_own(&mut self, address: IpAddr) -> bool {
        self.can_wait(address) || self.way(address).is_ok_and(|way| way.own)
    }

    /// Whether the kernel's socket behind one that is bound to this address receives as well.
    pub(crate) fn kernel_serves(&mut self, local: SocketAddr) -> bool {
        local.ip().is_unspecified()
            || !self.can_wait(local.ip()) && self.way(local.ip()).map_or(true, |way| way.kernels)
    }
}
