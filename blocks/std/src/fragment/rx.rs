//! Receive: from fragments to the datagram, or to the error about one that stays incomplete.

use std::sync::Arc;

use weever_block::{
    Block, BlockType, Buffer, Build, BuildError, Burst, Cx, FlowClaim, FlowKey, Mask, Nanos,
    ParamDoc, PortDoc, Ports, Priority, READS, State, StateKind, bits,
};
use weever_graph::Effects;
use weever_net::fragment::{Key, Offer, Part, Piece, Reject};
use weever_net::icmp::{Cause, INTERNETWORK_CONTROL, MAX_ERROR_LEN, may_report};
use weever_net::icmp6;
use weever_packet::{Endpoints, Flags, Meta, NOWHERE};
use weever_wire::ethernet::ethertype;
use weever_wire::icmpv4::{HEADER_LEN, IcmpRepr};
use weever_wire::ipv4::{self, Ipv4Header, protocol};

use crate::host::{Fragments, Kept, Room, Secret, StateReader};
use crate::icmp::IcmpLimits;
use crate::icmp6::{Icmp6Limits, Verdict};
use crate::kinds::{between, network};

const DATAGRAM: usize = 0;
const EXPIRED: usize = 1;

const REASSEMBLED: usize = 0;
const OVERDUE: usize = 1;
const TIMEOUTS: usize = 2;
const EVICTED: usize = 3;

/// Ports.
const OUT: usize = 0;
const DUPLICATE: usize = 1;
const OVERLAP: usize = 2;
const MALFORMED: usize = 3;
const FULL: usize = 4;

/// Hands fragments over.
pub static FRAGMENT_V4: BlockType = BlockType {
    spawns: &["fragment"],
    effects: READS.union(Effects::CONSUMES),
    ..BlockType::new(
        "RxL3IPv4Fragment",
        "Starts a task where fragments are put together for each.",
        &[],
        |_| Ok(Box::new(HandOver)),
    )
};

struct HandOver;

impl Block for HandOver {
    fn run(&mut self, cx: &mut Cx<'_>, _: &mut Burst, input: Mask, _: &mut Ports<'_>) {
        cx.spawn(0, input);
    }
}

/// Puts fragments together. The worker that has the first piece of a datagram gets the others.
pub static REASSEMBLE_V4: BlockType = BlockType {
    spawns: &["datagram", "expired"],
    effects: READS.union(Effects::STATEFUL).union(Effects::CONSUMES),
    state: StateKind::Sharded,
    params: &[
        ParamDoc {
            name: "period",
            default: "100",
            doc: "milliseconds between two checks for overdue datagrams",
        },
        ParamDoc {
            name: "flows",
            default: "4096",
            doc: "room for datagrams in pieces of all workers together, some 36 octets for each",
        },
    ],
    counters: &["reassembled", "expired", "timeouts", "evicted"],
    ..BlockType::new(
        "RxL3IPv4Reassemble",
        "Keeps fragments until their datagram is whole, and gives up those that overlap or take too \
         long (RFC 791 §3.2, RFC 1122 §3.3.2, RFC 5722).",
        &[
            PortDoc { name: "out", doc: "kept for its datagram" },
            PortDoc { name: "duplicate", doc: "came before" },
            PortDoc { name: "overlap", doc: "overlaps others: its datagram is given up" },
            PortDoc { name: "malformed", doc: "cannot be a part of any datagram" },
            PortDoc { name: "full", doc: "no room to keep it" },
        ],
        make,
    )
};

/// Puts fragments of IPv6 together.
pub static REASSEMBLE_V6: BlockType = BlockType {
    name: "RxL3IPv6Reassemble",
    summary: "Keeps fragments until their packet is whole, and gives up those that overlap or take too \
              long (RFC 8200 §4.5, RFC 5722).",
    make: |build| make_of(build, true),
    ..REASSEMBLE_V4
};

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    make_of(build, false)
}

fn make_of(build: &Build<'_>, six: bool) -> Result<Box<dyn Block>, BuildError> {
    let period: u64 = build.param("period")?;
    if !(1..=10_000).contains(&period) {
        return Err(build.bad_param("period", &period.to_string(), "use 1 to 10000"));
    }
    let fragments = build.env.get_or_default::<Fragments>();
    let limits = build.env::<IcmpLimits>(crate::icmp::LIMITS)?;
    let reporter = Reporter::new(network(build)?.reader(), limits);
    let limits6 = match six {
        true => Some(build.env::<Icmp6Limits>(crate::icmp6::LIMITS)?),
        false => None,
    };
    let flows = build.env.get_or_default::<Secret>().key("fragments");
    let kept = Kept::new(if six { &fragments.v6 } else { &fragments.v4 }, flows);
    let period = period * weever_net::MILLIS;
    Ok(Box::new(Reassemble { kept, reporter, limits6, period, checked: 0 }))
}

struct Reassemble {
    kept: Kept,
    reporter: Reporter,
    period: Nanos,
    /// When overdue datagrams were last looked for.
    checked: Nanos,
    /// Of a block for IPv6.
    limits6: Option<Arc<Icmp6Limits>>,
}

impl Block for Reassemble {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        for task in bits(input) {
            let Some(packet) = burst.get(task) else { continue };
            if let Some(port) = self.take(cx, task, packet) {
                ports.enable(port, 1 << task);
            }
        }
        self.finish(cx);
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        self.checked = cx.now;
        self.poll_overdue(cx);
        self.finish(cx);
    }

    fn export_state(&mut self) -> Option<State> {
        let same = self.kept.fresh();
        Some(Box::new(std::mem::replace(&mut self.kept, same)))
    }

    fn import_state(&mut self, state: State) -> Result<(), State> {
        self.kept = *state.downcast::<Kept>()?;
        Ok(())
    }

    fn flow_of(&self, packet: &Buffer) -> Option<FlowKey> {
        let piece = self.read(packet).ok()??;
        Some(self.kept.flow(&piece.key()))
    }

    fn export_flow(&mut self, flow: FlowKey) -> Option<State> {
        self.kept.take(flow).map(|part| part as State)
    }

    fn import_flow(&mut self, _: FlowKey, state: State) -> Result<(), State> {
        let part = state.downcast::<Part<Room>>()?;
        self.kept.put(part).map_err(|part| part as State)
    }
}

impl Reassemble {
    fn read<'p>(&self, packet: &'p Buffer) -> Result<Option<Piece<'p>>, Reject> {
        let meta = packet.meta();
        let read = if self.limits6.is_some() { Piece::v6 } else { Piece::v4 };
        read(between(packet, meta.l3, meta.end), meta.iface)
    }

    /// The port by which the fragment leaves; `None`: another worker has its datagram, and gets it.
    fn take(&mut self, cx: &mut Cx<'_>, task: usize, packet: &Buffer) -> Option<usize> {
        let piece = match self.read(packet) {
            Ok(Some(piece)) => piece,
            Ok(None) => return Some(MALFORMED),
            Err(reject) => return Some(port_of(reject)),
        };
        if !self.kept.table().has(&piece.key()) {
            let flow = self.kept.flow(&piece.key());
            match cx.claim_flow(flow) {
                FlowClaim::Mine => {}
                FlowClaim::Elsewhere(_) => {
                    cx.send_to_owner(task, flow);
                    return None;
                }
                FlowClaim::Full => return Some(FULL),
            }
        }
        let offer = self.kept.offer(&piece, cx.now);
        self.release_ended(cx);
        Some(match offer {
            Offer::Whole(room, len) => {
                cx.count(REASSEMBLED, 1);
                let datagram = restarted(delivered(cx, room, len), packet.meta());
                cx.spawn_new(DATAGRAM, Some(datagram), 0, Priority::High);
                OUT
            }
            Offer::Kept => OUT,
            Offer::Duplicate => DUPLICATE,
            Offer::Rejected(reject) => {
                self.release_absent(cx, &piece.key());
                port_of(reject)
            }
        })
    }

    /// Datagrams that are no longer here have no owner.
    fn release_ended(&self, cx: &mut Cx<'_>) {
        for key in self.kept.table().ended() {
            cx.release_flow(self.kept.flow(key));
        }
    }

    /// The datagram of a fragment that was not taken may not have begun.
    fn release_absent(&self, cx: &mut Cx<'_>, key: &Key) {
        if !self.kept.table().has(key) {
            cx.release_flow(self.kept.flow(key));
        }
    }

    /// What every call ends with: the counts, and when the next datagram is overdue.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        cx.count(EVICTED, self.kept.publish());
        let soonest = self.checked.saturating_add(self.period);
        cx.set_deadline(self.kept.table().poll_at().map(|at| at.max(soonest)));
    }

    fn poll_overdue(&mut self, cx: &mut Cx<'_>) {
        let Reassemble { kept, reporter, limits6, .. } = self;
        let (now, mut overdue) = (cx.now, 0);
        kept.poll(now, |expired| {
            overdue += 1;
            let error = expired.quote.and_then(|quote| match limits6 {
                Some(limits) => report6(cx, limits, quote, expired.key.zone),
                None => reporter.report(cx, quote),
            });
            if let Some(error) = error {
                cx.count(TIMEOUTS, 1);
                cx.spawn_new(EXPIRED, Some(error), 0, Priority::High);
            }
        });
        cx.count(OVERDUE, overdue);
        self.release_ended(cx);
    }
}

fn port_of(reject: Reject) -> usize {
    match reject {
        Reject::Overlap | Reject::GivenUp | Reject::Ecn => OVERLAP,
        Reject::NoRoom => FULL,
        _ => MALFORMED,
    }
}

/// The datagram in a frame of its own size. Large frames are kept for datagrams that fit no other:
/// a short one may have to wait for its answer's neighbour, and strangers could fill all large
/// frames with waiting datagrams.
fn delivered(cx: &mut Cx<'_>, room: Room, len: usize) -> Buffer {
    if let Some(mut packet) = (len <= cx.room()).then(|| cx.alloc()).flatten() {
        if packet.append(room.datagram(len)) {
            return packet;
        }
        cx.free(packet);
    }
    room.into_packet(len)
}

/// The datagram as if it had come whole, where its last fragment came.
fn restarted(mut datagram: Buffer, last: &Meta) -> Buffer {
    let flags = last.flags.without(Flags::CHECKSUM_VERIFIED).without(Flags::PARTIAL_CHECKSUM);
    let l3 = datagram.head();
    *datagram.meta_mut() = Meta { l2: NOWHERE, l3, l4: NOWHERE, end: NOWHERE, flags, ..*last };
    datagram
}

/// RFC 1812 §4.3.2.3: as much as fits the longest error.
const MAX_QUOTE: usize = MAX_ERROR_LEN - ipv4::HEADER_LEN - HEADER_LEN;
/// RFC 792: "fragment reassembly time exceeded".
const IN_REASSEMBLY: u8 = 1;

/// Makes errors, within the host's limits.
pub(super) struct Reporter {
    state: StateReader,
    limits: Arc<IcmpLimits>,
}

impl Reporter {
    pub(super) fn new(state: StateReader, limits: Arc<IcmpLimits>) -> Reporter {
        Reporter { state, limits }
    }

    /// The ICMP message about the datagram whose first fragment begins with `first`, addressed to
    /// its sender; `None` if it must not be sent, too many were, or there is no buffer.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>, first: &[u8]) -> Option<Buffer> {
        let header = Ipv4Header::first(first).filter(|header| header.version() == 4)?;
        let state = &**self.state.load();
        may_report(first, false, state).ok()?;
        let cause = Cause::ReassemblyTimeExceeded;
        let rates = state.settings().icmp;
        if !self.limits.take(rates, cause.budget(), header.src(), cx.now) {
            return None;
        }
        let quote = &first[..first.len().min(header.total_len()).min(MAX_QUOTE)];
        let message = IcmpRepr::TimeExceeded { code: IN_REASSEMBLY, quote };
        let mut buffer = cx.alloc()?;
        let (start, len) = (buffer.head(), message.buffer_len());
        if !buffer.set_bounds(start, start.saturating_add(len as u16))
            || message.emit(buffer.data_mut()).is_err()
        {
            cx.free(buffer);
            return None;
        }
        let meta = buffer.meta_mut();
        meta.flags = meta.flags.with(Flags::ENDPOINTS);
        meta.endpoints = Endpoints {
            local: Endpoints::mapped(header.dst().to_bits()),
            remote: Endpoints::mapped(header.src().to_bits()),
            protocol: protocol::ICMP,
            tos: INTERNETWORK_CONTROL,
            ..Endpoints::default()
        };
        Some(buffer)
    }
}

/// The first fragment as it came by `iface`, so far as it was kept, marked as the subject of the
/// ICMPv6 error; `None` as for [`Reporter::report`].
pub(super) fn report6(
    cx: &mut Cx<'_>,
    limits: &Icmp6Limits,
    first: &[u8],
    iface: u16,
) -> Option<Buffer> {
    let mut buffer = cx.alloc()?;
    let start = buffer.head();
    let end = start.saturating_add(first.len() as u16);
    let meta = buffer.meta_mut();
    (meta.l3, meta.end, meta.ethertype, meta.iface) = (start, end, ethertype::IPV6, iface);
    let cause = icmp6::Cause::ReassemblyExceeded;
    if buffer.append(first) && limits.judge(&mut buffer, cause, cx.now) == Verdict::Tell {
        return Some(buffer);
    }
    cx.free(buffer);
    None
}
