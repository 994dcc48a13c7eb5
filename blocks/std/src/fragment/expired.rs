//! The error about a datagram whose time was over before it was whole.

use std::sync::Arc;

use weever_block::{Buffer, Cx};
use weever_net::icmp::{Cause, INTERNETWORK_CONTROL, MAX_ERROR_LEN, may_report};
use weever_net::icmp6;
use weever_packet::{Endpoints, Flags};
use weever_wire::ethernet::ethertype;
use weever_wire::icmpv4::{HEADER_LEN, IcmpRepr};
use weever_wire::ipv4::{self, Ipv4Header, protocol};

use crate::host::StateReader;
use crate::icmp::IcmpLimits;
use crate::icmp6::{Icmp6Limits, Verdict};

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
