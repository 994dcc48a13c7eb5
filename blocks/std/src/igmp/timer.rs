//! What time does to memberships, and what they send.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    Priority, StateKind,
};
use weever_graph::Effects;
use weever_net::ethernet::multicast_mac;
use weever_net::group::{Memberships, Outgoing};
use weever_net::iface::{IfaceId, Interface};
use weever_packet::{Endpoints, Flags};
use weever_wire::checksum;
use weever_wire::ethernet::ethertype;
use weever_wire::ipv4::protocol;

use super::Groups;
use crate::check::{network, reader};
use crate::host::{Host, Secret};

const REPORT: usize = 0;
const AGAIN: usize = 1;

/// Bytes of a header with a router alert option.
const HEADER_LEN: usize = 24;
/// RFC 3376 §4: "Internetwork Control" precedence.
const TOS: u8 = 0xc0;
/// Messages of one interface at one look: the rest has time until the next.
const AT_ONCE: usize = 16;

/// Sends reports.
pub static TIMER: BlockType = BlockType {
    spawns: &["report", "again"],
    effects: Effects::STATEFUL,
    state: StateKind::SingleHomed,
    params: &[ParamDoc {
        name: "period",
        default: "50",
        doc: "milliseconds between two looks at what is due",
    }],
    counters: &["reports"],
    ..reader(
        "IgmpTimer",
        "Reports which groups the host's interfaces listen to: changes at once, and what queriers \
         ask after a random delay (RFC 3376 §5).",
        &[PortDoc { name: "out", doc: "the task, once it has done its work" }],
        make,
    )
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=1000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 1000"));
    }
    Ok(Box::new(Timer {
        host: network(build)?,
        groups: build.env.get_or_default(),
        secret: *build.env.get_or_default::<Secret>(),
        period: period * weever_net::MILLIS,
    }))
}

struct Timer {
    host: Arc<Host>,
    groups: Arc<Groups>,
    secret: Secret,
    period: Nanos,
}

impl Block for Timer {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        self.look(cx);
        cx.spawn_new(AGAIN, None, self.period, Priority::Low);
        ports.enable(0, input);
    }
}

impl Timer {
    fn look(&self, cx: &mut Cx<'_>) {
        let mut inner = self.groups.lock();
        let state = self.host.state();
        inner.follow(&state, self.secret, cx.now, |iface| iface.groups.clone());
        inner.publish(&self.host);
        for own in &mut inner.list {
            let due = own.groups.poll_at().is_some_and(|at| at <= cx.now);
            if let Some(iface) = state.interface(own.iface).filter(|_| due) {
                report(cx, iface, &mut own.groups);
            }
        }
    }
}

fn report(cx: &mut Cx<'_>, iface: &Interface, groups: &mut Memberships<Ipv4Addr>) {
    // RFC 3376 §4.2.13: from 0.0.0.0 while there is no address yet.
    let src = iface.v4.iter().next().map_or(Ipv4Addr::UNSPECIFIED, |cidr| cidr.addr());
    for _ in 0..AT_ONCE {
        let Some(mut buffer) = cx.alloc() else { return };
        let start = buffer.head();
        let most = start.saturating_add(iface.mtu.min(cx.room() as u16));
        let fits = buffer.set_bounds(start, most);
        let room = buffer.data_mut().get_mut(HEADER_LEN..).filter(|_| fits);
        let Some(out) = room.and_then(|room| groups.poll(cx.now, src, room)) else {
            return cx.free(buffer);
        };
        finish(&mut buffer, iface.id, src, out);
        cx.count(0, 1);
        cx.spawn_new(REPORT, Some(buffer), 0, Priority::High);
    }
}

fn finish(buffer: &mut Buffer, iface: IfaceId, src: Ipv4Addr, out: Outgoing<Ipv4Addr>) {
    buffer.truncate(HEADER_LEN + out.len);
    header(buffer.data_mut(), src, out.dst);
    let head = buffer.head();
    let meta = buffer.meta_mut();
    (meta.iface, meta.flags) = (iface.0, meta.flags.with(Flags::ENDPOINTS));
    (meta.l3, meta.ethertype) = (head, ethertype::IPV4);
    meta.endpoints = Endpoints {
        local: Endpoints::mapped(src.to_bits()),
        remote: Endpoints::mapped(out.dst.to_bits()),
        protocol: protocol::IGMP,
        next_mac: multicast_mac(out.dst).0,
        ..Endpoints::default()
    };
}

/// RFC 3376 §4: a time to live of 1, and a router alert option (RFC 2113).
fn header(packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr) {
    let [high, low] = (packet.len() as u16).to_be_bytes();
    let header = &mut packet[..HEADER_LEN];
    header[..12].copy_from_slice(&[0x46, TOS, high, low, 0, 0, 0x40, 0, 1, protocol::IGMP, 0, 0]);
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    header[20..24].copy_from_slice(&[148, 4, 0, 0]);
    let check = checksum::finish(checksum::sum(header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
}
