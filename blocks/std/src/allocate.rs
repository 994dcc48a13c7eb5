//! Room for an IP header, if the packet fits its path.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, MARKS, Mask, Nanos, PortDoc, Ports,
    tasks_marked, tasks_where,
};
use weever_graph::Effects;
use weever_net::pmtu::{Recent, View};
use weever_net::state::NetState;

use crate::headers::push;
use crate::host::{PathReader, Paths, StateReader};
use crate::kinds::network;

/// The header length and MTUs of a version of IP.
pub(crate) trait IpVersion: Send + 'static {
    /// Bytes of its header.
    const HEADER_LEN: usize;
    /// The length that every path takes.
    const MIN: u32;

    /// The longest packet that the link takes which this one leaves by.
    fn link_mtu(state: &NetState, packet: &Buffer) -> u32;

    /// The packet's destination.
    fn remote(packet: &Buffer) -> IpAddr;
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

/// Whether the packet fits its path. Notes to whom long ones go, so that an error about them can be
/// believed.
#[inline]
fn fits<V: IpVersion>(
    state: &NetState,
    view: &View,
    recent: &Recent,
    packet: &Buffer,
    now: Nanos,
) -> bool {
    let len = packet.len() + V::HEADER_LEN;
    let mut mtu = V::link_mtu(state, packet);
    if len > V::MIN as usize {
        let remote = V::remote(packet);
        mtu = view.mtu(remote, mtu);
        recent.note(remote, now);
    }
    len <= mtu as usize
}

impl<V: IpVersion> Block for Allocate<V> {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let (state, view, recent) = (self.state.load(), self.view.load(), self.paths.recent());
        let (now, room) = (cx.now, cx.room());
        let fitting = tasks_where(burst, input, |packet| {
            // What fits no frame fits no path, even over a link that says otherwise.
            packet.len() + V::HEADER_LEN <= room && fits::<V>(state, view, recent, packet, now)
        });
        let done = tasks_marked(burst, input, |packet| push(packet, V::HEADER_LEN as u16));
        ports.enable(0, done & fitting);
        ports.enable(1, done & !fitting);
        ports.enable(2, input & !done);
    }
}
