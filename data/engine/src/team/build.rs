//! From members to workers.

use std::sync::Arc;

use weever_block::{Env, Registry};
use weever_graph::Graph;

use super::connect::connect;
use super::partition::partition;
use super::publisher::{Publisher, Running, Seat, judge};
use super::queues;
use super::{Member, MemberQueue, Team, TeamError};
use crate::schedule::{Blueprint, Homes, Idps, Numbers, Recipe};
use crate::{Attached, Engine, Schedule, Worker};

impl Team {
    /// Compiles `graph` and makes a worker of each member. Blocks are made of `registry` and `env`
    /// now and at every later change. The workers have their first tasks (`init`) and no thread.
    ///
    /// # Errors
    /// A graph that has no meaning or no implementation, or a queue whose packets have nowhere to
    /// start; each with the names.
    ///
    /// With several members, every worker has a block of its own for each node, and packets walk the
    /// graph on the worker that received them, up to nodes that have one home: types whose state is
    /// single-homed, at the first member, and nodes with the attribute `worker=N`, at member N. What
    /// is for those is handed over.
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
        let registry = registry.with(&[&queues::TO, &queues::FROM]);
        let homes = Homes { workers: members.len() as u16 };
        let logical = judge(graph, &registry)?;
        let physical = partition(&logical, &registry, homes)?;
        let numbers = Numbers::next(&Numbers::default(), &[&physical], &registry, &[]);
        let recipe = Recipe { numbers: &numbers, homes, whole: None, follows: false };
        let plan = Blueprint::compile(physical, &registry, &mut idps, recipe)?;
        let links: Vec<Vec<u16>> =
            members.iter().map(|m| m.queues.iter().map(|q| q.link).collect()).collect();
        let count = members.iter().map(|m| m.limits.links).max().unwrap_or(1);
        let plan = Arc::new(plan);
        let (mut workers, mut seats) = (Vec::new(), Vec::new());
        for mut member in members {
            member.limits.links = count;
            let schedule = Schedule::of(plan.clone(), &registry, &env)?;
            let (worker, seat) = seat(member, schedule)?;
            workers.push(worker);
            seats.push(seat);
        }
        connect(&mut workers, &links, count);
        // Now that each knows where things are at home.
        workers.iter_mut().for_each(|worker| worker.engine().start());
        let plans = vec![plan; seats.len()];
        let running = Running { logical, plans, idps, epoch: 0 };
        let publisher = Publisher::new(seats, registry, env, homes, running);
        Ok(Team { workers, publisher: Arc::new(publisher) })
    }
}

fn seat(member: Member, schedule: Schedule) -> Result<(Worker, Seat), TeamError> {
    let Member { name, pool, limits, queues } = member;
    let engine = Engine::new(schedule, pool, limits);
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
