//! Who holds frames: the budget of all pools, and applications' own memory.

use weever_app_server::AppServer;
use weever_blocks_std::host::Fragments;
use weever_host::{FrameShare, HostHandle};
use weever_packet::Pool;
use weever_service_api::{PoolCounters, PoolShare};

/// The pool of the workers, without the shares of its holders.
pub(in crate::stack) fn workers(host: &HostHandle) -> PoolCounters {
    counters("", &host.pool)
}

/// All pools, with the shares of those who hold their frames.
pub(in crate::stack) fn pools(
    host: &HostHandle,
    applications: Option<&AppServer>,
) -> Vec<PoolCounters> {
    let mut all = vec![workers(host)];
    let fragments = host.env.get_or_default::<Fragments>();
    all.extend(fragments.memory().map(|pool| counters("datagrams in pieces", pool)));
    let long = applications.and_then(AppServer::large);
    all.extend(long.map(|pool| counters("applications' long datagrams", pool)));
    // The budget has the same pools in the same order.
    for (pool, budget) in all.iter_mut().zip(&host.budget.pools) {
        pool.shares = budget.shares.iter().map(share).collect();
    }
    all
}

/// The frames of applications' own, by application queue.
pub(in crate::stack) fn own(applications: &AppServer) -> Vec<PoolShare> {
    let share = |queue: weever_app_server::QueueStatus| PoolShare {
        holder: format!("{} (process {})", queue.owner.name, queue.owner.pid),
        count: applications.workers() as u64,
        each: u64::from(queue.frames),
    };
    applications.queues().map(share).collect()
}

fn counters(holder: &str, pool: &Pool) -> PoolCounters {
    let (frames, available) = (pool.frames() as u64, pool.available() as u64);
    PoolCounters { holder: holder.into(), frames, available, shares: Vec::new() }
}

fn share(share: &FrameShare) -> PoolShare {
    PoolShare { holder: share.holder.clone(), count: share.count as u64, each: share.each as u64 }
}
