//! Random graphs that become other random graphs while tasks wait in them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weever_graph::change::{Change, ChangeSet, Waiting, diff};
use weever_graph::{Graph, Verified, apply, verify};
use weever_packet::{Burst, first_n};

use super::property::{FRAMES, engine, limits, records, reference, specs, starts, without_reasons};
use crate::counters::Others;
use crate::interpreter::trace::Trace;
use crate::reference::Record;
use crate::schedule::{CompileOptions, CompiledGraph, EntryNumbers, Homes, Idps, Transition};
use crate::testkit::{KINDS, STATELESS, graph, packet, pool};
use crate::{CounterKind, Engine, NODE_WAS_REMOVED, REMOVED};

/// Applies `changes` to the graph of `engine`.
pub(super) fn change(engine: &mut Engine, idps: &mut Idps, changes: &ChangeSet) -> Verified {
    let next = apply(&engine.plan.graph, changes).expect("fits");
    let next = verify(next).expect("sound");
    let maker = engine.maker.clone();
    let to = changes.changes.iter().filter_map(|c| match c {
        Change::Remove { waiting: Waiting::To(to), .. } => Some(to.as_str()),
        _ => None,
    });
    let starts: Vec<&str> = to.collect();
    let old = engine.plan.clone();
    let numbers = EntryNumbers::next(&old.numbers, &[&next], &maker.registry, &starts);
    let (numbers, homes) = (&numbers, Homes::ONE);
    let options = CompileOptions { numbers, homes, whole: None, follows: true };
    let plan = CompiledGraph::compile(next.clone(), &maker.registry, idps, options);
    let plan = plan.expect("compiles");
    let transition = Transition::new(engine.epoch() + 1, &old, plan, changes, &Others::NONE);
    let mut update = transition.update(&maker, |_| true).expect("compiles");
    engine.switch(&mut update, 0);
    next
}

/// The counters, under any present name of the node. Gauges and drops at removed nodes apart.
fn sums(engine: &Engine) -> BTreeMap<(CounterKind, String), u64> {
    let mut sums = BTreeMap::new();
    for r in engine.counters().describe() {
        let gauge = ["blocked_now", "delayed_now", NODE_WAS_REMOVED].contains(&&*r.label);
        if !gauge && r.value > 0 {
            *sums.entry((r.kind, r.label.to_string())).or_default() += r.value;
        }
    }
    sums
}

/// Other nodes under the names of some, new ones, and some that stay.
fn mixed(a: &Graph, b: &Graph, keep: u64) -> Graph {
    let mut mixed = b.clone();
    for (id, node) in b.iter() {
        let same =
            a.find(&node.name).filter(|_| keep >> (id.0 % 64) & 1 == 1).map(|a_id| a.node(a_id));
        let Some(same) =
            same.filter(|s| s.kind == node.kind && s.implementation == node.implementation)
        else {
            continue;
        };
        let ours = mixed.node_mut(id);
        ours.attrs.clone_from(&same.attrs);
    }
    mixed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
    ))]

    /// No frame is lost, no count goes down, and afterwards it is the new graph, task by task.
    #[test]
    fn after_a_change_it_is_the_reference_of_the_new_graph(
        all in prop::collection::vec((specs(STATELESS), any::<bool>(), any::<u64>()), 2..5),
        sizes in prop::collection::vec(1usize..=64, 4),
        budget in 0usize..40,
    ) {
        let first = graph(&all[0].0, all[0].1);
        let pool = pool(FRAMES);
        let mut cache = pool.cache();
        let mut engine = engine(&first, &pool, limits(64));
        let mut idps = Idps::new();
        let (mut now, mut id) = (0, 0);
        let mut burst = Burst::new();
        let mut current = first;
        for (turn, (specs, reverse, keep)) in all[1..].iter().enumerate() {
            let start = starts(&current)[0];
            let entry = engine.entry(&current.node(start).name).expect("a root is an entry");
            for i in 0..sizes[turn] {
                burst.put(i, packet(&mut cache, id));
                id += 1;
            }
            engine.inject(entry, &mut burst, first_n(sizes[turn]), now);
            engine.run(now, budget);
            now += 100;
            let wanted = mixed(&current, &graph(specs, *reverse), *keep);
            let before = sums(&engine);
            current = change(&mut engine, &mut idps, &diff(&current, &wanted));
            prop_assert_eq!(sums(&engine), before);
        }
        while { engine.run(now, usize::MAX); engine.next_deadline().is_some() } {
            now += 1000;
        }
        let mut reference = reference(&current, &pool);
        engine.trace = Some(Trace::default());
        let start = starts(&current)[0];
        let entry = engine.entry(&current.node(start).name).expect("a root is an entry");
        engine.runtime.limits.batch = 1;
        for _ in 0..sizes[3] {
            burst.put(0, packet(&mut cache, id));
            engine.inject(entry, &mut burst, 1, now);
            reference.inject(start, Some(packet(&mut cache, id)), now);
            id += 1;
        }
        engine.run(now, usize::MAX);
        reference.run(now, usize::MAX);
        let batches = engine.trace.take().expect("tracing").batches;
        let ours: Vec<Record> = batches.iter().flat_map(|b| records(&current, b)).collect();
        prop_assert_eq!(ours, without_reasons(&reference.records));
        drop((engine, reference, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }

    /// Blocked, delayed and queued tasks, sent on or dropped: every frame comes home.
    #[test]
    fn tasks_at_removed_nodes_lose_no_frame(
        all in prop::collection::vec((specs(KINDS), any::<u64>()), 2..6),
        size in 1usize..=64,
        to_first in any::<bool>(),
    ) {
        let mut current = graph(&all[0].0, false);
        let pool = pool(FRAMES);
        let mut cache = pool.cache();
        let mut engine = engine(&current, &pool, limits(64));
        let mut idps = Idps::new();
        let mut burst = Burst::new();
        for (turn, (specs, keep)) in all.iter().enumerate() {
            let now = turn as u64 * 100;
            let entry = engine.entry("n0").expect("the source is an entry");
            for i in 0..size {
                burst.put(i, packet(&mut cache, (turn * 64 + i) as u64));
            }
            engine.inject(entry, &mut burst, first_n(size), now);
            engine.run(now, 7);
            let wanted = mixed(&current, &graph(specs, false), *keep);
            let mut changes = diff(&current, &wanted);
            for change in &mut changes.changes {
                if let Change::Remove { waiting, .. } = change
                    && to_first
                {
                    *waiting = Waiting::To("n0".into());
                }
            }
            let held = engine.runtime.blocked.len() + engine.runtime.delayed.len();
            let dropped = |e: &Engine| e.counters().get(REMOVED, CounterKind::Drop, NODE_WAS_REMOVED);
            let before = dropped(&engine).unwrap_or(0);
            current = change(&mut engine, &mut idps, &changes);
            let gone = dropped(&engine).unwrap_or(0) - before;
            let left = engine.runtime.blocked.len() + engine.runtime.delayed.len();
            if to_first {
                prop_assert_eq!(gone, 0);
            } else {
                prop_assert!(left as u64 + gone >= held as u64);
            }
        }
        engine.trace = None;
        drop((engine, cache));
        prop_assert_eq!(pool.available(), pool.frames());
    }
}
