//! Blocks are asked about their flows. A worker lists them in parts, a bounded number in each turn, so that
//! packets do not wait for a list of a hundred thousand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weever_block::Block;
use weever_packet::Nanos;

use super::Engine;
use super::moving::Listing;
use crate::schedule::NO_NODE;

impl Engine {
    /// Calls a node's block about its flows. `None` if there is no block, or if it panics: then a fresh one
    /// takes its place as after a panic in a walk, and the node's flows at this worker have ended.
    pub(super) fn ask_block<T>(
        &mut self,
        node: u32,
        now: Nanos,
        ask: impl FnOnce(&mut dyn Block) -> T,
    ) -> Option<T> {
        let block = self.blocks.get_mut(node as usize)?.as_mut()?;
        self.state.running = node;
        match catch_unwind(AssertUnwindSafe(|| ask(block.as_mut()))) {
            Ok(answer) => {
                self.state.running = NO_NODE;
                Some(answer)
            }
            Err(panic) => {
                self.replace_after_question(panic, now);
                None
            }
        }
    }

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

    /// Lists some more; where to go on, or `None` at the end. A worker without the node has no flows of it, and
    /// those that a block has listed end when it panics.
    fn list_some(&mut self, listing: &mut Listing, now: Nanos) -> Option<usize> {
        let entry = self.plan.program.at(listing.order.at)?;
        let node = self.plan.program.node_of(entry)?;
        let (from, found) = (listing.next, &mut listing.found);
        let Some(next) = self.ask_block(node, now, |block| block.list_flows(from, found)) else {
            listing.found.clear();
            return None;
        };
        next.filter(|next| *next > from)
    }
}
