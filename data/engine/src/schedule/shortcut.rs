//! Finds the ways of compiled runs in a graph, by following them as a task would.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use weever_block::{BlockType, MAX_COUNTERS, MAX_WAYS, NodeWay, RunProgram, RunStart};
use weever_graph::{NodeId, NodeKind, Op};

use super::builder::{EntryBuilder, EntrySlots, append};
use super::program::{KnownRun, Run, ShortcutPlan, ShortcutSource, StepKind, Steps, WayPlan};
use crate::slots::Counter;

/// The effect of a way on a task.
#[derive(Default)]
struct Walked {
    /// The nodes that it passes, and the port by which it leaves each.
    left_by: HashMap<NodeId, u32>,
    /// The nodes that it reaches and that run as usual.
    ends: BTreeSet<NodeId>,
}

impl EntryBuilder<'_> {
    /// The run that begins at a node, unless another takes packets past it, as an index into the entry's shortcuts.
    pub(super) fn shortcut(
        &mut self,
        start: NodeId,
        order: &[NodeId],
        layout: &EntrySlots,
    ) -> Option<u32> {
        if self.covered.contains(&start) && !self.resumed.contains(&start) {
            return None;
        }
        let run = self.run(start)?;
        let follow = |way: &NodeWay| self.follow_nodes(way, start, order);
        let ways: Vec<_> = run.ways.iter().take(MAX_WAYS).map(follow).collect();
        Some(self.add_shortcut(&run, start, &ways, (order, layout)))
    }

    /// The run that begins at a node. Another entry that reaches the node has the same.
    fn run(&mut self, start: NodeId) -> Option<Run<NodeId>> {
        if let Some(known) = self.runs.get(&start) {
            return known.clone();
        }
        let type_of = |node: NodeId| self.nodes[node.index()].block_type;
        let (graph, order, incoming) = (self.graph, self.order, self.incoming);
        let begin = RunStart { graph, order, incoming, node: start, type_of: &type_of };
        let (compiler, place) = (self.compiler?, self.nodes[start.index()].place);
        let before = compiler.before(&begin);
        let found = match self.previous_run(start, before) {
            Some(known) => known,
            None => {
                let run = compiler.compile(&begin);
                run.map(|run| Run {
                    number: self.number(start, run.program),
                    ways: run.ways.into(),
                    counters: run.counters.into(),
                })
            }
        };
        let place_of = |node: NodeId| Some(self.nodes[node.index()].place);
        let known = found.as_ref().and_then(|run| run.renamed(place_of));
        self.known_runs.insert(place, KnownRun { before, found: known });
        self.runs.insert(start, found.clone());
        found
    }

    /// The run of the previous graph, if nothing that it depends on has changed.
    fn previous_run(&self, start: NodeId, before: u64) -> Option<Option<Run<NodeId>>> {
        let known = self.known_runs.get(&self.nodes[start.index()].place)?;
        if self.kept.is_touched(start) || known.before != before {
            return None;
        }
        let Some(run) = &known.found else { return Some(None) };
        Some(Some(run.renamed(|place| Some(self.order[self.kept.turn(place)?]))?))
    }

    /// The engine's number of what executes a program from a node on.
    fn number(&mut self, start: NodeId, program: Arc<dyn RunProgram>) -> u32 {
        let (place, known) = (self.nodes[start.index()].place, &mut *self.shortcut_sources);
        let source = Some(ShortcutSource { place, program });
        let free = known.iter().position(Option::is_none).unwrap_or(known.len());
        match known.get_mut(free) {
            Some(free) => *free = source,
            None => known.push(source),
        }
        free as u32
    }

    fn add_shortcut(
        &mut self,
        run: &Run<NodeId>,
        start: NodeId,
        ways: &[Option<Walked>],
        (order, layout): (&[NodeId], &EntrySlots),
    ) -> u32 {
        let passed = ways.iter().flatten().flat_map(|way| way.left_by.keys());
        self.covered.extend(passed);
        for way in ways.iter().flatten() {
            if way.left_by.keys().any(|node| self.is_observer(*node)) {
                self.resumed.extend(&way.ends);
            }
        }
        let ways: Vec<_> = ways
            .iter()
            .map(|way| way.as_ref().map(|w| self.way(w, start, order, layout)))
            .collect();
        let first = self.code.ways.len() as u32;
        self.code.ways.extend(ways);
        let ways = first..self.code.ways.len() as u32;
        let own =
            |(node, counter): &(NodeId, u32)| self.nodes[node.index()].own.plus(*counter as usize);
        let counters: Vec<Counter> = run.counters.iter().take(MAX_COUNTERS).map(own).collect();
        let counters = append(&mut self.code.shortcut_counters, &counters);
        self.code.shortcuts.push(ShortcutPlan { number: run.number, ways, counters });
        self.code.shortcuts.len() as u32 - 1
    }

    fn is_observer(&self, id: NodeId) -> bool {
        self.nodes[id.index()].block_type.is_some_and(BlockType::is_observer)
    }

    /// Follows a way of nodes from `start`; `None`: tasks do not reach all of them.
    fn follow_nodes(&self, way: &NodeWay, start: NodeId, order: &[NodeId]) -> Option<Walked> {
        let ports: HashMap<NodeId, u32> = way.iter().copied().collect();
        let walked = self.follow(order, start, |id| Some(*ports.get(&id)? as usize))?;
        ports.keys().all(|node| walked.left_by.contains_key(node)).then_some(walked)
    }

    /// Follows a task from `start` that leaves nodes by the ports that `left_by` says; operators decide as
    /// ever. `None`: it does not pass the first node.
    fn follow(
        &self,
        order: &[NodeId],
        start: NodeId,
        mut left_by: impl FnMut(NodeId) -> Option<usize>,
    ) -> Option<Walked> {
        let mut walked = Walked::default();
        let mut ahead = BTreeSet::from([start]);
        for id in order {
            if !ahead.remove(id) {
                continue;
            }
            let node = self.graph.node(*id);
            let port = match node.kind {
                NodeKind::Operator(op) => {
                    self.decision(*id, op, &walked).and_then(|name| node.port(name))
                }
                _ => left_by(*id).filter(|port| *port < node.ports.len()),
            };
            match port {
                Some(port) => {
                    walked.left_by.insert(*id, port as u32);
                    ahead.extend(&node.ports[port].targets);
                }
                None => {
                    walked.ends.insert(*id);
                }
            }
        }
        walked.left_by.contains_key(&start).then_some(walked)
    }

    /// The port of an operator once the nodes before it have run; `None` while it is undecided.
    fn decision(&self, id: NodeId, op: Op, walked: &Walked) -> Option<&'static str> {
        let operand = |source: &NodeId| {
            let node = self.graph.node(*source);
            let port = &node.ports[*walked.left_by.get(source)? as usize];
            port.targets.contains(&id).then_some(port.name == "true")
        };
        let operands: Vec<Option<bool>> = self.sources(id).iter().map(operand).collect();
        let deciding = matches!(op, Op::Or | Op::Nor);
        let says = match () {
            () if operands.contains(&Some(deciding)) => deciding,
            () if operands.iter().all(|o| *o == Some(!deciding)) => !deciding,
            () => return None,
        };
        let says = says != matches!(op, Op::Nand | Op::Nor);
        Some(if says { "true" } else { "false" })
    }

    fn way(
        &mut self,
        walked: &Walked,
        start: NodeId,
        order: &[NodeId],
        layout: &EntrySlots,
    ) -> WayPlan {
        let (mut slots, mut counters, mut at_border) = (Vec::new(), Vec::new(), Vec::new());
        let border = self.border(walked, start, order, layout);
        let passed = order.iter().filter_map(|id| Some((*id, *walked.left_by.get(id)?)));
        for (node, port) in passed {
            let slot = 1 + self.nodes[node.index()].ports[port as usize];
            let input = self.nodes[node.index()].counters.first;
            let both = [input, input.plus(slot as usize)];
            if border.contains(&node) {
                let first = layout.first_slot_of[node.index()];
                slots.extend(first.into_iter().flat_map(|first| [first, first + slot]));
                at_border.extend(both);
            } else {
                counters.extend(both);
            }
        }
        self.way_counters.push(counters.clone().into());
        let counter = Counter::at(self.way_counters.len() - 1);
        let ending = border.iter().copied().filter(|node| self.ends_at(*node, walked));
        let ending: Vec<NodeId> = ending.collect();
        let whole = self.only_end(walked).filter(|_| ending.is_empty()).map(|node| {
            let undecided = walked.ends.iter().filter(|end| **end != node);
            let reached = undecided.map(|end| self.nodes[end.index()].counters.first);
            counters.extend(at_border.into_iter().chain(reached));
            self.way_counters.push(counters.into());
            (layout.step_of[node.index()], Counter::at(self.way_counters.len() - 1))
        });
        let observers = order
            .iter()
            .filter(|id| walked.left_by.contains_key(id) && self.is_observer(**id))
            .map(|id| layout.step_of[id.index()]);
        let observers: Vec<u32> = observers.collect();
        WayPlan {
            counter,
            whole,
            slots: append(&mut self.code.way_slots, &slots),
            passed: self.steps_of(border.iter().copied(), layout),
            ending: self.steps_of(ending.into_iter(), layout),
            ends: self.steps_of(walked.ends.iter().copied(), layout),
            observers: append(&mut self.code.observers, &observers),
        }
    }

    /// The function at which a way ends, if there is no other, and nothing leads from it back to the way or to an
    /// operator that the way leaves undecided: then that stays so, whatever comes.
    fn only_end(&self, walked: &Walked) -> Option<NodeId> {
        let is_operator =
            |end: &&NodeId| matches!(self.graph.node(**end).kind, NodeKind::Operator(_));
        let mut functions = walked.ends.iter().filter(|end| !is_operator(end));
        let end = *functions.next()?;
        if functions.next().is_some() || self.kind(end) != StepKind::Function {
            return None;
        }
        let (mut seen, mut ahead) = (vec![false; self.graph.len()], vec![end]);
        while let Some(node) = ahead.pop() {
            if walked.left_by.contains_key(&node) || node != end && walked.ends.contains(&node) {
                return None;
            }
            let targets = self.graph.node(node).ports.iter().flat_map(|port| &port.targets);
            ahead.extend(targets.filter(|to| !std::mem::replace(&mut seen[to.index()], true)));
        }
        Some(end)
    }

    /// The nodes that a way passes and whose masks matter later: a node that runs reads them, packets
    /// may end there, or tasks of the way may arrive once more, from one of these or from a node that
    /// is not on the way, and must be known to have passed. The start is left once, and for good.
    fn border(
        &self,
        walked: &Walked,
        start: NodeId,
        order: &[NodeId],
        layout: &EntrySlots,
    ) -> BTreeSet<NodeId> {
        let mut border: BTreeSet<NodeId> = BTreeSet::new();
        for id in order.iter().filter(|id| walked.left_by.contains_key(id)) {
            let port = walked.left_by[id] as usize;
            let targets = &self.graph.node(*id).ports[port].targets;
            let is_read = targets.iter().any(|target| walked.ends.contains(target));
            let is_outside =
                |node: &NodeId| border.contains(node) || !walked.left_by.contains_key(node);
            let mut before = self.sources(*id).into_iter();
            let returns = before.any(|node| layout.has(node) && is_outside(&node));
            if is_read || self.ends_at(*id, walked) || (returns && *id != start) {
                border.insert(*id);
            }
        }
        border
    }

    /// Whether packets may end at the port by which a way leaves a node.
    fn ends_at(&self, id: NodeId, walked: &Walked) -> bool {
        let node = &self.nodes[id.index()];
        let port = walked.left_by.get(&id).map(|port| node.ports[*port as usize]);
        port.is_some_and(|port| node.drops[port as usize].is_some())
    }

    fn steps_of(&mut self, nodes: impl Iterator<Item = NodeId>, layout: &EntrySlots) -> Range<u32> {
        let mut sets: Vec<Steps> = Vec::new();
        for (word, bit) in nodes.map(|node| layout.bit(node)) {
            match sets.iter_mut().find(|set| set.word == word) {
                Some(set) => set.steps |= bit,
                None => sets.push(Steps { word, steps: bit }),
            }
        }
        append(&mut self.code.way_steps, &sets)
    }
}
