//! Room for an IP header, if the packet fits its path.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, Nanos, PortDoc, Ports,
    bits,
};
use weever_graph::Effects;
use weever_net::pmtu::{RecentSends, SentPacket, View};
use weever_net::state::NetState;
use weever_packet::Fragment;
use weever_wire::ipv4::protocol;

use crate::headers::push;
use crate::host::{PathReader, Paths, StateReader};
use crate::kinds::network;

/// The header length and MTUs of a version of IP.
pub(crate) trait IpVersion: Send + 'static {
    /// Bytes of its header.
    const HEADER_LEN: usize;
    /// The length that every path takes.
    const MIN: u32;
    /// Whether routers cut packets up.
    const MAY_BE_CUT: bool;

    /// The longest packet that the link takes which this one leaves by.
    fn link_mtu(state: &NetState, packet: &Buffer) -> u32;

    /// An address of the packet's endpoints.
    fn address(bytes: &[u8; 16]) -> IpAddr;
}

/// A block that makes room for the header of version `V`.
pub(crate) const fn allocate_header<V: IpVersion>(
    name: &'static str,
    summary: &'static str,
) -> BlockType {
    BlockType {
        effects: MARKS.union(Effects::MOVES_HEAD),
        ..BlockType::new(
            name,
            summary,
            &[
                PortDoc { name: "out", doc: "there is room" },
                PortDoc {
                    name: "toolong",
                    doc: "there is room, but the path takes no packet so long",
                },
                PortDoc { name: "drop", doc: "no headroom" },
                PortDoc {
                    name: "refused",
                    doc: "the path takes no packet so long, and fragmenting it is forbidden; the MTU \
                          is in the metadata's `segment`",
                },
            ],
            make::<V>,
        )
    }
}

fn make<V: IpVersion>(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let paths = build.env.get_or_default::<Paths>();
    let state = network(build)?.reader();
    Ok(Box::new(Allocate { state, view: paths.reader(), paths, version: PhantomData::<V> }))
}

struct Allocate<V> {
    state: StateReader,
    view: PathReader,
    paths: Arc<Paths>,
    version: PhantomData<V>,
}

const OUT: usize = 0;
const TOOLONG: usize = 1;
const DROP: usize = 2;
const REFUSED: usize = 3;

/// The port by which the packet leaves once there is room. Notes the destinations of long packets,
/// so that an error about them can be believed.
#[inline(always)]
fn port<V: IpVersion>(
    state: &NetState,
    view: &View,
    recent: &RecentSends,
    packet: &mut Buffer,
    (room, now): (usize, Nanos),
) -> usize {
    let len = packet.len() + V::HEADER_LEN;
    let fragment = packet.meta().endpoints.fragment;
    let mut mtu = V::link_mtu(state, packet);
    if len > V::MIN as usize {
        let ends = &packet.meta().endpoints;
        let dst = V::address(&ends.remote);
        if fragment != Fragment::Probe {
            mtu = view.mtu(dst, mtu);
        }
        let sent = SentPacket {
            src: V::address(&ends.local),
            dst,
            protocol: ends.protocol,
            ports: (ends.local_port, ends.remote_port),
            length: len as u32,
            fragment: len > mtu as usize,
        };
        recent.note(&sent, now);
    }
    // A packet that fits no frame fits no path, even over a link that says otherwise.
    if len <= (mtu as usize).min(room) {
        // A router that may fragment it needs an identification, which the fragmenting block gives.
        let may_fragment = match fragment {
            Fragment::Allow => true,
            Fragment::Want => V::MAY_BE_CUT && routers_fragment::<V>(view, packet, len),
            Fragment::Never | Fragment::Probe => false,
        };
        return if V::MAY_BE_CUT && may_fragment { TOOLONG } else { OUT };
    }
    match fragment {
        Fragment::Never | Fragment::Probe => {
            packet.meta_mut().segment = mtu.min(u16::MAX.into()) as u16;
            REFUSED
        }
        Fragment::Want | Fragment::Allow => TOOLONG,
    }
}

/// Whether "don't fragment" would have the packet lost: its path has a link that takes less than
/// the lowest MTU that we learn, or it is a long ICMP message. An error about that one cannot be
/// matched with a sent packet, so that the MTU of its path is not learned.
#[inline]
fn routers_fragment<V: IpVersion>(view: &View, packet: &Buffer, len: usize) -> bool {
    let ends = &packet.meta().endpoints;
    let long_icmp = ends.protocol == protocol::ICMP && len > V::MIN as usize;
    long_icmp || !view.is_empty() && view.may_fragment(V::address(&ends.remote))
}

/// Makes room for the header; false, and nothing changed, unless the packet leaves by `out`.
#[inline]
pub(crate) fn make_room<V: IpVersion>(
    state: &NetState,
    view: &View,
    recent: &RecentSends,
    packet: &mut Buffer,
    limits: (usize, Nanos),
) -> bool {
    port::<V>(state, view, recent, packet, limits) == OUT && push(packet, V::HEADER_LEN as u16)
}

impl<V: IpVersion> Block for Allocate<V> {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, view, recent) = (self.state.load(), self.view.load(), self.paths.recent());
        let with = (cx.room(), cx.now);
        let mut by = [0; 4];
        for task in bits(input) {
            let Some(packet) = burst.get_mut(task) else { continue };
            let port = port::<V>(state, view, recent, packet, with);
            let port = if push(packet, V::HEADER_LEN as u16) { port } else { DROP };
            by[port] |= 1 << task;
        }
        for (port, tasks) in by.into_iter().enumerate() {
            ports.enable(port, tasks);
        }
    }
}
