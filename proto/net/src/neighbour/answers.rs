//! How often neighbours' requests for our address are answered.

use core::net::IpAddr;

use crate::limit::SourceLimits;
use crate::random::Key;
use crate::state::Rate;

/// Answers to one source. A neighbour asks once a second while it does not know us, and rarely then.
const RATE: Rate = Rate { per_second: 5, burst: 10 };

/// The limits of answers to requests for our address: one for each source, so that a flood from one is not
/// answered and the others are. Neighbours that we have sent to have buckets apart from those of strangers,
/// whose addresses may be invented without number.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    known: SourceLimits,
    strangers: SourceLimits,
}

impl Answers {
    /// Full buckets; `key` is a secret.
    pub(crate) fn new(key: Key) -> Self {
        Self {
            known: SourceLimits::new(key, RATE),
            strangers: SourceLimits::new([key[0], !key[1]], RATE),
        }
    }

    /// Whether a request from `source` is answered at `now`; counts it if so.
    pub(crate) fn take(&mut self, source: IpAddr, known: bool, now: u64) -> bool {
        if known { self.known.take(source, now) } else { self.strangers.take(source, now) }
    }
}
