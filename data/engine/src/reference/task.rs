//! One task, from its start node to the disposition of its buffer.

use std::collections::HashMap;

use weever_block::{Claim, Cx, Ports, Requests, When};
use weever_graph::{NodeId, NodeKind, Op};
use weever_packet::{Buffer, Burst, Mask, Nanos};

use super::{Outcome, Record, Reference};
use crate::slots::leads_nowhere;

/// The one task of a burst.
const TASK: Mask = 1;

/// The results of the nodes that have run: the enabled port's name, if one was.
type Values = HashMap<NodeId, Option<String>>;

impl Reference<'_> {
    pub(super) fn run_task(&mut self, start: NodeId, buffer: Option<Buffer>, now: Nanos) {
        let packet = buffer.as_ref().map(|b| b.data().to_vec());
        let mut burst = Burst::new();
        if let Some(buffer) = buffer {
            burst.put(0, buffer);
        }
        let mut values = Values::new();
        let mut asked: HashMap<NodeId, Requests> = HashMap::new();
        let mut stack = vec![start];
        while let Some(id) = stack.pop() {
            if values.get(&id).is_some_and(Option::is_some) || asked.contains_key(&id) {
                continue;
            }
            let port = match self.graph.node(id).kind {
                NodeKind::Operator(op) => self.evaluate(id, op, &values),
                _ => {
                    let mut requests = Requests::new();
                    let port = self.execute(id, &mut burst, &mut requests, now);
                    asked.insert(id, requests);
                    port
                }
            };
            stack.extend(self.successors(id, port.as_deref()));
            values.insert(id, port);
        }
        let enabled = self.in_order(&values);
        let outcome = self.carry_out(&enabled, asked, &mut burst, now);
        self.records.push(Record { start, packet, enabled, outcome });
    }

    fn successors(&self, id: NodeId, port: Option<&str>) -> Vec<NodeId> {
        let node = self.graph.node(id);
        let enabled = port.and_then(|name| node.port(name));
        enabled.map(|p| node.ports[p].targets.clone()).unwrap_or_default()
    }

    /// Each operand is a node with an edge to the operator. It is true or false once it has
    /// enabled the port of that name and that port leads here; before, it is undecided.
    fn evaluate(&self, id: NodeId, op: Op, values: &Values) -> Option<String> {
        let mut sources: Vec<NodeId> =
            self.graph.dataflow().filter(|(_, to)| *to == id).map(|(port, _)| port.node).collect();
        sources.sort();
        sources.dedup();
        let operand = |source: &NodeId| {
            let port = values.get(source).cloned().flatten()?;
            let leads_here = self.successors(*source, Some(&port)).contains(&id);
            leads_here.then_some(port == "true")
        };
        let operands: Vec<Option<bool>> = sources.iter().map(operand).collect();
        let shortcut = matches!(op, Op::Or | Op::Nor);
        let result = if operands.contains(&Some(shortcut)) {
            shortcut
        } else if !operands.is_empty() && operands.iter().all(|o| *o == Some(!shortcut)) {
            !shortcut
        } else {
            return None;
        };
        let result = result != matches!(op, Op::Nand | Op::Nor);
        Some(result.to_string())
    }

    fn execute(
        &mut self,
        id: NodeId,
        burst: &mut Burst,
        requests: &mut Requests,
        now: Nanos,
    ) -> Option<String> {
        let node = &mut self.nodes[id.index()];
        if node.needs_buffer && burst.get(0).is_none() {
            return None;
        }
        let mut masks = vec![0; node.ports.len()];
        let mut cx = Cx::new(now, &mut self.pool, requests);
        let block = node.block.as_mut().expect("only operators have no block");
        block.run(&mut cx, burst, TASK, &mut Ports::new(&mut masks));
        let enabled: Vec<usize> = (0..masks.len()).filter(|i| masks[*i] == TASK).collect();
        let claimed = requests.claims.iter().any(|(_, tasks)| *tasks & TASK != 0);
        assert!(
            enabled.len() + usize::from(claimed) == 1,
            "node {}: ports {enabled:?} enabled, claimed: {claimed}",
            self.graph.node(id).name
        );
        enabled.first().map(|port| node.ports[*port].clone())
    }

    fn in_order(&self, values: &Values) -> Vec<(NodeId, Option<String>)> {
        let order = self.graph.order().iter();
        order.filter_map(|id| values.get(id).map(|port| (*id, port.clone()))).collect()
    }

    fn carry_out(
        &mut self,
        enabled: &[(NodeId, Option<String>)],
        mut asked: HashMap<NodeId, Requests>,
        burst: &mut Burst,
        now: Nanos,
    ) -> Outcome {
        let mut claims = Vec::new();
        let mut notifies = Vec::new();
        for (id, _) in enabled {
            let Some(mut requests) = asked.remove(id) else { continue };
            claims.extend(requests.claims.drain(..).map(|(claim, _)| (*id, claim)));
            notifies.append(&mut self.spawn_and_count(*id, requests, now));
        }
        self.conflicts += claims.len().saturating_sub(1) as u64;
        let outcome = match claims.first() {
            Some((id, claim)) => self.claim(*id, *claim, burst, now, &mut notifies),
            None => self.unclaimed(enabled, burst),
        };
        if let Some(buffer) = burst.take(0) {
            self.pool.free(buffer);
        }
        notifies.into_iter().for_each(|(node, key)| self.queues.wake(node, key));
        outcome
    }

    /// Starts new tasks; returns the notifications to make once the buffer's disposition is
    /// applied.
    fn spawn_and_count(
        &mut self,
        id: NodeId,
        requests: Requests,
        now: Nanos,
    ) -> Vec<(NodeId, Option<u64>)> {
        let node = &self.nodes[id.index()];
        for spawn in requests.spawns {
            let target = node.spawns[spawn.edge as usize];
            match spawn.when {
                When::After(0) => self.queues.enqueue(spawn.priority, target, spawn.buffer),
                When::After(delay) => {
                    self.queues.enqueue_at(now + delay, spawn.priority, target, spawn.buffer);
                }
                When::Buffer | When::Readable(_) => {
                    self.queues.enqueue_when(spawn.when, spawn.priority, target);
                }
            }
        }
        self.counts.extend(requests.counts.iter().map(|(counter, n)| (id, *counter, *n)));
        let notifies = requests.notifies.iter();
        notifies.map(|(edge, key)| (node.notifies[*edge as usize], *key)).collect()
    }

    fn claim(
        &mut self,
        id: NodeId,
        claim: Claim,
        burst: &mut Burst,
        now: Nanos,
        notifies: &mut Vec<(NodeId, Option<u64>)>,
    ) -> Outcome {
        match claim {
            Claim::Spawn { edge, priority } => {
                let target = self.nodes[id.index()].spawns[edge as usize];
                self.queues.enqueue(priority, target, burst.take(0));
                Outcome::Spawned(target)
            }
            Claim::SpawnLater { edge, delay } => {
                let target = self.nodes[id.index()].spawns[edge as usize];
                let due = now + delay;
                self.queues.enqueue_at(due, weever_block::Priority::High, target, burst.take(0));
                Outcome::Spawned(target)
            }
            // There is one worker, which owns every flow.
            Claim::Owner { .. } => {
                self.queues.enqueue(weever_block::Priority::High, id, burst.take(0));
                Outcome::Spawned(id)
            }
            Claim::Transmit { link } => {
                self.sent.extend(burst.take(0).map(|buffer| (link, buffer)));
                Outcome::Sent(link)
            }
            Claim::Collect => {
                let mut requests = Requests::new();
                let mut cx = Cx::new(now, &mut self.pool, &mut requests);
                if let Some(block) = &mut self.nodes[id.index()].block {
                    block.collect(&mut cx, burst, TASK);
                }
                self.conflicts += requests.claims.len() as u64;
                notifies.append(&mut self.spawn_and_count(id, requests, now));
                Outcome::Collected(id)
            }
            Claim::Block { key } => {
                self.queues.block(id, key, burst.take(0));
                Outcome::Blocked(id, key)
            }
        }
    }

    /// The first stated drop reason on the task's path, else the first port that leads nowhere; a task
    /// without a packet has nothing to drop.
    fn unclaimed(&self, enabled: &[(NodeId, Option<String>)], burst: &Burst) -> Outcome {
        if burst.get(0).is_none() {
            return Outcome::Unclaimed;
        }
        let left = |(id, port): &(NodeId, Option<String>)| {
            let node = self.graph.node(*id);
            Some((*id, node, node.port(port.as_deref()?)?))
        };
        let stated = enabled.iter().filter_map(left).find_map(|(id, node, port)| {
            let reason = node.drop_reason(&node.ports[port].name)?;
            Some(Outcome::Dropped(id, reason.into()))
        });
        let used = || {
            let mut ends = enabled.iter().filter_map(left);
            let end = ends.find(|(_, node, port)| node.ends_at(&node.ports[*port].name));
            end.map(|(id, ..)| Outcome::Used(id))
        };
        let nowhere = || {
            let mut ends = enabled.iter().filter_map(left);
            let (id, node, port) = ends.find(|(_, node, p)| node.ports[*p].targets.is_empty())?;
            Some(Outcome::Dropped(id, leads_nowhere(&node.ports[port].name)))
        };
        stated.or_else(used).or_else(nowhere).unwrap_or(Outcome::Unclaimed)
    }
}
