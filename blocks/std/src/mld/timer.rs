//! What time does to memberships, and what they send.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weever_blocks_api::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Nanos, ParamDoc, PortDoc, Ports,
    Priority, StateKind,
};
use weever_graph::Effects;
use weever_net::group::{Memberships, Outgoing};
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::addr::multicast_mac;
use weever_packet::{Endpoints, Flags};
use weever_wire::ethernet::ethertype;
use weever_wire::ipv6::next_header;

use crate::check::{network, reader};
use crate::host::{Host, Secret};
use crate::igmp::Groups6;

const REPORT: usize = 0;
const AGAIN: usize = 1;

/// Bytes of a header and a hop-by-hop header with a router alert option.
const HEADER_LEN: usize = 48;
/// The next header, length 8, the router alert option (RFC 2711) of value 0, "MLD", and padding.
const HOP_BY_HOP: [u8; 8] = [next_header::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
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
        "MldTimer",
        "Reports which IPv6 groups the host's interfaces listen to: changes at once, and what \
         queriers ask after a random delay (RFC 3810 §6).",
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
    groups: Arc<Groups6>,
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
        inner.follow(&state, self.secret, cx.now, wanted);
        inner.publish(&self.host);
        for own in &mut inner.list {
            let due = own.groups.poll_at().is_some_and(|at| at <= cx.now);
            if let Some(iface) = state.interface(own.iface).filter(|_| due) {
                report(cx, iface, &mut own.groups);
            }
        }
    }
}

/// What is joined, and the groups in which neighbours ask for our addresses, tentative ones too
/// (RFC 4862 §5.4.2). Borrowed addresses are the kernel's to report.
fn wanted(iface: &Interface) -> Vec<Ipv6Addr> {
    if !iface.v6_settings.enabled || iface.borrowed {
        return Vec::new();
    }
    let mut all = iface.v6.groups();
    all.extend(&iface.groups6);
    all.sort_unstable();
    all.dedup();
    all
}

fn report(cx: &mut Cx<'_>, iface: &Interface, groups: &mut Memberships<Ipv6Addr>) {
    // RFC 3810 §5.2.13: from the unspecified address while there is no link-local one yet.
    let src = iface.v6.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
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

fn finish(buffer: &mut Buffer, iface: IfaceId, src: Ipv6Addr, out: Outgoing<Ipv6Addr>) {
    buffer.truncate(HEADER_LEN + out.len);
    header(buffer.data_mut(), src, out.dst);
    let head = buffer.head();
    let meta = buffer.meta_mut();
    (meta.iface, meta.flags) = (iface.0, meta.flags.with(Flags::ENDPOINTS));
    (meta.l3, meta.ethertype) = (head, ethertype::IPV6);
    meta.endpoints = Endpoints {
        local: src.octets(),
        remote: out.dst.octets(),
        protocol: next_header::ICMPV6,
        next_mac: multicast_mac(out.dst).0,
        ..Endpoints::default()
    };
}

/// RFC 3810 §5: a hop limit of 1, and a router alert option in a hop-by-hop header.
fn header(packet: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let [high, low] = ((packet.len() - 40) as u16).to_be_bytes();
    let header = &mut packet[..HEADER_LEN];
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, high, low, next_header::HOP_BY_HOP, 1]);
    header[8..24].copy_from_slice(&src.octets());
    header[24..40].copy_from_slice(&dst.octets());
    header[40..].copy_from_slice(&HOP_BY_HOP);
}
