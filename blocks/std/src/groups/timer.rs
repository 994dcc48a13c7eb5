//! The timer of memberships, which sends their reports.

use std::sync::Arc;

use weever_block::{Block, Build, BuildError, Cx, Priority};
use weever_net::group::{Memberships, Outgoing};
use weever_net::iface::{IfaceId, Interface};
use weever_packet::{Buffer, Endpoints, Flags};

use super::GroupsOf;
use super::InterfaceGroups;
use crate::host::{Network, Secret};
use crate::kinds::network;
use crate::kinds::{PeriodicTask, periodic};

/// The spawn edge of reports, which are whole but for their link header.
const REPORT: usize = 0;
const AGAIN: usize = 1;
/// Messages of one interface at one look: the rest has time until the next.
const AT_ONCE: usize = 16;

/// How a family's reports travel.
pub(crate) trait ReportFormat: InterfaceGroups + Send + 'static {
    /// Bytes in front of a report, a router alert option included.
    const HEADER_LEN: usize;

    /// Writes them: a hop limit of 1, and the option.
    fn header(packet: &mut [u8], src: Self, dst: Self);

    /// The metadata of a report that the transmit path needs: its ethertype, and both ends with the
    /// group's station.
    fn ends(src: Self, dst: Self) -> (u16, Endpoints);
}

/// A block that has reports sent.
pub(crate) fn make<A: ReportFormat>(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let groups = build.env.get_or_default::<GroupsOf<A>>();
    groups.lock().key = build.env.get_or_default::<Secret>().key("group membership");
    let timer = Timer { host: network(build)?, groups };
    periodic(build, AGAIN, timer)
}

struct Timer<A> {
    host: Arc<Network>,
    groups: Arc<GroupsOf<A>>,
}

impl<A: ReportFormat> PeriodicTask for Timer<A> {
    fn run_due(&mut self, cx: &mut Cx<'_>) {
        // A worker that takes a message has it: at the next look.
        let Some(mut inner) = self.groups.try_lock() else { return };
        let state = self.host.state();
        inner.follow(&state, cx.now);
        inner.publish(&self.host);
        for own in &mut inner.list {
            let due = own.groups.poll_at().is_some_and(|at| at <= cx.now);
            if let Some(iface) = state.interface(own.iface).filter(|iface| due && iface.up) {
                report(cx, iface, &mut own.groups);
            }
        }
    }
}

fn report<A: ReportFormat>(cx: &mut Cx<'_>, iface: &Interface, groups: &mut Memberships<A>) {
    let src = A::source(iface);
    for _ in 0..AT_ONCE {
        let Some(mut buffer) = cx.alloc() else { return };
        let start = buffer.head();
        let most = start.saturating_add(iface.mtu.min(cx.room() as u16));
        let fits = buffer.set_bounds(start, most);
        let room = buffer.data_mut().get_mut(A::HEADER_LEN..).filter(|_| fits);
        let Some(out) = room.and_then(|room| groups.poll(cx.now, src, room)) else {
            return cx.free(buffer);
        };
        finish(&mut buffer, iface.id, src, out);
        cx.count(0, 1);
        cx.spawn_new(REPORT, Some(buffer), 0, Priority::High);
    }
}

fn finish<A: ReportFormat>(buffer: &mut Buffer, iface: IfaceId, src: A, out: Outgoing<A>) {
    buffer.truncate(A::HEADER_LEN + out.len);
    A::header(buffer.data_mut(), src, out.dst);
    let head = buffer.head();
    let meta = buffer.meta_mut();
    (meta.iface, meta.flags) = (iface.0, meta.flags.with(Flags::ENDPOINTS));
    meta.l3 = head;
    (meta.ethertype, meta.endpoints) = A::ends(src, out.dst);
}
