//! Headers and options of sent segments.

use core::num::NonZeroU16;
use core::ops::Range;

use weever_wire::tcp::{
    MAX_OPTIONS_LEN, MAX_SACK_BLOCKS, Seq, TcpOptionsRepr, TcpRepr, Timestamps, flag,
};

use crate::connection::AckNeed;
use crate::fast_open::{Cookie, FastOpen};
use crate::recovery::Record;
use crate::segment::{Transmit, stamp};
use crate::{Connection, Ecn, EcnMode, NEVER, Nanos, State};

impl Connection {
    /// A segment with the acknowledgement and window as they are, which thereby are sent.
    #[inline(always)]
    pub(super) fn segment(
        &mut self,
        seq: Seq,
        flags: u8,
        payload: Range<u64>,
        now: Nanos,
    ) -> Transmit {
        let mut options = TcpOptionsRepr::default();
        if self.rcv.timestamps {
            options.timestamps = Some(self.timestamps(now));
        }
        let plain = self.rare.is_usual() && self.rcv.ahead.is_empty();
        if !plain && flags & flag::RST == 0 {
            self.put_selective(&mut options);
        }
        self.ack_need = AckNeed::None;
        self.timers.ack = NEVER;
        self.rcv.last_ack = self.rcv.nxt;
        // §3.8.5, MUST-62: the pointer is of "the sequence number of the octet following the urgent data"; as
        // an offset from this segment's number it has 16 bits.
        let mut urgent = 0;
        let with_urgent = !plain && flags & (flag::RST | flag::SYN) == 0;
        if let Some(end) = self.rare.urgent_sent.filter(|_| with_urgent) {
            let from = self.snd.offset(seq);
            urgent = end.saturating_sub(from).min(0xffff) as u16;
        }
        let flags = if urgent > 0 { flags | flag::URG } else { flags };
        let echo = if self.rcv.ecn && self.rcv.echo { flag::ECE } else { 0 };
        let header = TcpRepr {
            src_port: self.tuple.local_port,
            dst_port: self.tuple.remote_port,
            seq: seq.0,
            ack: self.rcv.nxt.0,
            flags: flags | echo,
            window: self.rcv.advertise(self.rcv.scale),
            checksum: 0,
            urgent,
        };
        let piece = self.window.mss;
        Transmit {
            connection: None,
            tuple: self.tuple,
            ecn: Ecn::NotEct,
            header,
            options,
            payload,
            piece,
        }
    }

    /// RFC 7323 §3.2: "TSval ... contains the current value of the timestamp clock"; TSecr echoes
    /// TS.Recent.
    #[inline]
    pub(super) fn timestamps(&self, now: Nanos) -> Timestamps {
        Timestamps { value: stamp(now, self.rcv.stamp_offset), echo: self.rcv.stamp }
    }

    /// Blocks that fit beside the other options.
    #[inline]
    fn selective_count(&self) -> usize {
        if !self.rcv.sack || (self.rare.duplicate.is_none() && self.rcv.ahead.is_empty()) {
            return 0;
        }
        let most = (MAX_OPTIONS_LEN - self.options_len() - 4) / 8;
        let there = self.rcv.ahead.len() + usize::from(self.rare.duplicate.is_some());
        there.min(most).min(MAX_SACK_BLOCKS)
    }

    /// Bytes that blocks will take.
    #[inline]
    pub(super) fn selective_len(&self) -> u32 {
        match self.selective_count() {
            0 => 0,
            count => 4 + 8 * count as u32,
        }
    }

    /// D-SACK first (RFC 2883 §4), then the blocks (RFC 2018 §4).
    #[inline]
    fn put_selective(&mut self, options: &mut TcpOptionsRepr) {
        let count = self.selective_count();
        if count == 0 {
            self.rare.reset(|rare| rare.duplicate = None);
            return;
        }
        let mut blocks = [(Seq(0), Seq(0)); MAX_SACK_BLOCKS];
        let (mut first, mut told) = (0, None);
        if let Some(duplicate) = self.rare.duplicate {
            self.rare.reset(|rare| rare.duplicate = None);
            blocks[0] = duplicate;
            first = 1;
            // RFC 2883 §4.2: a duplicate of octets ahead of RCV.NXT is followed by the block that
            // holds them.
            if let Some(block) = self.rcv.ahead.block_with(duplicate.0).filter(|_| count > 1) {
                blocks[1] = block;
                (first, told) = (2, Some(block.0));
            }
        }
        let got = first + self.rcv.ahead.blocks(told, &mut blocks[first..count.max(first)]);
        options.sack = blocks;
        options.sack_count = got.min(count) as u8;
    }

    /// SYN, with ACK in SYN-RECEIVED.
    pub(super) fn syn(&mut self, now: Nanos) -> Transmit {
        let answer = self.state == State::SynReceived;
        let duplicate = self.rare.duplicate;
        let mut transmit = self.segment(self.snd.iss, flag::SYN, 0..0, now);
        self.rare.reset(|rare| rare.duplicate = duplicate);
        let header = &mut transmit.header;
        // RFC 7323 §2.2: the window of a SYN is not scaled.
        let unread = (self.rcv.received - self.rcv.consumed) as u32;
        header.window = self.rcv.capacity.saturating_sub(unread).min(0xffff) as u16;
        header.flags = flag::SYN;
        if answer {
            header.flags |= flag::ACK;
            header.flags |= if self.rcv.ecn { flag::ECE } else { 0 };
        } else {
            header.ack = 0;
            // RFC 3168 §6.1.1: an ECN-setup SYN has both flags; one that was lost may have been lost
            // because of them (§6.1.1.1).
            let ask = matches!(self.config.ecn, EcnMode::Request | EcnMode::Dctcp);
            header.flags |= if ask && !self.syn.is_lost() { flag::ECE | flag::CWR } else { 0 };
        }
        let whole = self.config.mtu.saturating_sub(self.tuple.ip_header_len() + 20);
        let announced = self.settings.max_segment.map_or(whole, |most| whole.min(most.get()));
        // RFC 7413 §4.1.3.1: a SYN that is sent again goes without the option and octets, which may be why it was
        // lost.
        let cookie = self.rare.fast_open.and_then(|fast| fast.option);
        let cookie = cookie.filter(|_| answer || !self.syn.is_lost());
        transmit.options = TcpOptionsRepr {
            fast_open: cookie.filter(|_| answer == self.passive).map(Cookie::to_option),
            // RFC 9293 §3.7.1, SHLD-5: "TCP implementations SHOULD send an MSS Option in every SYN
            // segment when its receive MSS differs from the default".
            mss: Some(announced),
            window_scale: self.rcv.scaling.then_some(self.rcv.scale),
            sack_permitted: self.rcv.sack,
            timestamps: self.rcv.timestamps.then(|| self.timestamps(now)),
            ..TcpOptionsRepr::default()
        };
        transmit
    }

    /// The first SYN, with as many octets as a cookie allows (RFC 7413 §4.2.2): up to the cached MSS, less all options that
    /// there could be.
    pub(super) fn syn_with_octets(&mut self, now: Nanos) -> Transmit {
        let mut transmit = self.syn(now);
        let Some(fast) = self.rare.fast_open.filter(|_| !self.passive) else { return transmit };
        if fast.option.is_none_or(Cookie::is_empty) {
            return transmit;
        }
        let fits = self.config.mtu.saturating_sub(self.tuple.ip_header_len() + 20);
        let chosen = self.settings.max_segment.map_or(u16::MAX, NonZeroU16::get);
        let whole = fast.mss.min(fits).min(chosen);
        let room = u32::from(whole).saturating_sub(MAX_OPTIONS_LEN as u32);
        let early = self.snd.unsent().min(room);
        if early > 0 {
            let start = self.snd.nxt;
            self.snd.nxt = start + early;
            self.sent.push(Record::new(start, self.snd.nxt, now, false, false));
            self.rare.set().fast_open = Some(FastOpen { early, ..fast });
            transmit.payload = 0..u64::from(early);
            transmit.piece = early;
        }
        transmit
    }

    /// RFC 8257 §3.2: octets that came before marks of congestion began or ended are acknowledged
    /// without, or with, ECE.
    #[inline]
    pub(super) fn early_ack(&mut self, now: Nanos) -> Option<Transmit> {
        let early = self.rare.early_ack?;
        self.rare.reset(|rare| rare.early_ack = None);
        let need = self.ack_need;
        let mut transmit = self.segment(self.acceptable_seq(), flag::ACK, 0..0, now);
        self.ack_need = need.max(AckNeed::Now);
        transmit.header.ack = early.0;
        transmit.header.flags ^= flag::ECE;
        Some(transmit)
    }
}
