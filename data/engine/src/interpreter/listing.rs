//! Listing the flows of a node at this worker, a bounded number in each turn, so that packets do not wait
//! for a list of a hundred thousand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_packet::Nanos;

use super::Engine;
use super::moving::Listing;
use crate::schedule::NO_NODE;

impl Engine {
    /// Goes on with every list.
    pub(super) fn go_on_listing(&mut self, now: Nanos) {
        let mut listings = std::mem::take(&mut self.runtime.flows.listings);
        listings.retain_mut(|listing| {
            match self.list_some(listing, now) {
                Some(next) => listing.next = next,
                None => {
                    let found = std::mem::take(&mut listing.found);
                    listing.order.answer(self.runtime.worker, found);
                    return false;
                }
            }
            true
        });
        self.runtime.flows.listings = listings;
    }

    /// Lists some more; where to go on, or `None` at the end. A worker without the node has no flows of it.
    fn list_some(&mut self, listing: &mut Listing, now: Nanos) -> Option<usize> {
        let entry = self.plan.program.at(listing.order.at)?;
        let node = self.plan.program.entries[entry.index()].node;
        let block = self.blocks.get(node as usize).filter(|_| node != NO_NODE)?.as_ref()?;
        let (from, found) = (listing.next, &mut listing.found);
        match catch_unwind(AssertUnwindSafe(|| block.list_flows(from, found))) {
            Ok(next) => next.filter(|next| *next > from),
            Err(panic) => {
                let name = &self.plan.program.nodes[node as usize].name;
                self.faults.panicked(name, now, &*panic);
                None
            }
        }
    }
}
