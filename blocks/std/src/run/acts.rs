//! Acts: the work of blocks that write, for one packet at a time, so that a run goes on past them.
//!
//! An act takes the place of blocks that follow each other, with the functions of those blocks, for packets
//! that leave them by the usual ports. It declines any other packet and leaves that as the blocks expect
//! it: the way of that packet ends in front of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weever_block::{BlockType, Buffer, Cx, Env, Nanos, Snapshot};
use weever_net::pmtu::{RecentSends, View};
use weever_net::state::NetState;
use weever_wire::ipv4::FLAG_DF;

use crate::host::{
    Key4, Key6, NeighbourSnapshot, Neighbourhood, Network, PathReader, Paths, Reader, V4, V6,
};
use crate::kinds::NetworkState;
use crate::neighbour::lookup::record_known;
use crate::{allocate, arp, ethernet, icmp, icmp6, ipv4, ipv6, ndp, udp};

/// The state of the host that acts read.
pub(super) struct Around<'a> {
    net: &'a NetState,
    paths: &'a View,
    recent: &'a RecentSends,
    /// The neighbours of each family; `None` while packets wait for some, for those go first.
    four: Option<&'a NeighbourSnapshot<Key4>>,
    six: Option<&'a NeighbourSnapshot<Key6>>,
    /// Bytes of the longest packet that an ordinary buffer holds, and the time.
    limits: (usize, Nanos),
}

/// Does the work, or declines the packet.
pub(super) type Run = fn(&Around<'_>, &mut Buffer) -> bool;

/// The work of some blocks.
pub(super) struct Act {
    /// The blocks, each with the port by which packets leave it, which leads to the next one only.
    pub(super) blocks: &'static [(&'static BlockType, &'static str)],
    pub(super) run: Run,
}

const fn act(blocks: &'static [(&'static BlockType, &'static str)], run: Run) -> Act {
    Act { blocks, run }
}

/// Every act. Of those that begin with the same block, the ones that take packets further come first.
pub(super) static ACTS: [Act; 27] = [
    act(&[(&udp::INITIATE_RESPONSE, "ipv4")], |_, packet| udp::turn_back(packet, false)),
    act(&[(&udp::INITIATE_RESPONSE, "ipv6")], |_, packet| udp::turn_back(packet, true)),
    act(&[(&udp::INITIATE_RESPONSE, "unsummed")], |_, packet| udp::respond_unsummed(packet)),
    act(&[(&udp::ALLOCATE_HEADER, "out"), (&udp::FILL_HEADER, "ipv4")], |around, packet| {
        udp::may_fill4(around.net, packet, udp::HEADER_LEN)
            && udp::make_room(packet)
            && udp::fill4(packet)
    }),
    act(&[(&udp::ALLOCATE_HEADER, "out"), (&udp::FILL_HEADER, "ipv6")], |_, packet| {
        !packet.meta().endpoints.is_v4() && udp::make_room(packet) && udp::fill6(packet).is_ok()
    }),
    act(&[(&udp::ALLOCATE_HEADER, "out")], |_, packet| udp::make_room(packet)),
    act(&[(&udp::FILL_HEADER, "ipv4")], |around, packet| {
        udp::may_fill4(around.net, packet, 0) && udp::fill4(packet)
    }),
    act(&[(&udp::FILL_HEADER, "ipv6")], |_, packet| {
        !packet.meta().endpoints.is_v4() && udp::fill6(packet).is_ok()
    }),
    act(&[(&icmp::INITIATE_RESPONSE, "out")], |_, packet| icmp::respond(packet)),
    act(&[(&icmp::FILL_HEADER, "out")], |_, packet| icmp::reply(packet)),
    act(&[(&icmp6::INITIATE_RESPONSE, "out")], |_, packet| icmp6::respond(packet)),
    act(&[(&icmp6::FILL_HEADER, "out")], |_, packet| icmp6::reply(packet)),
    act(&[(&ipv4::ROUTING, "true")], |around, packet| ipv4::is_routed(around.net, packet)),
    act(&[(&ipv4::ALLOCATE_HEADER, "out"), (&ipv4::FILL_HEADER, "out")], |around, packet| {
        room::<ipv4::V4>(around, packet) && fill4(around, packet)
    }),
    act(&[(&ipv4::ALLOCATE_HEADER, "out")], room::<ipv4::V4>),
    act(&[(&ipv4::FILL_HEADER, "out")], fill4),
    act(&[(&ipv6::FORWARDED, "true")], |_, packet| ipv6::forwarded(packet)),
    act(&[(&ipv6::ROUTING, "true")], |around, packet| ipv6::is_routed(around.net, packet)),
    act(&[(&ipv6::ALLOCATE_HEADER, "out"), (&ipv6::FILL_HEADER, "out")], |around, packet| {
        room::<ipv6::V6>(around, packet) && ipv6::fill(around.net, packet).is_ok()
    }),
    act(&[(&ipv6::ALLOCATE_HEADER, "out")], room::<ipv6::V6>),
    act(&[(&ipv6::FILL_HEADER, "out")], |around, packet| ipv6::fill(around.net, packet).is_ok()),
    act(&[(&arp::LOOKUP, "true")], |around, packet| {
        around.four.is_some_and(|known| record_known::<V4>(known, packet))
    }),
    act(&[(&ndp::LOOKUP, "true")], |around, packet| {
        around.six.is_some_and(|known| record_known::<V6>(known, packet))
    }),
    act(
        &[(&ethernet::ALLOCATE_HEADER, "out"), (&ethernet::FILL_HEADER, "out")],
        |around, packet| {
            ethernet::allocate(around.net, packet) && ethernet::fill(around.net, packet)
        },
    ),
    act(&[(&ethernet::ALLOCATE_HEADER, "out")], |around, packet| {
        ethernet::allocate(around.net, packet)
    }),
    act(&[(&ethernet::FILL_HEADER, "out")], |around, packet| ethernet::fill(around.net, packet)),
    act(&[(&ethernet::SEND, "true")], |_, packet| ethernet::may_send(packet)),
];

/// Makes room for an IP header, if the packet fits its path.
fn room<V: allocate::IpVersion>(around: &Around<'_>, packet: &mut Buffer) -> bool {
    allocate::make_room::<V>(around.net, around.paths, around.recent, packet, around.limits)
}

fn fill4(around: &Around<'_>, packet: &mut Buffer) -> bool {
    ipv4::fill(packet, FLAG_DF, around.net.settings().default_ttl).is_ok()
}

/// What acts read, for one worker.
pub(super) struct Host {
    network: NetworkState,
    paths: Arc<Paths>,
    view: PathReader,
    four: Known<Key4>,
    six: Known<Key6>,
}

/// The neighbours of a family.
struct Known<K> {
    reader: Reader<K>,
    waiting: Arc<AtomicUsize>,
}

impl<K> Known<K> {
    #[inline]
    fn load(&mut self) -> Option<&NeighbourSnapshot<K>> {
        let waits = self.waiting.load(Ordering::Relaxed) != 0;
        (!waits).then(|| &**self.reader.load())
    }
}

impl Host {
    /// `None` where the environment has no host: graphs that users write need none.
    pub(super) fn of(env: &Env) -> Option<Host> {
        let paths = env.get_or_default::<Paths>();
        let four = env.get::<Neighbourhood<V4>>()?;
        let six = env.get::<Neighbourhood<V6>>()?;
        Some(Host {
            network: NetworkState::of(&*env.get::<Network>()?),
            view: paths.reader(),
            paths,
            four: Known { reader: four.reader(), waiting: four.waiting() },
            six: Known { reader: six.reader(), waiting: six.waiting() },
        })
    }

    /// The state as it is now.
    #[inline]
    pub(super) fn around(&mut self, cx: &Cx<'_>) -> Around<'_> {
        Around {
            net: self.network.load(),
            paths: self.view.load(),
            recent: self.paths.recent(),
            four: self.four.load(),
            six: self.six.load(),
            limits: (cx.room(), cx.now),
        }
    }
}
