//! The sender's state of losses and their repair.

use weever_wire::tcp::Seq;

use super::rack::Rack;
use crate::congestion::Validation;
use crate::connection::Resend;

/// The phases of loss repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Losses are being repaired, up to [`Recovery::point`].
    Recovery,
    /// The retransmission timer ran out.
    Loss,
}

/// Steps of F-RTO (RFC 5682 §3.1): was the timeout spurious?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// It was not, or the test is off.
    Off,
    /// Step 2: the first acknowledgement after the timeout decides how to go on.
    First,
    /// Step 3: new data was sent; the next acknowledgement tells.
    NewData,
}

/// The sender's view of losses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    pub(crate) frto: Frto,
    /// Where a phase ends: SND.NXT when it began (recover of RFC 6582).
    pub(crate) point: Seq,
    /// Acknowledgements in a row that repeat another.
    pub(super) duplicates: u8,
    /// Octets that duplicates stand for, without SACK.
    pub(super) duplicate_octets: u32,
    pub(crate) rack: Rack,
    /// The action when the resend timer runs out.
    pub(crate) resend: Resend,
    /// TLP.is_retrans.
    pub(crate) probe_is_retransmission: bool,
    pub(crate) validation: Validation,
    /// The window was the reason why not more was sent.
    pub(crate) limited: bool,
    /// Segments that were sent again, up to 65,535: an idle connection has no room for more.
    pub(crate) resent: u16,
}

impl Recovery {
    pub(crate) fn new(iss: Seq) -> Self {
        Self {
            phase: Phase::Open,
            frto: Frto::Off,
            point: iss,
            duplicates: 0,
            duplicate_octets: 0,
            rack: Rack::new(iss),
            resend: Resend::Timeout,
            probe_is_retransmission: false,
            validation: Validation::default(),
            limited: false,
            resent: 0,
        }
    }
}
