//! Compiles a change into a transition for each worker.

use std::sync::Arc;

use weever_block::Registry;
use weever_graph::change::{Change, Waiting};
use weever_graph::{ChangeSet, Graph, Verified};

use super::TeamError;
use super::partition::Running;
use crate::schedule::{
    CompileOptions, CompiledGraph, EntryNumbers, FROM_QUEUE, Homes, Idps, Places, Transition,
};
use crate::slots::{Label, Others, Slots};

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
        slots: &mut Slots,
        changes: &ChangeSet,
        next: &Next,
    ) -> Result<Vec<Arc<Transition>>, TeamError> {
        let plans = &self.running.plans;
        let graphs = std::iter::once(&next.whole).chain(next.parts.iter().flatten());
        let graphs: Vec<&Graph> = graphs.map(|graph| &**graph).collect();
        let starts = successors(changes, &plans[0], &next.whole);
        let numbers = EntryNumbers::next(&plans[0].numbers, &graphs, self.registry, &starts);
        let places = Arc::new(Places::next(&plans[0].places, &graphs));
        let mut made: Vec<Arc<Transition>> = Vec::new();
        for (handle, part) in next.parts.iter().enumerate() {
            let is_twin = |other: &usize| {
                Arc::ptr_eq(&plans[handle], &plans[*other])
                    && part.as_deref() == next.parts[*other].as_deref()
            };
            let transition = match (0..handle).find(is_twin) {
                Some(twin) => made[twin].clone(),
                None => {
                    let options = CompileOptions {
                        numbers: &numbers,
                        places: &places,
                        homes: self.homes,
                        whole: part.as_ref().map(|_| &*next.whole),
                        previous: Some(&*plans[handle]),
                    };
                    let graph = part.as_ref().unwrap_or(&next.whole).clone();
                    let plan = CompiledGraph::compile(graph, self.registry, idps, slots, options)?;
                    let whole = made.first().map(|whole| &*whole.plan);
                    Arc::new(self.transition(&plans[handle], plan, slots, (changes, next), whole))
                }
            };
            made.push(transition);
        }
        Ok(made)
    }

    fn transition(
        &self,
        old: &CompiledGraph,
        plan: CompiledGraph,
        slots: &mut Slots,
        (changes, next): (&ChangeSet, &Next),
        whole: Option<&CompiledGraph>,
    ) -> Transition {
        let before = &self.running.plans[0].graph;
        let is_private = |node: &str| {
            !node.is_empty() && before.find(node).is_none() && next.whole.find(node).is_none()
        };
        let here = plan.graph.clone();
        let has_node = |node: &str| {
            here.find(node).is_some() || whole.is_some_and(|whole| whole.graph.find(node).is_some())
        };
        let has = |label: &Label| whole.is_some_and(|whole| whole.counts(label));
        let others = Others { has: &has, has_node: &has_node, is_private: &is_private };
        Transition::new(self.running.epoch + 1, old, plan, changes, slots, &others)
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
