//! State that most connections never need: it is kept apart, and only once there is something to
//! keep.

use core::ops::Deref;

use weever_wire::tcp::Seq;

use crate::congestion::Prr;
use crate::fast_open::FastOpen;
use crate::{NEVER, Nanos};

/// State of losses, challenges, pacing and urgent data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rare {
    /// RACK's reordering timer, while it runs.
    pub(crate) reorder: Nanos,
    /// The next segment may go out (pacing).
    pub(crate) pace: Nanos,
    /// When the next segment would leave at the pace of the window.
    pub(crate) pace_next: Nanos,
    /// An answer to an unacceptable segment was sent.
    pub(crate) challenged: Nanos,
    /// The stream offset behind urgent data of the peer's.
    pub(crate) urgent: Option<u64>,
    /// The stream offset behind urgent data of ours that is not acknowledged yet.
    pub(crate) urgent_sent: Option<u64>,
    /// Octets that arrived twice, to be reported once (RFC 2883).
    pub(crate) duplicate: Option<(Seq, Seq)>,
    /// RCV.NXT before marks of congestion began or ended: to be acknowledged first (RFC 8257 §3.2).
    pub(crate) early_ack: Option<Seq>,
    pub(crate) prr: Prr,
    /// Reactions to marks of congestion wait until this is acknowledged.
    pub(crate) reduced_until: Option<Seq>,
    /// TLP.end_seq: a probe of the tail is out.
    pub(crate) probe_end: Option<Seq>,
    /// The window before the last reduction, while that may turn out to be a mistake.
    pub(crate) undo: Option<Undo>,
    /// A search for longer segments, while they are shorter than they might be.
    pub(crate) search: Option<Search>,
    /// Fast Open, during the handshake.
    pub(crate) fast_open: Option<FastOpen>,
}

/// A search for longer segments. search_low of RFC 4821 §7.1 is the size in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    /// search_high: "Packets of size search_high are expected to be too large for the network to deliver".
    pub(crate) high: u32,
    /// The size of the next probe; not more than the size in use: the search has converged.
    pub(crate) aim: u32,
    /// When it may leave.
    pub(crate) at: Nanos,
    /// The sequence numbers of the probe in flight.
    pub(crate) probe: Option<(Seq, Seq)>,
}

/// The window before a reduction, and what was sent again since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    /// SND.UNA and SND.NXT when it was reduced: octets between them are sent again.
    pub(crate) from: Seq,
    pub(crate) until: Seq,
    /// Octets that were sent again.
    pub(crate) resent: u32,
    /// Octets of which the peer says that they came twice.
    pub(crate) twice: u32,
    /// SND.NXT at the end of the repair: once later octets are acknowledged, no more reports come.
    pub(crate) last: Option<Seq>,
}

static USUAL: Rare = Rare {
    reorder: NEVER,
    pace: NEVER,
    pace_next: 0,
    challenged: 0,
    urgent: None,
    urgent_sent: None,
    duplicate: None,
    early_ack: None,
    prr: Prr::NONE,
    reduced_until: None,
    probe_end: None,
    undo: None,
    search: None,
    fast_open: None,
};

/// One pointer; reads as [`Rare`] with the usual values as long as none of them was changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seldom(Option<Box<Rare>>);

impl Seldom {
    /// To change a value to something that is not the usual one.
    pub(crate) fn set(&mut self) -> &mut Rare {
        self.0.get_or_insert_with(|| Box::new(USUAL))
    }

    /// To change values back, if any was changed.
    #[inline]
    pub(crate) fn reset(&mut self, change: impl FnOnce(&mut Rare)) {
        if let Some(rare) = &mut self.0 {
            change(rare);
        }
    }

    /// Whether all values are the usual ones for certain.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes that it takes up beside itself.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        if self.0.is_some() { size_of::<Rare>() } else { 0 }
    }

    /// Gives memory back if all values are the usual ones, apart from when something happened last.
    pub(crate) fn trim(&mut self, now: Nanos) {
        let long_ago = |at: Nanos| now.saturating_sub(at) > weever_net::SECOND;
        let rare = &**self;
        let (pace_next, challenged, prr) = (rare.pace_next, rare.challenged, rare.prr);
        let rest = Rare { pace_next, challenged, prr, ..USUAL };
        if *rare == rest && long_ago(pace_next) && long_ago(challenged) {
            self.0 = None;
        }
    }
}

impl Deref for Seldom {
    type Target = Rare;

    #[inline]
    fn deref(&self) -> &Rare {
        self.0.as_deref().unwrap_or(&USUAL)
    }
}
