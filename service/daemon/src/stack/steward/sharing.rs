//! Several workers on the queue of what no filter takes, as a policy's `[sharing]` wants it.
//!
//! To share is two steps: workers begin to receive from the first socket of each device queue, and then the
//! program has everything come there that no filter takes. To stop is the same backwards, so that there is no moment
//! in which one worker has it all; no packet is lost in between.

use std::sync::Arc;

use weever_link_sys::af_xdp::ReceiveThreads;
use weever_plan::policy::{Divergence, SharingMode};
use weever_steward::Steward;

use crate::stack::PolicyError;

/// The sharing of a device's queues.
pub(in crate::stack) struct QueueSharing {
    threads: Arc<ReceiveThreads>,
    /// How many workers share.
    many: u16,
    /// `None`: always.
    rule: Option<Divergence>,
    is_shared: bool,
}

impl QueueSharing {
    /// As the steward's policy says, if it does; `threads` is how the device's workers receive.
    ///
    /// # Errors
    /// [`PolicyError::Sharing`] if there are fewer workers, or some are for others alone.
    pub(in crate::stack) fn of(
        steward: &Steward,
        threads: Option<&Arc<ReceiveThreads>>,
    ) -> Result<Option<QueueSharing>, PolicyError> {
        let sharing = steward.policy().document.sharing;
        let Some(sharing) = sharing.filter(|s| s.mode != SharingMode::ScaleOut) else {
            return Ok(None);
        };
        let Some(threads) = threads else {
            let link = steward.name();
            tracing::warn!(link, "the policy's [sharing] has no effect: each queue has one socket");
            return Ok(None);
        };
        let refused = |problem: String| {
            let link = steward.name().to_owned();
            Err(PolicyError::Sharing { link, problem })
        };
        let table = &steward.search().rss().table;
        let is_open = |worker: u16| table.contains(&u32::from(worker));
        // Workers of classes and applications that have a queue for themselves receive nothing else.
        let open = (0..threads.most()).take_while(|worker| is_open(*worker)).count() as u16;
        let many = sharing.threads.unwrap_or(open);
        if many > threads.most() {
            let most = threads.most();
            return refused(format!("`threads = {many}`, and there are {most} workers"));
        }
        if many > open || many == 0 {
            return refused(format!(
                "worker {open} receives nothing but the flows of a class or an application: use fewer \
                 `threads`, or give those the last workers, as by `queues = {{ only = [{}] }}`",
                threads.most() - 1
            ));
        }
        let rule = (sharing.mode == SharingMode::Auto).then(Divergence::default);
        let threads = Arc::clone(threads);
        threads.keep_order(sharing.ordered);
        Ok(Some(QueueSharing { threads, many, rule, is_shared: false }))
    }

    /// Shares or stops to, if it is time for that. `now` is in nanoseconds.
    pub(super) fn step(&mut self, steward: &mut Steward, now: u64) {
        let mut arrived = self.threads.arrived();
        arrived.truncate(self.many.into());
        let wanted = self.rule.as_mut().is_none_or(|rule| rule.step(now, &arrived));
        if wanted == self.is_shared {
            return;
        }
        let (link, threads) = (steward.name().to_owned(), if wanted { self.many } else { 1 });
        if wanted {
            // The number was checked when the device was opened.
            drop(self.threads.set(threads));
        }
        match steward.gather(wanted) {
            Ok(true) => {
                tracing::info!(link, threads, "workers on each queue, by the policy");
                self.is_shared = wanted;
                drop(self.threads.set(threads));
            }
            Ok(false) => self.is_shared = wanted,
            Err(error) => tracing::warn!(link, %error, "cannot change how packets are spread"),
        }
    }
}
