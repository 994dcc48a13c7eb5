//! Cutting datagrams up.

use weever_wire::checksum;
use weever_wire::ipv4::{
    self, FLAG_DF, FLAG_MF, Ipv4Options, Ipv4View, MAX_HEADER_LEN, OFFSET_MASK,
};
use weever_wire::ipv6::{self, Ipv6View};

use super::FRAGMENT_HEADER_LEN;
use super::map::UNIT;

/// Headers in front of the payload of an IPv6 fragment, at most.
const MAX_PREFIX: usize = 256;

/// Why a datagram cannot be cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Its sender does not want it ("don't fragment"): report "fragmentation needed".
    #[error("datagram may not be fragmented")]
    Forbidden,
    /// The MTU leaves no room for eight bytes behind the headers.
    #[error("MTU is too small for a fragment")]
    MtuTooSmall,
    /// Its headers are not in order, or too long.
    #[error("malformed datagram")]
    Malformed,
}

/// A datagram on its way into fragments; [`next`](Self::next) writes one after the other.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    payload: &'a [u8],
    sent: usize,
    /// Payload bytes of every fragment but the last.
    share: usize,
    head: Head,
}

#[derive(Clone, Debug)]
enum Head {
    V4 {
        first: [u8; MAX_HEADER_LEN],
        first_len: usize,
        /// RFC 791 §3.1: only options with the copied flag go into the later fragments.
        later: [u8; MAX_HEADER_LEN],
        later_len: usize,
        /// Offset word of the datagram itself: a router's may be a fragment already.
        frag: u16,
    },
    V6 {
        prefix: [u8; MAX_PREFIX],
        len: usize,
    },
}

/// Cuts an IPv4 datagram into fragments of at most `mtu` bytes. Its header gets `ident` unless it
/// is `None`, as for a datagram that already has one; a fragment is cut further.
///
/// # Errors
/// [`SplitError`]; nothing is written.
pub fn split_v4(datagram: &[u8], mtu: usize, ident: Option<u16>) -> Result<Split<'_>, SplitError> {
    let view = Ipv4View::new(datagram).map_err(|_| SplitError::Malformed)?;
    let header = view.header();
    if header.dont_fragment() {
        return Err(SplitError::Forbidden);
    }
    let (mut first, mut later) = ([0; MAX_HEADER_LEN], [0; MAX_HEADER_LEN]);
    let first_len = view.header_bytes().len();
    first[..first_len].copy_from_slice(view.header_bytes());
    if let Some(ident) = ident {
        first[4..6].copy_from_slice(&ident.to_be_bytes());
    }
    later[..ipv4::HEADER_LEN].copy_from_slice(&first[..ipv4::HEADER_LEN]);
    let later_len = ipv4::HEADER_LEN + copied_options(view.options(), &mut later)?;
    later[0] = 0x40 | (later_len / 4) as u8;
    // The first header is the longest: one share for all.
    let share = share(mtu, first_len)?;
    let head = Head::V4 { first, first_len, later, later_len, frag: header.frag() };
    Ok(Split { payload: view.payload(), sent: 0, share, head })
}

/// Cuts an IPv6 packet into fragments of at most `mtu` bytes with the identification `ident`. Only
/// its source may do that (RFC 8200 §4.5).
///
/// # Errors
/// [`SplitError`]; nothing is written. A packet that has a fragment header is malformed here.
pub fn split_v6(packet: &[u8], mtu: usize, ident: u32) -> Result<Split<'_>, SplitError> {
    let view = Ipv6View::new(packet).map_err(|_| SplitError::Malformed)?;
    let packet = &packet[..ipv6::HEADER_LEN + view.payload().len()];
    let (next_at, at) = unfragmentable(packet)?;
    let len = at + FRAGMENT_HEADER_LEN;
    let mut prefix = [0; MAX_PREFIX];
    prefix.get_mut(..at).ok_or(SplitError::Malformed)?.copy_from_slice(&packet[..at]);
    let fragment = prefix.get_mut(at..len).ok_or(SplitError::Malformed)?;
    fragment[0] = packet[next_at];
    fragment[4..].copy_from_slice(&ident.to_be_bytes());
    prefix[next_at] = 44;
    let share = share(mtu, len)?;
    Ok(Split { payload: &packet[at..], sent: 0, share, head: Head::V6 { prefix, len } })
}

/// Payload bytes of a fragment behind `header_len` bytes.
fn share(mtu: usize, header_len: usize) -> Result<usize, SplitError> {
    let room = mtu.saturating_sub(header_len) / UNIT * UNIT;
    if room == 0 { Err(SplitError::MtuTooSmall) } else { Ok(room) }
}

/// Writes the options that are copied behind the fixed header, padded; their length.
fn copied_options(
    options: Ipv4Options<'_>,
    out: &mut [u8; MAX_HEADER_LEN],
) -> Result<usize, SplitError> {
    let mut at = ipv4::HEADER_LEN;
    for option in options {
        let option = option.map_err(|_| SplitError::Malformed)?;
        if option.kind & 0x80 != 0 {
            let len = option.data.len() + 2;
            out[at] = option.kind;
            out[at + 1] = len as u8;
            out[at + 2..at + len].copy_from_slice(option.data);
            at += len;
        }
    }
    Ok(at.next_multiple_of(4) - ipv4::HEADER_LEN)
}

/// RFC 8200 §4.5: the headers that every fragment has are those "up to and including the Routing
/// header if present, else the Hop-by-Hop Options header if present, else no extension headers":
/// (the byte that names the next header, its offset).
fn unfragmentable(packet: &[u8]) -> Result<(usize, usize), SplitError> {
    let (mut next_at, mut at) = (6, ipv6::HEADER_LEN);
    let mut found = (next_at, at);
    loop {
        let kind = packet[next_at];
        if !matches!(kind, 0 | 43 | 60) {
            return if kind == 44 { Err(SplitError::Malformed) } else { Ok(found) };
        }
        let len = *packet.get(at + 1).ok_or(SplitError::Malformed)?;
        (next_at, at) = (at, at + (usize::from(len) + 1) * 8);
        if at > packet.len() {
            return Err(SplitError::Malformed);
        }
        if kind != 60 {
            found = (next_at, at);
        }
    }
}

impl Split<'_> {
    /// How many fragments there are in all.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.share).max(1)
    }

    /// Bytes of the longest of them.
    pub fn max_len(&self) -> usize {
        let head = match &self.head {
            Head::V4 { first_len, .. } => *first_len,
            Head::V6 { len, .. } => *len,
        };
        head + self.share.min(self.payload.len())
    }

    /// Writes the next fragment to the front of `out` and returns its length; `None` at the end, or
    /// if `out` is shorter than [`max_len`](Self::max_len).
    pub fn next(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.sent >= self.payload.len() || out.len() < self.max_len() {
            return None;
        }
        let end = (self.sent + self.share).min(self.payload.len());
        let (data, more) = (&self.payload[self.sent..end], end < self.payload.len());
        let head = self.head.write(out, self.sent, data.len(), more);
        out[head..head + data.len()].copy_from_slice(data);
        self.sent = end;
        Some(head + data.len())
    }
}

impl Head {
    /// Writes the headers of the fragment with `len` bytes of payload from `offset` on.
    fn write(&self, out: &mut [u8], offset: usize, len: usize, more: bool) -> usize {
        match self {
            Head::V4 { first, first_len, later, later_len, frag } => {
                let header = if offset == 0 { &first[..*first_len] } else { &later[..*later_len] };
                let units = (frag & OFFSET_MASK) + (offset / UNIT) as u16;
                let more = if more || frag & FLAG_MF != 0 { FLAG_MF } else { 0 };
                write_v4(out, header, len, units & !FLAG_DF | more);
                header.len()
            }
            Head::V6 { prefix, len: head } => {
                out[..*head].copy_from_slice(&prefix[..*head]);
                let payload = (head - ipv6::HEADER_LEN + len) as u16;
                out[4..6].copy_from_slice(&payload.to_be_bytes());
                let word = offset as u16 | u16::from(more);
                let at = head - FRAGMENT_HEADER_LEN;
                out[at + 2..at + 4].copy_from_slice(&word.to_be_bytes());
                *head
            }
        }
    }
}

fn write_v4(out: &mut [u8], header: &[u8], len: usize, frag: u16) {
    let out = &mut out[..header.len()];
    out.copy_from_slice(header);
    out[2..4].copy_from_slice(&((header.len() + len) as u16).to_be_bytes());
    out[6..8].copy_from_slice(&frag.to_be_bytes());
    out[10..12].fill(0);
    let check = checksum::finish(checksum::sum(out));
    out[10..12].copy_from_slice(&check.to_be_bytes());
}
