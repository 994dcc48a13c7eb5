//! The segment size that a path takes: routers say it (RFC 1191, RFC 8201), timeouts in a row suggest it, and probes
//! find it (RFC 4821).
//!
//! Segments begin as long as the first link and the peer allow. Once they have become shorter, a [`Search`] finds out
//! by longer segments of the stream whether the path takes more by now: at once after a black hole, after some minutes
//! if a router has named the size. It has no timer, since a probe needs data to send. Sizes are octets of a segment
//! with its options and without its header, as an MSS counts them.

use core::num::NonZeroU16;

use weever_net::SECOND;
use weever_wire::tcp::Seq;

use super::rare::Search;
use super::{MIN_MSS, State};
use crate::recovery::Phase;
use crate::segment::Transmit;
use crate::{Connection, Nanos};

/// RFC 4821 §7.3: probing has converged when the sizes in question are no further apart.
const GRAIN: u32 = 16;
/// Between two probes of which the first was lost: it was lost without a reduction of the window, so such losses must
/// be few.
const PAUSE: Nanos = SECOND;
/// When a size that was found is doubted again. RFC 8201 §4 recommends ten minutes; the network layer forgets its own
/// record by then.
const RAISE: Nanos = 660 * SECOND;
/// Full segments behind a probe, by whose reports its loss is found (RFC 4821 §7.4).
const BEHIND: u32 = 3;

impl Connection {
    /// The size in use: eff_pmtu.
    fn size(&self) -> u32 {
        self.window.mss + self.options_len() as u32
    }

    /// The longest size that first link, peer and application allow.
    fn longest(&self) -> u32 {
        let fits = self.config.mtu.saturating_sub(self.tuple.ip_header_len() + 20);
        let chosen = self.settings.max_segment.map_or(u16::MAX, NonZeroU16::get);
        self.snd.peer_mss.min(fits).min(chosen).max(MIN_MSS).into()
    }

    /// Sets the effective segment size from a limit on segments without options.
    pub(crate) fn set_segment_size(&mut self, limit: u16) {
        let whole = u32::from(limit.max(MIN_MSS)).min(self.longest());
        self.window.mss = whole - self.options_len() as u32;
    }

    /// The path is known to take no longer segments than `limit`.
    pub(crate) fn limit_segments(&mut self, limit: u16, now: Nanos) {
        if u32::from(limit) < self.size() {
            self.set_segment_size(limit);
            self.search(u32::from(limit) + 1, self.size(), now, 0);
        }
    }

    /// Goes on searching below `high`, with a probe of `aim` octets after a while; much later if there is nothing
    /// to find now.
    fn search(&mut self, high: u32, aim: u32, now: Nanos, wait: Nanos) {
        if self.size() >= self.longest() {
            return self.rare.reset(|rare| rare.search = None);
        }
        let wait = if aim <= self.size() { RAISE } else { wait };
        self.rare.set().search = Some(Search { high, aim, at: now + wait, probe: None });
    }

    /// The size halfway to `high`; the size in use if that is near enough.
    fn halfway(&self, high: u32) -> u32 {
        let low = self.size();
        if high.saturating_sub(low) <= GRAIN { low } else { (low + high) / 2 }
    }

    /// RFC 5927 §4.1: the sequence number must be one of data that was sent and not acknowledged.
    pub(crate) fn is_in_flight(&self, seq: Seq) -> bool {
        seq.ge(self.snd.una) && seq.lt(self.snd.nxt)
    }

    /// A router says that packets must not exceed `mtu` bytes, and quotes the segment with the number `seq`; whether
    /// that is believed.
    pub(crate) fn take_mtu(&mut self, seq: Seq, mtu: u16, now: Nanos) -> bool {
        let headers = self.tuple.ip_header_len() + 20;
        // RFC 1191 §3: never below 68; RFC 8201 §4: not below 1,280.
        let floor = if self.tuple.local.is_ipv4() { 576 } else { 1280 };
        let limit = mtu.max(floor).saturating_sub(headers);
        if !self.is_in_flight(seq) {
            return false;
        }
        let early =
            self.rare.fast_open.filter(|fast| self.state == State::SynSent && fast.early > 0);
        if let Some(fast) = early {
            // The SYN was too long because of its octets: it goes again without them.
            self.rare.set().fast_open = Some(crate::fast_open::FastOpen { option: None, ..fast });
            self.sent.mark_lost(crate::recovery::Record::is_syn);
            return true;
        }
        if u32::from(limit) >= self.size() {
            return self.take_limit_of_probe(seq, limit.into(), now);
        }
        self.limit_segments(limit, now);
        let mss = self.window.mss;
        self.sent.mark_lost(|record| record.len() > mss + u32::from(record.is_fin()));
        true
    }

    /// The same about a probe, which is longer than other segments: the next one has the size that the router names.
    fn take_limit_of_probe(&mut self, seq: Seq, limit: u32, now: Nanos) -> bool {
        let Some(search) = self.rare.search else { return false };
        let Some((start, end)) = search.probe.filter(|(start, end)| seq.ge(*start) && seq.lt(*end))
        else {
            return false;
        };
        if limit >= search.aim {
            return false;
        }
        self.sent.mark_lost(|record| record.start.ge(start) && record.end.le(end));
        self.search(limit + 1, limit, now, 0);
        true
    }

    /// Large segments may vanish on a path that reports nothing: after the second timeout in a row, smaller ones are
    /// tried. RFC 4821 §7.7: "If eff_pmtu is larger than search_low, set eff_pmtu to search_low."
    pub(crate) fn shrink_for_black_hole(&mut self, now: Nanos) {
        let base: u32 = if self.tuple.local.is_ipv4() { 536 } else { 1220 };
        let large = self.sent.front().is_some_and(|record| record.len() > base);
        if self.rtt.backoff >= 2 && large && self.window.mss > base {
            self.set_segment_size(base as u16 + self.options_len() as u16);
            // It may have been another disturbance: the longest size is tried first.
            let longest = self.longest();
            self.search(longest + 1, longest, now, 0);
        }
    }

    /// Octets of the probe that is due, if one is. New data wait until both windows have room for it. RFC 4821 §7.4:
    /// nothing is being repaired, and enough data follow for its loss to be found without a timeout.
    #[inline]
    pub(crate) fn path_probe(&mut self, now: Nanos) -> Option<u32> {
        let search =
            self.rare.search.filter(|search| search.probe.is_none() && search.at <= now)?;
        let (size, longest) = (self.size(), self.longest());
        if size >= longest {
            self.rare.reset(|rare| rare.search = None);
            return None;
        }
        // §7.3: "When the timer expires, search_high should be reset to its initial value (described above) so that
        // probing can resume."
        let renewed = Search { high: longest + 1, aim: longest, ..search };
        let search = if search.aim <= size { renewed } else { search };
        self.rare.set().search = Some(search);
        let quiet = matches!(self.state, State::Established | State::CloseWait)
            && self.rcv.sack
            && self.recovery.phase == Phase::Open
            && self.sent.sacked + self.sent.lost == 0
            && self.rare.probe_end.is_none()
            && self.payload_room() == self.window.mss;
        let len = search.aim.min(longest) - self.options_len() as u32;
        let needed = len + BEHIND * self.window.mss;
        let room = self.snd.unsent().min(self.snd.wnd).min(self.window.cwnd);
        (quiet && room >= needed).then_some(len)
    }

    /// A probe: a segment of the stream that is longer than others. A caller must not cut it.
    pub(crate) fn send_path_probe(&mut self, len: u32, now: Nanos) -> Transmit {
        let start = self.snd.nxt;
        let mut transmit = self.new_segment(len, false, now);
        transmit.piece = len;
        let probe = Some((start, self.snd.nxt));
        self.rare.reset(|rare| rare.search = rare.search.map(|search| Search { probe, ..search }));
        transmit
    }

    /// An acknowledgement has come. RFC 4821 §7.6.1: "When the probe is delivered, it is an indication that the Path
    /// MTU is at least as large as the probe size."
    pub(crate) fn settle_path_probe(&mut self, now: Nanos) {
        let Some(search) = self.rare.search else { return };
        if search.probe.is_none_or(|(_, end)| self.snd.una.lt(end)) {
            return;
        }
        self.set_segment_size(search.aim.min(u16::MAX.into()) as u16);
        self.search(search.high, self.halfway(search.high), now, 0);
    }

    /// Losses were found; whether it is the probe and nothing else. RFC 4821 §7.6.2: "In this case alone, the loss
    /// SHOULD NOT be interpreted as congestion signal."
    pub(crate) fn only_path_probe_was_lost(&mut self, now: Nanos) -> bool {
        let Some(search) = self.rare.search else { return false };
        let Some((start, end)) = search.probe else { return false };
        let lost = self.sent.lost_between(start, end);
        if lost == 0 || lost != self.sent.lost {
            return false;
        }
        self.search(search.aim, self.halfway(search.aim), now, PAUSE);
        true
    }

    /// A record is sent again. If it is of the probe, it is not known whether that was too long: it is repeated later.
    pub(crate) fn doubt_path_probe(&mut self, (start, end): (Seq, Seq), now: Nanos) {
        let Some(search) = self.rare.search else { return };
        if search.probe.is_some_and(|(from, until)| start.lt(until) && end.gt(from)) {
            self.search(search.high, search.aim, now, PAUSE);
        }
    }
}
