//! Sending errors: when one may be sent, and how much it quotes.

use weever_wire::icmpv4::{HEADER_LEN, kind};
use weever_wire::ipv4::{self, Ipv4Header, protocol};

use crate::addr::Ours;

/// Bytes of the longest datagram that reports an error: RFC 1812 §4.3.2.3, "SHOULD contain as much
/// of the original datagram as possible without the length of the ICMP datagram exceeding 576
/// bytes". RFC 1122 §3.2.2 asks for the header and eight bytes at least.
pub const MAX_ERROR_LEN: usize = 576;

/// The type of service of errors: RFC 1812 §4.3.2.5, they "SHOULD have their precedence field set to 6
/// (INTERNETWORK CONTROL) or 7 (NETWORK CONTROL)".
pub const INTERNETWORK_CONTROL: u8 = 6 << 5;

const MAX_QUOTE: usize = MAX_ERROR_LEN - ipv4::HEADER_LEN - HEADER_LEN;

/// Why an error must not be reported. RFC 1122 §3.2.2: "An ICMP error message MUST NOT be sent as
/// the result of receiving" any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Silence {
    /// The datagram is shorter than its header.
    #[error("no whole header to quote")]
    Truncated,
    /// "an ICMP error message"
    #[error("about an ICMP error")]
    AboutAnError,
    /// "a datagram destined to an IP broadcast or IP multicast address"
    #[error("about a broadcast or multicast datagram")]
    ToGroup,
    /// "a datagram sent as a link-layer broadcast"
    #[error("about a link-layer broadcast")]
    LinkBroadcast,
    /// "a non-initial fragment"
    #[error("about a later fragment")]
    LaterFragment,
    /// "a datagram whose source address does not define a single host"
    #[error("about a datagram from no single host")]
    SourceNotAHost,
}

/// Whether an error about `datagram` may be reported; `link_group` says that its frame was sent to
/// all stations or a group of them.
///
/// # Errors
/// The rule which forbids it.
pub fn may_report(datagram: &[u8], link_group: bool, ours: &impl Ours) -> Result<(), Silence> {
    let header = Ipv4Header::first(datagram).ok_or(Silence::Truncated)?;
    let l4 = header.header_len();
    if l4 < ipv4::HEADER_LEN || datagram.len() < l4 {
        return Err(Silence::Truncated);
    }
    let dst = header.dst();
    if dst.is_multicast() || dst.is_broadcast() || ours.is_subnet_broadcast(dst) {
        Err(Silence::ToGroup)
    } else if link_group {
        Err(Silence::LinkBroadcast)
    } else if header.is_later_fragment() {
        Err(Silence::LaterFragment)
    } else if ours.check_source(header.src()).is_err() {
        Err(Silence::SourceNotAHost)
    } else if header.protocol() == protocol::ICMP && !is_query(datagram, l4) {
        Err(Silence::AboutAnError)
    } else {
        Ok(())
    }
}

/// Whether an ICMP message is surely no error; one without a type could be anything.
fn is_query(datagram: &[u8], l4: usize) -> bool {
    datagram.get(l4).is_some_and(|&kind| !kind::is_error(kind))
}

/// How much of `datagram` an error quotes; not the padding of a short frame.
pub fn quote_len(datagram: &[u8]) -> usize {
    let said = Ipv4Header::first(datagram).map_or(usize::MAX, Ipv4Header::total_len);
    datagram.len().min(said).min(MAX_QUOTE)
}

#[cfg(test)]
mod tests;
