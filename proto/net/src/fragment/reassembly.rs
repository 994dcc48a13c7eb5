//! Putting datagrams together.

use alloc::boxed::Box;
use core::fmt;

use weever_wire::{checksum, ipv4, ipv6};

use super::map::{Fit, UNIT};
use super::table::{Part, QUOTE, Table};
use super::{Key, Piece, Reject};
use crate::SECOND;

/// Limits of a [`Reassembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// Datagrams in pieces at a time.
    pub datagrams: usize,
    /// Of them, from one source.
    pub per_source: usize,
    /// Bytes of fragments held.
    pub bytes: usize,
    /// How long an IPv4 datagram may take from its first arrival. RFC 1122 §3.3.2 recommends 60
    /// to 120 s, from times when links were slow; every system of today has 30 s or less.
    pub timeout_v4: u64,
    /// The same of IPv6: RFC 8200 §4.5, "within 60 seconds".
    pub timeout_v6: u64,
}

impl Default for ReassemblyConfig {
    /// 64 datagrams of 4 MiB together, 16 of one source; 30 and 60 seconds.
    fn default() -> Self {
        Self {
            datagrams: 64,
            per_source: 16,
            bytes: 4 << 20,
            timeout_v4: 30 * SECOND,
            timeout_v6: 60 * SECOND,
        }
    }
}

/// The result of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Offer<S> {
    /// It was the last one: the datagram is the room's first so many bytes.
    Whole(S, usize),
    /// Others are to come.
    Kept,
    /// It had come before.
    Duplicate,
    /// It was not taken.
    Rejected(Reject),
}

/// A datagram whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<'a> {
    /// Which.
    pub key: Key,
    /// The first bytes of its first fragment, if that one came, to be quoted by an ICMP error
    /// ("time exceeded", code 1). RFC 792: "If fragment zero is not available then no time exceeded
    /// need be sent at all"; RFC 8200 §4.5 says the same.
    pub quote: Option<&'a [u8]>,
}

/// Datagrams in pieces; see the [module's documentation](super). A room `S` is memory for one
/// datagram.
pub struct Reassembler<S> {
    config: ReassemblyConfig,
    table: Table<S>,
    /// The most datagrams at present.
    limit: usize,
    evicted: u64,
}

impl<S> fmt::Debug for Reassembler<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reassembler({} datagrams, {} bytes)", self.table.len(), self.table.bytes)
    }
}

impl<S: AsMut<[u8]>> Reassembler<S> {
    /// Nothing in pieces yet. Allocates all it will ever need: about 3.3 KiB per datagram.
    pub fn new(config: ReassemblyConfig) -> Self {
        let config = ReassemblyConfig { datagrams: config.datagrams.max(1), ..config };
        let (table, limit) = (Table::new(config.datagrams), config.datagrams);
        Self { config, table, limit, evicted: 0 }
    }

    /// Holds no more than `datagrams` from the next new one on, where the caller's memory is short; never more
    /// than the configuration allows, nor less than one.
    pub fn limit(&mut self, datagrams: usize) {
        self.limit = datagrams.clamp(1, self.config.datagrams);
    }

    /// Takes a fragment. `room` supplies the memory for a datagram that is new.
    pub fn offer(
        &mut self,
        piece: &Piece<'_>,
        now: u64,
        room: impl FnMut() -> Option<S>,
    ) -> Offer<S> {
        self.table.note_ended();
        let at = match self.table.find(&piece.key) {
            Some(at) => at,
            None => match self.begin(piece, now, room) {
                Some(at) => at,
                None => return Offer::Rejected(Reject::NoRoom),
            },
        };
        match self.store(at, piece) {
            Ok(true) if self.is_whole(at) => self.finish(at),
            Ok(true) => Offer::Kept,
            Ok(false) => Offer::Duplicate,
            Err(Reject::GivenUp) => Offer::Rejected(Reject::GivenUp),
            Err(reject) => {
                self.table.poison(at);
                Offer::Rejected(reject)
            }
        }
    }

    /// Gives up overdue datagrams; calls `f` for each.
    pub fn poll(&mut self, now: u64, mut f: impl FnMut(Expired<'_>)) {
        self.table.note_ended();
        while let Some(at) = self.table.expired(now) {
            let (datagram, storage) = self.table.get(at);
            let quote = (datagram.quoted > 0 && datagram.room.is_some())
                .then(|| &storage.quote[..datagram.quoted]);
            f(Expired { key: datagram.key, quote });
            self.table.remove(at);
        }
    }

    /// The datagrams that the last [`offer`](Self::offer) or [`poll`](Self::poll) has ended: they became whole, had
    /// to leave for others, or their time was over.
    pub fn ended(&self) -> &[Key] {
        self.table.ended()
    }

    /// Whether pieces of a datagram are here, or it was given up and not forgotten.
    pub fn has(&self, key: &Key) -> bool {
        self.table.find(key).is_some()
    }

    /// The datagrams in pieces, those that were given up and not forgotten included.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.table.keys()
    }

    /// Gives a datagram away, for another reassembler to go on with. Allocates.
    pub fn take(&mut self, key: &Key) -> Option<Box<Part<S>>> {
        let at = self.table.find(key)?;
        Some(self.table.take(at))
    }

    /// Goes on with a datagram of another reassembler.
    ///
    /// # Errors
    /// The datagram, if one with the same key is here or there is no room.
    pub fn put(&mut self, part: Box<Part<S>>) -> Result<(), Box<Part<S>>> {
        match self.table.len() >= self.limit || self.has(&part.datagram.key) {
            true => Err(part),
            false => self.table.put(part),
        }
    }

    /// When [`poll`](Self::poll) has something to do next.
    pub fn poll_at(&self) -> Option<u64> {
        self.table.next_deadline()
    }

    /// Datagrams in pieces, those that were given up and not forgotten included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Bytes of fragments held.
    pub fn bytes(&self) -> usize {
        self.table.bytes
    }

    /// Datagrams that had to leave for others, since the beginning.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn begin(
        &mut self,
        piece: &Piece<'_>,
        now: u64,
        mut room: impl FnMut() -> Option<S>,
    ) -> Option<usize> {
        let source = piece.key.source();
        if self.table.of_source(source) >= self.config.per_source.max(1) {
            let oldest = self.table.oldest_of(source)?;
            self.evict(oldest);
        }
        while self.table.len() >= self.limit || self.table.bytes >= self.config.bytes {
            let victim = self.table.victim()?;
            self.evict(victim);
        }
        let room = match room() {
            Some(room) => room,
            // The caller's memory is all in datagrams that lie here, or elsewhere: one try.
            None => {
                let victim = self.table.victim()?;
                self.evict(victim);
                room()?
            }
        };
        let timeout = match piece.key.src {
            core::net::IpAddr::V4(_) => self.config.timeout_v4,
            core::net::IpAddr::V6(_) => self.config.timeout_v6,
        };
        self.table.add(piece.key, room, now.saturating_add(timeout))
    }

    fn evict(&mut self, at: usize) {
        self.evicted += 1;
        self.table.remove(at);
    }

    /// Stores the fragment; false if it had come before.
    fn store(&mut self, at: usize, piece: &Piece<'_>) -> Result<bool, Reject> {
        let (datagram, storage) = self.table.get_mut(at);
        let room = datagram.room.as_mut().ok_or(Reject::GivenUp)?.as_mut();
        let (first, units) = (piece.offset / UNIT, piece.data.len().div_ceil(UNIT));
        let end = piece.offset + piece.data.len();
        let start = piece.fixed_len + piece.offset;
        match storage.map.fit(first, units) {
            Fit::Fresh => {}
            Fit::Same => {
                let same = room[start..][..piece.data.len()] == *piece.data;
                let agrees = datagram.total == (!piece.more).then_some(end)
                    || (piece.more && datagram.total.is_some_and(|total| end < total));
                return if same && agrees { Ok(false) } else { Err(Reject::Overlap) };
            }
            Fit::Overlap => return Err(Reject::Overlap),
        }
        if datagram.total.is_some_and(|total| end > total || !piece.more) {
            return Err(Reject::Overlap);
        }
        if !piece.more && storage.map.reaches(first + units) {
            return Err(Reject::Overlap);
        }
        // Before anything of it is kept or counted: a header has to fit into the remembered bytes.
        if piece.is_first() && piece.header_len >= piece.packet.len().min(QUOTE) {
            return Err(Reject::Malformed);
        }
        room.get_mut(start..start + piece.data.len())
            .ok_or(Reject::TooLong)?
            .copy_from_slice(piece.data);
        storage.map.add(first, units);
        datagram.ecn |= piece.ecn;
        datagram.bytes += piece.data.len();
        datagram.fragments += 1;
        if !piece.more {
            datagram.total = Some(end);
        }
        if piece.is_first() {
            let quoted = piece.packet.len().min(QUOTE);
            storage.quote[..quoted].copy_from_slice(&piece.packet[..quoted]);
            (datagram.quoted, datagram.header_len, datagram.next) =
                (quoted, piece.header_len, piece.next);
        }
        self.table.bytes += piece.data.len();
        Ok(true)
    }

    fn is_whole(&self, at: usize) -> bool {
        let (datagram, storage) = self.table.get(at);
        datagram.total.is_some_and(|total| storage.map.is_whole(total.div_ceil(UNIT)))
    }

    fn finish(&mut self, at: usize) -> Offer<S> {
        let (datagram, storage) = self.table.get_mut(at);
        let (total, header_len) = (datagram.total.unwrap_or(0), datagram.header_len);
        let header = &storage.quote[..header_len];
        let Some(room) = datagram.room.as_mut() else { return Offer::Rejected(Reject::GivenUp) };
        let made = assemble(room.as_mut(), header, total, datagram.next, datagram.ecn);
        let datagram = self.table.remove(at);
        match (made, datagram.room) {
            (Ok(()), Some(room)) => Offer::Whole(room, header_len + total),
            (Err(reject), _) => Offer::Rejected(reject),
            (_, None) => Offer::Rejected(Reject::GivenUp),
        }
    }
}

/// Puts the header in front of `total` bytes of payload, which lie behind a fixed header's length.
fn assemble(
    room: &mut [u8],
    header: &[u8],
    total: usize,
    next: Option<(usize, u8)>,
    ecn: u8,
) -> Result<(), Reject> {
    let fixed_len = if next.is_some() { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let len = header.len() + total;
    if len > super::MAX_DATAGRAM || len > room.len() {
        return Err(Reject::TooLong);
    }
    // RFC 3168 §5.3: not both "congestion experienced" and "not capable".
    let congested = ecn & 0b1000 != 0;
    if congested && ecn & 0b0001 != 0 {
        return Err(Reject::Ecn);
    }
    if header.len() > fixed_len {
        room.copy_within(fixed_len..fixed_len + total, header.len());
    }
    let (front, _) = room.split_at_mut(header.len());
    front.copy_from_slice(header);
    match next {
        Some((at, protocol)) => {
            front[at] = protocol;
            front[1] |= if congested { 0x30 } else { 0 };
            let payload = (len - ipv6::HEADER_LEN) as u16;
            front[4..6].copy_from_slice(&payload.to_be_bytes());
        }
        None => finish_v4(front, len as u16, congested),
    }
    Ok(())
}

fn finish_v4(header: &mut [u8], len: u16, congested: bool) {
    header[1] |= if congested { 3 } else { 0 };
    header[2..4].copy_from_slice(&len.to_be_bytes());
    // The identification may stay; flags and offset are those of a whole datagram.
    header[6..8].fill(0);
    header[10..12].fill(0);
    let check = checksum::finish(checksum::sum(header));
    header[10..12].copy_from_slice(&check.to_be_bytes());
}
