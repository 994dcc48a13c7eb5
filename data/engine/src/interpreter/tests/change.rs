//! Random graphs that become other random graphs while tasks wait in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use weever_graph::change::{Change, ChangeSet, Waiting, diff};
use weever_graph::{Attr, Graph, NodeId, Verified, apply, verify};
use weever_packet::{Burst, first_n};

use super::property::{FRAMES, engine, limits, records, reference, specs, starts, without_reasons};
use crate::interpreter::trace::Trace;
use crate::reference::Record;
use crate::schedule::{
    CompileOptions, CompiledGraph, EntryNumbers, EntryPlan, Homes, Idps, Places, Transition, span,
};
use crate::slots::{Counter, Others, Slots};
use crate::testkit::{KINDS, STATELESS, graph, packet, pool};
use crate::{CounterKind, Engine, Entry, NODE_WAS_REMOVED, REMOVED, Schedule};

/// The numbers that graphs have been given so far.
#[derive(Default)]
pub(super) struct Assigned {
    idps: Idps,
    slots: Option<Slots>,
}

/// Applies `changes` to the graph of `engine`.
pub(super) fn change(
    engine: &mut Engine,
    assigned: &mut Assigned,
    changes: &ChangeSet,
) -> Verified {
    let next = apply(&engine.plan.graph, changes).expect("fits");
    let next = verify(next).expect("sound");
    let maker = engine.maker.clone();
    let to = changes.changes.iter().filter_map(|c| match c {
        Change::Remove { waiting: Waiting::To(to), .. } => Some(to.as_str()),
        _ => None,
    });
    let starts: Vec<&str> = to.collect();
    let old = engine.plan.clone();
    let Assigned { idps, slots } = assigned;
    let slots = slots.get_or_insert_with(|| Slots::of(&old.layout));
    let numbers = EntryNumbers::next(&old.numbers, &[&next], &maker.registry, &starts);
    let places = Arc::new(Places::next(&old.places, &[&next]));
    let (numbers, places, homes) = (&numbers, &places, Homes::ONE);
    let options = CompileOptions { numbers, places, homes, whole: None, previous: Some(&old) };
    let plan = CompiledGraph::compile(next.clone(), &maker.registry, idps, slots, options);
    let plan = plan.expect("compiles");
    let has_node = |name: &str| next.find(name).is_some();
    let others = Others { has: &|_| false, has_node: &has_node, is_private: &|_| false };
    let epoch = engine.epoch() + 1;
    let transition = Transition::new(epoch, &old, plan, changes, slots, &others);
    let cells = engine.cells();
    let mut update = transition.update(&maker, (&cells, slots), |_| true).expect("compiles");
    slots.keep(std::iter::once(&*update.plan.layout));
    engine.switch(&mut update, 0);
    next
}

/// What a compiled graph says, with names in place of numbers that depend on earlier graphs.
fn in_names(plan: &CompiledGraph) -> BTreeMap<String, String> {
    let labels: HashMap<Counter, _> = plan.layout.iter().map(|(l, c)| (c, l)).collect();
    let label = |counter: Counter| labels.get(&counter).map(|l| (&*l.node, l.kind, &*l.label));
    let name = |place: u32| &*plan.program.nodes[place as usize].name;
    let entry_name = |entry: Entry| name(plan.program.entries[entry.index()].node);
    let mut all = BTreeMap::new();
    for (id, node) in plan.graph.iter() {
        let n = &plan.nodes[id.index()];
        assert_eq!((name(n.place), plan.id_at(n.place)), (&*node.name, Some(id)));
        let counters: Vec<_> = (0..n.counters.labels.len())
            .map(|i| label(n.counters.first.plus(i)).expect("every counter has a name"))
            .collect();
        let spawns = n.spawns.iter();
        let spawns: Vec<_> = spawns
            .map(|e| (entry_name(e.entry), [e.spawned, e.full, e.ring_full].map(label)))
            .collect();
        let notifies: Vec<_> = n.notifies.iter().map(|e| entry_name(*e)).collect();
        let drops: Vec<_> = n.drops.iter().map(|d| d.map(|(c, end)| (label(c), end))).collect();
        let own = [n.no_buffer, n.outbox_full, n.block_full].map(label);
        let text =
            format!("{:?}", (&n.ports, n.needs_buffer, counters, spawns, notifies, drops, own));
        all.insert(format!("node {}", node.name), text);
    }
    for (start, entry) in plan.entries() {
        let EntryPlan { home, code, .. } = &plan.program.entries[entry.index()];
        let mut text = format!("{home:?} {} {:?}\n", code.slots, code.operands);
        for s in &code.steps {
            let drops = &code.drops[span(&s.drops)];
            let drops: Vec<_> = drops.iter().map(|d| (d.slot, label(d.reason), d.end)).collect();
            let lists = (&code.inputs[span(&s.more_inputs)], &code.wakes[span(&s.wakes)], drops);
            let (input, operands) = (s.input, &s.operands);
            let own = (name(s.node), s.kind, s.needs_buffer, input, s.first_slot, s.ports);
            text += &format!(
                "{own:?} {lists:?} {operands:?} {:?} {:?}\n",
                label(s.counter),
                s.shortcut
            );
        }
        for s in &code.shortcuts {
            let source = plan.program.shortcuts[s.number as usize].as_ref().expect("it is used");
            text += &format!("{} {:?}\n", name(source.place), s.ways);
        }
        for way in code.ways.iter() {
            let lists = way.as_ref().map(|way| {
                let steps = [&way.passed, &way.ending, &way.ends].map(|s| &code.way_steps[span(s)]);
                (way.counter.index() - code.way_counters.first.index(), steps, &way.slots)
            });
            text += &format!("{lists:?}\n");
        }
        for (_, counters) in code.way_counters.iter() {
            text += &format!("{:?}\n", counters.iter().map(|c| label(*c)).collect::<Vec<_>>());
        }
        text += &format!("{:?}", code.way_slots);
        all.insert(format!("entry {start}"), text);
    }
    all
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
        let mut assigned = Assigned::default();
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
            current = change(&mut engine, &mut assigned, &diff(&current, &wanted));
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

    /// Whatever is taken over from graph to graph, the compiled graph is the one that a compilation from
    /// nothing makes, and no two counters share a slot.
    #[test]
    fn after_changes_the_compiled_graph_is_as_if_compiled_afresh(
        all in prop::collection::vec((specs(KINDS), any::<bool>(), any::<u64>()), 2..8),
        small in prop::collection::vec((any::<u64>(), any::<bool>()), 0..6),
    ) {
        let mut current = graph(&all[0].0, all[0].1);
        let pool = pool(FRAMES);
        let mut engine = engine(&current, &pool, limits(64));
        let mut assigned = Assigned::default();
        let mut check = |engine: &mut Engine, current: &mut Verified, wanted: &Graph| {
            *current = change(engine, &mut assigned, &diff(current, wanted));
            let afresh = Schedule::compile(current, &engine.maker.registry, &engine.maker.env);
            let afresh = in_names(&afresh.expect("compiles").plan);
            let taken_over = in_names(&engine.plan);
            // A node where tasks could start once stays an entry: some may wait there.
            for (name, text) in &afresh {
                assert_eq!(taken_over.get(name), Some(text), "{name}");
            }
            let mut slots: Vec<_> = engine.plan.layout.ranges().collect();
            slots.sort_by_key(|slots| slots.start);
            assert!(slots.windows(2).all(|pair| pair[0].end <= pair[1].start), "{slots:?}");
        };
        for (specs, reverse, keep) in &all[1..] {
            let wanted = mixed(&current, &graph(specs, *reverse), *keep);
            check(&mut engine, &mut current, &wanted);
            // Small changes leave entries as they are, and behind others in the order of nodes.
            for (which, moves) in &small {
                let mut wanted = Graph::clone(&current);
                let id = NodeId((which % wanted.len() as u64) as u32);
                let node = wanted.node_mut(id);
                if *moves && let Some(port) = node.ports.first_mut() {
                    port.targets.pop();
                } else {
                    let reason = format!("port {}", which % 3);
                    node.attrs.push(Attr::Drop { port: "out".into(), reason });
                }
                if verify(wanted.clone()).is_ok() {
                    check(&mut engine, &mut current, &wanted);
                }
            }
        }
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
        let mut assigned = Assigned::default();
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
            current = change(&mut engine, &mut assigned, &changes);
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
