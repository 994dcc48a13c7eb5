//! The division of a host's frames: one budget over all pools and all holders, so that they cannot have
//! more together than there are.

use std::fmt;

use weever_engine::Limits;
use weever_link::{FrameNeed, Frames};
use weever_packet::Stock;

/// The least number of tasks that a worker can do with.
const LEAST_TASKS: usize = 32;
/// The least room for packets of one link, and for messages to one worker.
const LEAST_WAITING: usize = 16;
/// The least stock of a worker: one trade with the pool.
const LEAST_STOCK: usize = 64;

/// Holders of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameShare {
    /// Their purpose: `receiving on eth0`.
    pub holder: String,
    /// How many there are.
    pub count: usize,
    /// Frames that each needs.
    pub least: usize,
    /// Frames that each may have.
    pub each: usize,
}

impl FrameShare {
    /// The most that all of them have together.
    pub fn total(&self) -> usize {
        self.count * self.each
    }
}

/// The frames of one pool, divided. Frames without a holder are for packets in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolBudget {
    /// Its purpose; the workers' pool comes first.
    pub pool: String,
    /// Its frames.
    pub frames: usize,
    /// The share of each holder.
    pub shares: Vec<FrameShare>,
    /// What to do if there are too few frames: `{}` stands for the number that is enough.
    remedy: &'static str,
}

/// The frames of a host's pools, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameBudget {
    /// The pools; the workers' first.
    pub pools: Vec<PoolBudget>,
}

impl FrameBudget {
    /// Whether every pool has what its holders need at the least.
    pub fn is_enough(&self) -> bool {
        self.pools.iter().all(|pool| pool.least() <= pool.frames)
    }
}

impl PoolBudget {
    /// The frames that the holders need together at the least.
    pub fn least(&self) -> usize {
        self.shares.iter().map(|share| share.count * share.least).sum()
    }

    /// Adds holders that need `least` frames each and have a use for `most`: they get that, but
    /// beyond `least` at most a `part`th of the frames left when all have their least.
    fn add(&mut self, left: &mut usize, part: usize, want: Want) {
        let Want { holder, count, least, most } = want;
        let each = (*left / part).checked_div(count).unwrap_or(0);
        let more = each.min(most.saturating_sub(least));
        *left -= more * count;
        self.shares.push(FrameShare { holder, count, least, each: least + more });
    }

    /// Divides the frames among holders, each with the part of those left that it gets at most.
    fn divided(mut self, wants: Vec<(usize, Want)>) -> PoolBudget {
        let least: usize = wants.iter().map(|(_, want)| want.count * want.least).sum();
        let mut left = self.frames.saturating_sub(least);
        wants.into_iter().for_each(|(part, want)| self.add(&mut left, part, want));
        self
    }
}

/// The needs of all holders as a table for each pool, which do not fit, and the remedy.
impl fmt::Display for FrameBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut remedies = Vec::new();
        for pool in &self.pools {
            let (least, frames) = (pool.least(), pool.frames);
            writeln!(f, "{least} frames are needed of {}, and it has {frames}:", pool.pool)?;
            for FrameShare { holder, count, least, .. } in &pool.shares {
                writeln!(f, "{:>8}  {holder}: {count} with {least} each", count * least)?;
            }
            if least > frames {
                let enough = least.next_multiple_of(if frames < 1024 { 64 } else { 1024 });
                remedies.push(pool.remedy.replace("{}", &enough.to_string()));
            }
        }
        f.write_str(&remedies.join("; "))
    }
}

/// Large frames, for datagrams that are longer than an ordinary one.
pub(crate) enum LargeFrames {
    /// Those in which datagrams are put together, at most so many of each family.
    Pieces { frames: usize, datagrams: usize },
    /// Those of applications' datagrams on their way out.
    Applications { frames: usize },
}

impl LargeFrames {
    fn divided(self) -> PoolBudget {
        match self {
            LargeFrames::Pieces { frames, datagrams } => {
                let pool = "the large frames for datagrams in pieces".into();
                let remedy = "fewer datagrams in pieces, or {} large frames";
                let budget = PoolBudget { pool, frames, remedy, ..PoolBudget::default() };
                let waiting =
                    |family| want(format!("{family} datagrams in pieces"), 1, datagrams, 0);
                let whole = want("whole datagrams on their way", 1, LEAST_WAITING, frames);
                budget.divided(vec![(1, waiting("IPv4")), (1, waiting("IPv6")), (1, whole)])
            }
            LargeFrames::Applications { frames } => {
                let pool = "the large frames for applications' datagrams".into();
                let remedy = "{} large frames";
                let budget = PoolBudget { pool, frames, remedy, ..PoolBudget::default() };
                budget.divided(vec![(1, want("long datagrams on their way out", 1, 1, frames))])
            }
        }
    }
}

struct Want {
    holder: String,
    count: usize,
    least: usize,
    most: usize,
}

fn want(holder: impl Into<String>, count: usize, least: usize, most: usize) -> Want {
    Want { holder: holder.into(), count, least, most: most.max(least) }
}

/// The queues of one link that have frames of the pool.
pub(crate) struct LinkNeed {
    pub(crate) name: String,
    pub(crate) queues: usize,
    /// The need of each queue.
    pub(crate) need: FrameNeed,
}

/// The results of the budget.
pub(crate) struct Division {
    pub(crate) budget: FrameBudget,
    /// The frames of each queue, by link.
    pub(crate) queues: Vec<Frames>,
    /// The limits of each worker.
    pub(crate) limits: Limits,
    /// Frames that each worker keeps in stock.
    pub(crate) stock: usize,
}

/// Divides the frames of the workers' pool between devices, workers and the packets that wait in them, and
/// those of `large` pools between their holders. `links` are all links, in their order.
///
/// # Errors
/// The budget, if the holders cannot have the frames they need at the least.
pub(crate) fn divide(
    frames: usize,
    workers: usize,
    links: &[LinkNeed],
    large: impl IntoIterator<Item = LargeFrames>,
) -> Result<Division, FrameBudget> {
    let most = Limits::default();
    let mut wants = Vec::new();
    for link in links {
        let FrameNeed { least, most } = link.need;
        let (receive, send) = (least.receive as usize, least.send as usize);
        let name = format!("receiving on {}", link.name);
        wants.push((2, want(name, link.queues, receive, most.receive as usize)));
        let name = format!("being sent by {}", link.name);
        wants.push((4, want(name, link.queues, send, most.send as usize)));
    }
    let outboxes = workers * links.len().max(1);
    let rings = workers * (workers - 1);
    let tasks = (frames / 2 / workers).max(LEAST_TASKS);
    wants.push((4, want("a worker's stock", workers, LEAST_STOCK, Stock::MOST)));
    wants.push((3, want("waiting for a link", outboxes, LEAST_WAITING, most.outbox)));
    // A worker with several queues of a link sorts the packets for it by queue.
    let several = |link: &&LinkNeed| link.queues > workers;
    let backlogs: usize = links.iter().filter(several).map(|link| link.queues).sum();
    wants.push((4, want("waiting for a device's queue", backlogs, LEAST_WAITING, most.backlog)));
    wants.push((4, want("waiting for another worker", rings, LEAST_WAITING, most.ring)));
    wants.push((1, want("waiting tasks of a worker", workers, LEAST_TASKS, tasks)));
    let remedy = "use `pool.frames = {}` or more, fewer cores, or fewer queues";
    let pool = "the workers' pool".into();
    let mut workers = PoolBudget { pool, frames, remedy, ..PoolBudget::default() }.divided(wants);
    let each = |place: usize| workers.shares[place].each;
    let of_link = |link| Frames { receive: each(2 * link) as u32, send: each(2 * link + 1) as u32 };
    let queues = (0..links.len()).map(of_link).collect();
    let rest = 2 * links.len();
    let limits = Limits {
        links: links.len().max(1) as u16,
        outbox: each(rest + 1),
        backlog: each(rest + 2),
        ring: each(rest + 3),
        // Tasks get half of the limit they are told.
        ..Limits::within(2 * each(rest + 4))
    };
    let stock = each(rest);
    workers.shares.retain(|share| share.total() > 0);
    let large = large.into_iter().map(LargeFrames::divided);
    let budget = FrameBudget { pools: std::iter::once(workers).chain(large).collect() };
    if !budget.is_enough() {
        return Err(budget);
    }
    Ok(Division { budget, queues, limits, stock })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(queues: usize) -> LinkNeed {
        let frames = |n| Frames { receive: n, send: n };
        LinkNeed {
            name: "eth0".into(),
            queues,
            need: FrameNeed { least: frames(64), most: frames(1024) },
        }
    }

    fn total(pool: &PoolBudget) -> usize {
        pool.shares.iter().map(FrameShare::total).sum()
    }

    /// Of the workers' pool alone.
    fn divide(frames: usize, workers: usize, links: &[LinkNeed]) -> Result<Division, FrameBudget> {
        super::divide(frames, workers, links, [])
    }

    #[test]
    fn no_division_gives_away_more_than_there_is() {
        for frames in [1024, 2048, 16_384, 1 << 20] {
            for (workers, links, queues) in
                [(1, 1, 1), (2, 1, 2), (2, 2, 8), (8, 2, 8), (16, 3, 16)]
            {
                let links: Vec<_> = (0..links).map(|_| device(queues)).collect();
                match divide(frames, workers, &links) {
                    Ok(Division { budget, limits, queues, .. }) => {
                        let pool = &budget.pools[0];
                        assert!(total(pool) <= frames, "{frames}, {workers}: {budget:?}");
                        let l = limits;
                        let tasks = l.high_total + l.low_total + l.delayed + l.blocked + l.held;
                        assert!(tasks <= pool.shares.last().unwrap().each, "{budget:?}");
                        assert!(queues.iter().all(|q| q.receive >= 64 && q.send >= 64));
                        assert!(l.blocked > 0 && l.delayed > 0 && l.outbox >= LEAST_WAITING);
                    }
                    Err(budget) => assert!(budget.pools[0].least() > frames, "{budget}"),
                }
            }
        }
    }

    #[test]
    fn one_queue_and_one_worker_have_all_they_can_use() {
        let division = divide(16_384, 1, &[device(1)]).unwrap_or_else(|b| panic!("{b}"));
        assert_eq!(division.queues, [Frames { receive: 1024, send: 1024 }]);
        assert_eq!((division.limits.outbox, division.stock), (1024, Stock::MOST));
    }

    #[test]
    fn two_devices_of_eight_queues_leave_frames_to_speak_with() {
        let division = divide(16_384, 2, &[device(8), device(8)]).unwrap_or_else(|b| panic!("{b}"));
        let held: usize = division.queues.iter().map(|q| 8 * (q.receive + q.send) as usize).sum();
        assert!(held <= 16_384 * 7 / 8, "{held} are with the devices");
    }

    #[test]
    fn packets_sorted_by_queue_are_in_the_budget_where_a_worker_has_several_queues() {
        let holder = "waiting for a device's queue";
        for (workers, queues, holders) in [(1, 1, None), (2, 2, None), (2, 8, Some(8))] {
            let division =
                divide(16_384, workers, &[device(queues)]).unwrap_or_else(|b| panic!("{b}"));
            let shares = &division.budget.pools[0].shares;
            let share = shares.iter().find(|share| share.holder == holder);
            assert_eq!(share.map(|share| share.count), holders, "{workers} workers");
            if let Some(share) = share {
                assert_eq!(division.limits.backlog, share.each);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_table_and_a_remedy() {
        let Err(budget) = divide(1024, 4, &[device(16)]) else { panic!("it cannot fit") };
        let text = budget.to_string();
        assert!(text.contains("of the workers' pool, and it has 1024:"), "{text}");
        assert!(text.contains("    1024  receiving on eth0: 16 with 64 each"), "{text}");
        assert!(text.contains("use `pool.frames = 3072` or more"), "{text}");
    }

    #[test]
    fn large_frames_are_in_the_same_budget_and_the_same_table() {
        let large = |frames, datagrams| {
            [LargeFrames::Pieces { frames, datagrams }, LargeFrames::Applications { frames: 64 }]
        };
        let division = super::divide(16_384, 1, &[device(1)], large(192, 64));
        let budget = division.unwrap_or_else(|budget| panic!("{budget}")).budget;
        let each: Vec<usize> = budget.pools[1].shares.iter().map(|share| share.each).collect();
        assert_eq!(each, [64, 64, 64], "both families and what is whole");
        assert_eq!((total(&budget.pools[1]), total(&budget.pools[2])), (192, 64));
        let Err(budget) = super::divide(16_384, 1, &[device(1)], large(128, 64)) else {
            panic!("nothing would be left for whole datagrams")
        };
        let text = budget.to_string();
        assert!(text.contains("      64  IPv6 datagrams in pieces: 1 with 64 each"), "{text}");
        assert!(text.contains("receiving on eth0") && text.contains("long datagrams"), "{text}");
        assert!(text.ends_with("fewer datagrams in pieces, or 192 large frames"), "{text}");
    }
}
