//! Arrivals at a worker's endpoint: segments, and ICMP errors about them.

use weever_block::{Buffer, Burst, Cx, FlowClaim, Mask, bits};
use weever_net::iface::IfaceId;
use weever_net::state::NetState;
use weever_packet::Flags;
use weever_tcp::{Ecn, Id, Reject, Segment, Tuple};
use weever_wire::tcp::flag;

use super::rx::{Said, flow_key, tuple, view};
use super::session::{Job, Session};
use super::worker::{FLOWS_FULL, Given, MTU_LOWERED, Tcp, UNREACHABLE};
use crate::headers::traffic_class;

// The block's ports, by their places.
pub(super) const OUT: usize = 0;
const CLOSED: usize = 1;
const GROUP: usize = 2;
const MALFORMED: usize = 3;
const STALE: usize = 4;
const CHALLENGED: usize = 5;
const UNWANTED: usize = 6;
const FULL: usize = 7;

impl Tcp {
    /// Takes the segment of `task`, with those of the tasks in `further` that continue it: all of them, and the
    /// port by which they leave, or none if another worker owns their flow.
    #[inline]
    pub(super) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        burst: &Burst,
        task: usize,
        further: Mask,
    ) -> (Mask, Option<usize>) {
        let mut all = 1 << task;
        let Some(packet) = burst.get(task) else { return (all, Some(OUT)) };
        let Some((tuple, mut segment)) = parse(packet) else { return (all, Some(MALFORMED)) };
        let found = self.endpoint.lookup(&tuple);
        if found.is_some() && segment.payload.len() >= JOINED_FROM {
            for next in bits(further) {
                let parsed = burst.get(next).filter(|next| !is_error(next)).and_then(parse);
                if !parsed.is_some_and(|(ends, next)| ends == tuple && segment.join(&next)) {
                    break;
                }
                all |= 1 << next;
            }
        }
        let pieces = bits(all).filter_map(|task| Some(view(burst.get(task)?)?.payload()));
        let port = self.take_one(cx, given, (task, packet), (&tuple, &segment, found), pieces);
        (all, port)
    }

    /// Takes a segment, whose payload may be in pieces.
    #[inline]
    fn take_one<'a>(
        &mut self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        (task, packet): (usize, &Buffer),
        (tuple, segment, found): (&Tuple, &Segment<'_>, Option<Id>),
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        if found.is_none()
            && let Err(port) = self.may_begin(cx, given, task, packet, tuple)
        {
            return port;
        }
        let result = self.endpoint.handle_at(found, tuple, segment, cx.now);
        let iface = packet.meta().iface;
        let is_the_same = matches!(&result, Ok(handled) if handled.id == found && found.is_some());
        if !is_the_same {
            self.note_change(cx, given, found, tuple, iface);
        }
        if let Ok(handled) = &result
            && let Some(session) = handled.id.and_then(|id| self.sessions.get_mut(id))
        {
            session.iface = iface;
            if segment.has(flag::URG)
                && let Some((id, port)) = handled.id.zip(given.port)
                && let Some(connection) = self.endpoint.get(id)
            {
                session.tell_urgent(connection, port);
            }
            if let Some(payload) = &handled.payload {
                match segment.joined {
                    0 => session.keep(payload, segment.payload, given.port),
                    _ => session.keep_joined(payload, pieces, given.port),
                }
            }
        }
        self.answer(cx, iface);
        Some(result.map_or_else(port_of, |_| OUT))
    }

    /// After a segment that may have made a connection between these ends, or put one in another's place.
    fn note_change(
        &mut self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        found: Option<Id>,
        tuple: &Tuple,
        iface: u16,
    ) {
        // The record of an earlier one may stand in the slot of the new one.
        self.bury(cx, given);
        let new = self.endpoint.lookup(tuple).filter(|id| Some(*id) != found);
        if let Some(id) = new {
            self.sessions.add(Session::new(id, flow_key(tuple, given.flows), Job::Waiting));
            let first = given.state.interface(IfaceId(iface)).map_or(1500, |iface| iface.mtu);
            let mtu = given.paths.mtu(tuple.remote, first.into()).min(u16::MAX.into()) as u16;
            self.endpoint.limit_mtu(id, mtu, cx.now);
        } else if found.is_none() {
            // Nothing was made of it: a cookie, a reset, or nothing at all.
            cx.release_flow(flow_key(tuple, given.flows));
        }
    }

    /// Looks whether a segment of no connection is for us, and claims the flow of one that a listener may
    /// make a connection of. Otherwise the port by which it leaves, or none if another worker owns the flow.
    fn may_begin(
        &self,
        cx: &mut Cx<'_>,
        given: &Given<'_>,
        task: usize,
        packet: &Buffer,
        tuple: &Tuple,
    ) -> Result<(), Option<usize>> {
        if !is_for_us_alone(given.state, packet, tuple) {
            return Err(Some(GROUP));
        }
        if !self.endpoint.listens(tuple) {
            return Ok(());
        }
        let flow = flow_key(tuple, given.flows);
        match cx.claim_flow(flow) {
            FlowClaim::Mine => Ok(()),
            FlowClaim::Elsewhere(_) => {
                cx.send_to_owner(task, flow);
                Err(None)
            }
            FlowClaim::Full => {
                cx.count(FLOWS_FULL, 1);
                Err(Some(FULL))
            }
        }
    }

    /// An ICMP error about a connection.
    #[cold]
    pub(super) fn take_error(&mut self, cx: &mut Cx<'_>, said: &Said) -> usize {
        match said.mtu {
            Some(mtu) => {
                let believed = self.endpoint.handle_mtu(&said.tuple, said.seq, mtu, cx.now);
                cx.count(MTU_LOWERED, believed.into());
            }
            None => {
                let believed = self.endpoint.handle_unreachable(&said.tuple, said.seq, cx.now);
                cx.count(UNREACHABLE, believed.into());
            }
        }
        OUT
    }
}

/// Segments with fewer octets are not joined to others: they are seldom followed by more of their flow, and
/// looking for that reads their neighbour's header twice.
const JOINED_FROM: usize = 512;

/// The ends and the segment of a packet.
#[inline]
fn parse(packet: &Buffer) -> Option<(Tuple, Segment<'_>)> {
    let ecn = Ecn::from_bits(traffic_class(packet).unwrap_or(0));
    Some((tuple(packet)?, Segment::parse(view(packet)?, ecn).ok()?))
}

fn is_error(packet: &Buffer) -> bool {
    packet.meta().flags.has(Flags::ERROR)
}

/// Whether a segment was sent to an address of this host and to no one else: RFC 9293 §3.9.2.3, MUST-57.
fn is_for_us_alone(state: &NetState, packet: &Buffer, tuple: &Tuple) -> bool {
    let iface = IfaceId(packet.meta().iface);
    let is_ours = match tuple.local {
        std::net::IpAddr::V4(local) => state.is_ours(local),
        std::net::IpAddr::V6(local) => state.is_ours6(iface, local),
    };
    is_ours && !packet.meta().flags.has(Flags::LINK_BROADCAST)
}

fn port_of(reject: Reject) -> usize {
    match reject {
        Reject::Reset | Reject::Finished => OUT,
        Reject::NoConnection => CLOSED,
        Reject::BadOptions | Reject::BadFlags | Reject::NoAck | Reject::NoTimestamp => MALFORMED,
        Reject::OldTimestamp | Reject::OutsideWindow | Reject::OldAck => STALE,
        Reject::InexactReset | Reject::UnexpectedSyn | Reject::AckOfUnsent | Reject::BadCookie => {
            CHALLENGED
        }
        Reject::Unwanted | Reject::AfterFin => UNWANTED,
        _ => FULL,
    }
}
