//! From members to workers.

use std::sync::Arc;

use weever_blocks_api::{Env, Registry};
use weever_graph::Graph;

use super::publisher::{Publisher, Running, Seat};
use super::{Member, MemberQueue, Team, TeamError};
use crate::schedule::{Blueprint, Idps};
use crate::{Attached, Engine, Schedule, Worker};

impl Team {
    /// Compiles `graph` and makes a worker of each member. Blocks are made of `registry` and `env`
    /// now and at every later change. The workers have their first tasks (`init`) and no thread.
    ///
    /// # Errors
    /// A graph that has no meaning or no implementation, or a queue whose packets have nowhere to
    /// start; each with the names.
    pub fn build(
        graph: Graph,
        registry: Registry,
        env: Arc<Env>,
        members: Vec<Member>,
    ) -> Result<Team, TeamError> {
        if members.is_empty() {
            return Err(TeamError::Empty);
        }
        let mut idps = Idps::new();
        let logical = super::publisher::judge(graph, &registry)?;
        let plan = Blueprint::compile(logical.clone(), &registry, &mut idps, None, &[])?;
        let plan = Arc::new(plan);
        let (mut workers, mut seats) = (Vec::new(), Vec::new());
        for member in members {
            let schedule = Schedule::of(plan.clone(), &registry, &env)?;
            let (worker, seat) = seat(member, schedule)?;
            workers.push(worker);
            seats.push(seat);
        }
        let running = Running { logical, plan, idps, epoch: 0 };
        let publisher = Publisher::new(seats, registry, env, running);
        Ok(Team { workers, publisher: Arc::new(publisher) })
    }
}

fn seat(member: Member, schedule: Schedule) -> Result<(Worker, Seat), TeamError> {
    let Member { name, pool, limits, queues } = member;
    let mut engine = Engine::new(schedule, pool, limits);
    engine.start();
    let sources = queues.iter().map(|q| (q.link, q.source.clone())).collect();
    let attach = |queue| attach(&name, &engine, queue);
    let attached = queues.into_iter().map(attach).collect::<Result<_, _>>()?;
    let failed = |source| TeamError::Worker { worker: name.clone(), source };
    let mut worker = Worker::new(engine, attached).map_err(failed)?;
    let (mailbox, waker) = (worker.join_team(), worker.waker());
    Ok((worker, Seat { name, mailbox, waker, sources }))
}

fn attach(worker: &str, engine: &Engine, queue: MemberQueue) -> Result<Attached, TeamError> {
    let MemberQueue { link, source, queue } = queue;
    match engine.entry(&source) {
        Some(entry) => Ok(Attached { link, entry, queue }),
        None => Err(TeamError::NoSource { worker: worker.into(), link, node: source }),
    }
}
