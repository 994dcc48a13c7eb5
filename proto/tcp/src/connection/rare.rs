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
    /// cwnd and ssthresh before a timeout.
    pub(crate) undo: Option<(u32, u32)>,
    /// Fast Open, during the handshake.
    pub(crate) fast_open: Option<FastOpen>,
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
