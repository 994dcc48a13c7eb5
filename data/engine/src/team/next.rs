//! Compiles a change into a transition for each worker.

use std::sync::Arc;

use weever_block::Registry;
use weever_graph::change::{Change, Waiting};
use weever_graph::{ChangeSet, Graph, Verified};

use super::TeamError;
use super::partition::Running;
use crate::counters::Others;
use crate::schedule::{
    CompileOptions, CompiledGraph, EntryNumbers, FROM_QUEUE, Homes, Idps, Transition,
};

/// The next graph, before compilation.
pub(super) struct Next {
    pub(super) logical: Verified,
    /// The graph as workers execute it.
    pub(super) whole: Verified,
    /// By handle.
    pub(super) parts: Vec<Option<Verified>>,
    pub(super) steps: usize,
}

/// Compiles the transitions of all workers, off the packet path.
pub(super) struct Compiler<'a> {
    pub(super) registry: &'a Registry,
    pub(super) homes: Homes,
    pub(super) running: &'a Running,
}

impl Compiler<'_> {
    /// One transition per worker; workers that run the same graph before and after share one.
    pub(super) fn compile(
        &self,
        idps: &mut Idps,
        changes: &ChangeSet,
        next: &Next,
    ) -> Result<Vec<Arc<Transition>>, TeamError> {
        let plans = &self.running.plans;
        let numbers = self.numbers(changes, next);
        let mut made: Vec<Arc<Transition>> = Vec::new();
        for (handle, part) in next.parts.iter().enumerate() {
            let is_twin = |other: &usize| {
                Arc::ptr_eq(&plans[handle], &plans[*other])
                    && part.as_deref() == next.parts[*other].as_deref()
            };
            let transition = match (0..handle).find(is_twin) {
                Some(twin) => made[twin].clone(),
                None => {
                    let homes = self.homes;
                    let whole = part.as_ref().map(|_| &*next.whole);
                    let options = CompileOptions { numbers: &numbers, homes, whole, follows: true };
                    let graph = part.as_ref().unwrap_or(&next.whole).clone();
                    let plan = CompiledGraph::compile(graph, self.registry, idps, options)?;
                    Arc::new(self.transition(handle, plan, changes, next, made.first()))
                }
            };
            made.push(transition);
        }
        Ok(made)
    }

    fn numbers(&self, changes: &ChangeSet, next: &Next) -> EntryNumbers {
        let old = &self.running.plans[0];
        let graphs = std::iter::once(&next.whole).chain(next.parts.iter().flatten());
        let graphs: Vec<&Graph> = graphs.map(|graph| &**graph).collect();
        let starts = successors(changes, old, &next.whole);
        EntryNumbers::next(&old.numbers, &graphs, self.registry, &starts)
    }

    fn transition(
        &self,
        handle: usize,
        plan: CompiledGraph,
        changes: &ChangeSet,
        next: &Next,
        whole: Option<&Arc<Transition>>,
    ) -> Transition {
        let before = &self.running.plans[0].graph;
        let is_private = |node: &str| {
            !node.is_empty() && before.find(node).is_none() && next.whole.find(node).is_none()
        };
        let layout = whole.map(|whole| &whole.plan.layout);
        let others = Others { layout, is_private: &is_private };
        let epoch = self.running.epoch + 1;
        Transition::new(epoch, &self.running.plans[handle], plan, changes, &others)
    }
}

/// The nodes that take over tasks of removed nodes, and those whose input queue is no longer
/// needed.
fn successors<'a>(changes: &'a ChangeSet, old: &'a CompiledGraph, new: &Graph) -> Vec<&'a str> {
    let to = changes.changes.iter().map(|change| match change {
        Change::Remove { waiting: Waiting::To(to), .. } => Some(to.as_str()),
        _ => None,
    });
    let queues = old.entries().filter(|(name, _)| new.find(name).is_none());
    let behind = queues.filter_map(|(name, _)| name.strip_prefix(FROM_QUEUE));
    to.flatten().chain(behind).collect()
}
