//! The report of a stack that has stopped.

use weever_service_api::Counters;

/// The totals of a stack's work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The last counters.
    pub counters: Counters,
    /// Why a worker ended before it was told to, if one did.
    pub failure: Option<String>,
}

impl Report {
    /// Packets received and sent by the link, and dropped anywhere.
    pub fn totals(&self) -> (u64, u64, u64) {
        let links = self.counters.links.iter();
        let (received, sent) =
            links.fold((0, 0), |(rx, tx), link| (rx + link.rx_packets, tx + link.tx_packets));
        (received, sent, self.counters.drops.iter().map(|d| d.packets).sum())
    }
}
