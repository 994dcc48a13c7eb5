//! The rules of design/0000 §4.2 and §4.3, one by one.

use weever_block::{Priority, bits};
use weever_graph::Op;
use weever_packet::{Burst, Mask, Pool, PoolConfig};

use super::script::{GraphBuilder, Log, To, inject, receive};
use crate::{CounterKind, Engine, Limits};

fn get(engine: &Engine, node: &str, kind: CounterKind, label: &str) -> u64 {
    engine.counters().get(node, kind, label).expect("the counter is there")
}

/// The packets whose first byte has a bit of `bit`.
fn having(burst: &Burst, input: Mask, bit: u8) -> Mask {
    let has = |i: &usize| burst.get(*i).is_some_and(|b| b.data()[0] & bit != 0);
    bits(input).filter(has).fold(0, |m, i| m | 1 << i)
}

#[test]
fn a_drop_is_counted_once_under_its_first_reason() {
    let mut b = GraphBuilder::default();
    let attrs = vec!["source", "drop false: first"];
    let to = To { no: vec![1], yes: vec![1, 2], attrs, ..To::default() };
    b.node("start", to, |_, burst, input, ports| ports.decide(input, having(burst, input, 1)))
        .node("second", To { attrs: vec!["drop true: second"], ..To::default() }, {
            |_, burst, input, ports| ports.decide(input, having(burst, input, 2))
        })
        .node("taker", To::default(), |cx, burst, input, ports| {
            let mine = having(burst, input, 4);
            cx.transmit(0, mine);
            ports.enable(0, input & !mine);
        });
    let (mut engine, pool) = b.build(Limits::default());
    // 0, 2: first. 3: second. 1: no stated reason, and the taker leads nowhere. 5, 7: sent, and
    // left by other ports as well.
    inject(&mut engine, "start", &[0, 1, 2, 3, 5, 7], 0);
    assert_eq!(get(&engine, "start", CounterKind::Drop, "first"), 2);
    assert_eq!(get(&engine, "second", CounterKind::Drop, "second"), 1);
    // A stated reason comes first, also where a port before it in the schedule leads nowhere.
    let nowhere = engine.counters().describe();
    let nowhere = nowhere.iter().filter(|r| r.kind == CounterKind::Drop && r.value > 0);
    let nowhere: Vec<_> = nowhere.map(|r| (&*r.node, &*r.label, r.value)).collect();
    assert_eq!(engine.counters().total("unclaimed"), 0);
    assert_eq!(nowhere.iter().map(|(.., n)| n).sum::<u64>(), 4, "{nowhere:?}");
    assert!(nowhere.iter().any(|(_, reason, _)| reason.ends_with("leads nowhere")), "{nowhere:?}");
    assert_eq!(engine.outbox(0).len(), 2);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn the_first_disposition_in_the_order_of_the_schedule_holds() {
    let mut b = GraphBuilder::default();
    let to = To { yes: vec![2, 1], attrs: vec!["source"], ..To::default() };
    b.node("start", to, |_, _, input, ports| ports.enable(1, input))
        .node("one", To::default(), |cx, _, input, _| cx.transmit(0, input))
        .node("two", To::default(), |cx, _, input, _| cx.transmit(1, input));
    let (mut engine, _pool) = b.build(Limits { links: 2, ..Limits::default() });
    inject(&mut engine, "start", &[1, 2, 3], 0);
    assert_eq!((engine.outbox(0).len(), engine.outbox(1).len()), (3, 0));
    assert_eq!(engine.counters().total("conflicts"), 3);
}

#[test]
fn what_several_nodes_claim_for_one_place_arrives_in_packet_order() {
    let mut b = GraphBuilder::default();
    let to = To { no: vec![1], yes: vec![2], attrs: vec!["source"], ..To::default() };
    b.node("start", to, |_, burst, input, ports| ports.decide(input, having(burst, input, 1)))
        .node("even", To::default(), |cx, _, input, _| cx.transmit(0, input))
        .node("odd", To::default(), |cx, _, input, _| cx.transmit(0, input));
    let (mut engine, _pool) = b.build(Limits { outbox: 5, ..Limits::default() });
    inject(&mut engine, "start", &[1, 2, 3, 4, 5, 6, 7, 8], 0);
    let sent: Vec<u8> = engine.outbox(0).iter().map(|b| b.data()[0]).collect();
    assert_eq!(sent, [1, 2, 3, 4, 5]);
    assert_eq!(get(&engine, "odd", CounterKind::OutboxFull, ""), 1);
    assert_eq!(get(&engine, "even", CounterKind::OutboxFull, ""), 2);
    assert_eq!(engine.outbox_room(), 0);
}

#[test]
fn a_link_that_is_not_there_is_a_counted_drop() {
    let mut b = GraphBuilder::default();
    let to = To { attrs: vec!["source"], ..To::default() };
    b.node("start", to, |cx, _, input, _| cx.transmit(9, input));
    let (mut engine, pool) = b.build(Limits::default());
    inject(&mut engine, "start", &[1, 2], 0);
    assert_eq!(get(&engine, "start", CounterKind::OutboxFull, ""), 2);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

/// The operands' values: a node leaves by true, by false, or (when `out` is set) is not reached.
fn operator_says(op: Op, operands: [Option<bool>; 2]) -> Option<bool> {
    let log = Log::default();
    let (yes, no) = (log.clone(), log.clone());
    let mut b = GraphBuilder::default();
    // Byte: bit 0 and 1, whether the operands run; bit 2 and 3, their results.
    let to = To { yes: vec![1, 2], attrs: vec!["source"], ..To::default() };
    b.node("start", to, |_, _, input, ports| ports.enable(1, input));
    for (i, name) in ["reach0", "reach1"].into_iter().enumerate() {
        let to = To { yes: vec![3 + i as u32], ..To::default() };
        b.node(name, to, move |_, burst, input, ports| {
            ports.decide(input, having(burst, input, 1 << i));
        });
    }
    for (i, name) in ["operand0", "operand1"].into_iter().enumerate() {
        let to = To { yes: vec![5], no: vec![5], ..To::default() };
        b.node(name, to, move |_, burst, input, ports| {
            ports.decide(input, having(burst, input, 4 << i));
        });
    }
    b.operator("operator", op, To { no: vec![6], yes: vec![7], ..To::default() })
        .node("no", To::default(), move |_, burst, input, ports| {
            no.note("no", burst, input);
            ports.enable(0, input);
        })
        .node("yes", To::default(), move |_, burst, input, ports| {
            yes.note("yes", burst, input);
            ports.enable(0, input);
        });
    let (mut engine, _pool) = b.build(Limits::default());
    let bit = |set: bool, bit: u8| if set { 1 << bit } else { 0 };
    let byte = (0..2).fold(0, |byte, i| {
        byte | bit(operands[i].is_some(), i as u8) | bit(operands[i] == Some(true), 2 + i as u8)
    });
    inject(&mut engine, "start", &[byte], 0);
    match log.take()[..] {
        [] => None,
        [("no", _)] => Some(false),
        [("yes", _)] => Some(true),
        ref more => panic!("both: {more:?}"),
    }
}

#[test]
fn operators_are_three_valued() {
    let values = [None, Some(false), Some(true)];
    for a in values {
        for b in values {
            let and = match (a, b) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            let or = match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            assert_eq!(operator_says(Op::And, [a, b]), and, "{a:?} and {b:?}");
            assert_eq!(operator_says(Op::Or, [a, b]), or, "{a:?} or {b:?}");
            assert_eq!(operator_says(Op::Nand, [a, b]), and.map(|x| !x), "{a:?} nand {b:?}");
            assert_eq!(operator_says(Op::Nor, [a, b]), or.map(|x| !x), "{a:?} nor {b:?}");
        }
    }
}

#[test]
fn tasks_without_a_buffer_are_kept_from_nodes_that_need_one() {
    let log = Log::default();
    let seen = log.clone();
    let mut b = GraphBuilder::default();
    let to = To { yes: vec![1], attrs: vec!["init"], ..To::default() };
    b.node("start", to, |_, _, input, ports| ports.enable(1, input)).node(
        "needy",
        To { needy: true, ..To::default() },
        move |_, burst, input, ports| {
            seen.note("needy", burst, input);
            ports.enable(0, input);
        },
    );
    let (mut engine, _pool) = b.build(Limits::default());
    engine.start();
    assert_eq!(engine.run(0, 100), 1);
    assert_eq!(log.take(), []);
    assert_eq!(get(&engine, "needy", CounterKind::NoBuffer, ""), 1);
    assert_eq!(engine.counters().total("unclaimed"), 0, "there is no packet to drop");
    inject(&mut engine, "start", &[5], 0);
    assert_eq!(log.take(), [("needy", vec![5])]);
}

/// `x` spawns to `y` and `z`, which note the packets.
fn spawner(log: &Log, limits: Limits) -> (Engine, weever_packet::Pool) {
    let (y, z) = (log.clone(), log.clone());
    let mut b = GraphBuilder::default();
    let to = To { a: Some(1), b: Some(2), attrs: vec!["source"], ..To::default() };
    b.node("x", to, |cx, burst, input, _| {
        let to_z = having(burst, input, 0x80);
        cx.spawn(1, to_z);
        cx.spawn(0, input & !to_z);
    })
    .node("y", To::default(), move |_, burst, input, ports| {
        y.note("y", burst, input);
        ports.enable(0, input);
    })
    .node("z", To::default(), move |_, burst, input, ports| {
        z.note("z", burst, input);
        ports.enable(0, input);
    });
    b.build(limits)
}

#[test]
fn tasks_of_one_entry_form_batches_in_the_order_of_their_first() {
    let log = Log::default();
    let (mut engine, _pool) = spawner(&log, Limits::default());
    for packet in [1, 0x81, 2, 3, 0x82] {
        inject(&mut engine, "x", &[packet], 0);
    }
    assert!(!engine.idle());
    assert_eq!(engine.run(0, 100), 5);
    assert_eq!(log.take(), [("y", vec![1, 2, 3]), ("z", vec![0x81, 0x82])]);
    assert!(engine.idle());
    // A task served ahead of its turn does not count twice.
    for packet in [0x83, 4] {
        inject(&mut engine, "x", &[packet], 0);
    }
    assert_eq!(engine.run(0, 1), 1);
    assert_eq!(log.take(), [("z", vec![0x83])]);
    assert_eq!(engine.run(0, 100), 1);
    assert_eq!(log.take(), [("y", vec![4])]);
}

/// Sixty-four packets to `y` are handed over as a burst; the order is as if they were not.
#[test]
fn a_whole_batch_keeps_its_place() {
    let log = Log::default();
    let (mut engine, pool) = spawner(&log, Limits { high: 150, ..Limits::default() });
    let all: Vec<u8> = (0..64).collect();
    for budget in [1000, 10] {
        inject(&mut engine, "x", &all, 0);
        inject(&mut engine, "x", &[64, 0x81, 65], 0);
        inject(&mut engine, "x", &all, 0);
        while engine.run(0, budget) > 0 {}
        assert!(engine.idle());
        let seen = log.take();
        let of = |name| seen.iter().filter(move |(n, _)| *n == name).flat_map(|(_, p)| p.clone());
        let expected: Vec<u8> = (0..66).chain(0..64).collect();
        assert_eq!(of("y").collect::<Vec<u8>>(), expected);
        assert_eq!(of("z").collect::<Vec<u8>>(), [0x81]);
        assert_eq!(seen[0].1.len(), 64, "a full burst is not split for a budget of {budget}");
    }
    // It counts in full against the bound, and the frames it leaves behind go home.
    for _ in 0..3 {
        inject(&mut engine, "x", &all, 0);
    }
    assert_eq!(get(&engine, "x", CounterKind::SpawnFull, "a"), 3 * 64 - 150);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_full_queue_drops_at_the_edge() {
    let log = Log::default();
    let (mut engine, pool) = spawner(&log, Limits { high: 2, ..Limits::default() });
    inject(&mut engine, "x", &[1, 2, 3, 0x81], 0);
    assert_eq!(get(&engine, "x", CounterKind::SpawnFull, "a"), 1);
    assert_eq!(get(&engine, "x", CounterKind::SpawnFull, "b"), 0);
    assert_eq!(get(&engine, "x", CounterKind::Spawned, "a"), 3);
    engine.run(0, 100);
    assert_eq!(log.take(), [("z", vec![0x81]), ("y", vec![1, 2])]);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

/// Whole bursts and single tasks count alike.
#[test]
fn all_queues_of_a_priority_have_a_bound_together() {
    let log = Log::default();
    let (mut engine, pool) = spawner(&log, Limits { high_total: 70, ..Limits::default() });
    inject(&mut engine, "x", &[1; 64], 0);
    inject(&mut engine, "x", &[0x81; 4], 0);
    inject(&mut engine, "x", &[2; 4], 0);
    inject(&mut engine, "x", &[0x82; 4], 0);
    assert_eq!(get(&engine, "x", CounterKind::SpawnFull, "a"), 2);
    assert_eq!(get(&engine, "x", CounterKind::SpawnFull, "b"), 4);
    assert_eq!(engine.run(0, 1000), 70);
    assert!(engine.idle());
    inject(&mut engine, "x", &[1; 64], 0);
    assert_eq!(engine.run(0, 1000), 64, "there is room again");
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

/// `start` starts a task with a packet of the same first byte, 0x20 more; with bit 7 it also sends the packet itself there,
/// with bit 6 it wakes whoever waits there, and with bit 4 it starts a second one.
fn parent(log: &Log) -> (Engine, Pool) {
    let log = log.clone();
    let mut b = GraphBuilder::default();
    let to = To { attrs: vec!["source"], a: Some(1), n: Some(1), ..To::default() };
    b.node("start", to, |cx, burst, input, ports| {
        let first = burst.get(input.trailing_zeros() as usize).map_or(0, |b| b.data()[0]);
        for _ in 0..=first >> 4 & 1 {
            let mut child = cx.alloc().expect("enough frames");
            assert!(child.append(&[first + 0x20]));
            cx.spawn_new(0, Some(child), 0, Priority::High);
        }
        if first & 0x40 != 0 {
            cx.notify(0, 7);
        }
        let moves = having(burst, input, 0x80);
        cx.spawn(0, moves);
        ports.enable(0, input & !moves);
    })
    .node(
        "next",
        To { attrs: vec!["source"], ..To::default() },
        move |cx, burst, input, ports| {
            log.note("next", burst, input);
            let waits = having(burst, input, 4);
            bits(waits).for_each(|task| cx.block(task, 7));
            ports.enable(0, input & !waits);
        },
    );
    b.build(Limits::default())
}

#[test]
fn a_new_task_runs_when_it_would_if_it_had_been_queued() {
    let log = Log::default();
    let (mut engine, pool) = parent(&log);
    // Alone, it goes on in the burst.
    assert_eq!(receive(&mut engine, "start", &[1], 9), 1);
    assert_eq!(log.take(), [("next", vec![0x21])]);
    // A packet that goes there too is behind it, and so in one batch with it.
    assert_eq!(receive(&mut engine, "start", &[0x81], 9), 2);
    assert_eq!(log.take(), [("next", vec![0xa1, 0x81])]);
    // And so is a second new task.
    assert_eq!(receive(&mut engine, "start", &[0x11], 9), 2);
    assert_eq!(log.take(), [("next", vec![0x31, 0x31])]);
    // Where the budget is used up, it is queued.
    assert_eq!(receive(&mut engine, "start", &[1], 0), 0);
    assert!(!engine.idle());
    // One that is queued already runs before it.
    assert_eq!(receive(&mut engine, "start", &[2], 9), 2);
    assert_eq!(log.take(), [("next", vec![0x21, 0x22])]);
    // Those that are woken run first.
    inject(&mut engine, "next", &[4], 0);
    log.take();
    assert_eq!(receive(&mut engine, "start", &[0x41], 9), 2);
    assert_eq!(log.take(), [("next", vec![4, 0x61])]);
    assert_eq!(get(&engine, "start", CounterKind::Spawned, "a"), 8);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

/// Starts itself again and again.
fn perpetual(
    priority: Priority,
) -> impl FnMut(&mut weever_block::Cx<'_>, &mut Burst, Mask, &mut weever_block::Ports<'_>) + Send {
    move |cx, _, input, ports| {
        cx.spawn_new(0, None, 0, priority);
        ports.enable(0, input);
    }
}

#[test]
fn nothing_starves_and_run_ends() {
    let mut b = GraphBuilder::default();
    let init = || To { attrs: vec!["init"], ..To::default() };
    b.node("high", init(), perpetual(Priority::High)).node("low", init(), perpetual(Priority::Low));
    let (mut engine, _pool) = b.build(Limits { low_share: 3, ..Limits::default() });
    engine.start();
    for _ in 0..10 {
        assert!(engine.run(0, 100) <= 103);
    }
    assert!(get(&engine, "high", CounterKind::Timer, "timers") >= 900);
    assert!(get(&engine, "low", CounterKind::Timer, "timers") >= 10);
    assert_eq!(get(&engine, "high", CounterKind::Packets, ""), 0, "a task is not a packet");
}

#[test]
fn low_tasks_end_a_run_when_only_they_are_left() {
    let mut b = GraphBuilder::default();
    let to = To { attrs: vec!["init"], ..To::default() };
    b.node("low", to, perpetual(Priority::Low));
    let (mut engine, _pool) = b.build(Limits { low_share: 3, ..Limits::default() });
    engine.start();
    assert_eq!(engine.run(0, 1000), 1 + 3);
    assert!(!engine.idle());
}

#[test]
fn a_delayed_task_starts_when_its_time_has_come() {
    let log = Log::default();
    let seen = log.clone();
    let mut b = GraphBuilder::default();
    let to = To { attrs: vec!["source"], a: Some(1), ..To::default() };
    b.node("start", to, |cx, _, input, ports| {
        for delay in [3_000, 1_000] {
            let mut buffer = cx.alloc().expect("enough frames");
            assert!(buffer.append(&[(delay / 1_000) as u8]));
            cx.spawn_new(0, Some(buffer), delay, Priority::High);
        }
        ports.enable(0, input);
    })
    .node("later", To::default(), move |_, burst, input, ports| {
        seen.note("later", burst, input);
        ports.enable(0, input);
    });
    let (mut engine, pool) = b.build(Limits { tick: 1, delayed: 3, ..Limits::default() });
    inject(&mut engine, "start", &[0], 5_000);
    assert!(engine.idle());
    assert!(engine.next_deadline().is_some_and(|at| at <= 6_000));
    assert_eq!(engine.run(5_999, 10), 0);
    assert_eq!(engine.run(6_000, 10), 1);
    assert_eq!(log.take(), [("later", vec![1])]);
    // There is room for two more.
    inject(&mut engine, "start", &[0], 6_000);
    inject(&mut engine, "start", &[0], 6_000);
    assert_eq!(get(&engine, "start", CounterKind::SpawnFull, "a"), 2);
    assert_eq!(engine.run(10_000, 10), 3);
    assert_eq!(log.take(), [("later", vec![1, 3, 3])]);
    assert_eq!(engine.next_deadline(), None);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

/// `waits` blocks packets with bit 7 until a node notifies their low bits; `tells` notifies.
fn blocking(log: &Log, limits: Limits) -> (Engine, weever_packet::Pool) {
    let log = log.clone();
    let mut open = [false; 4];
    let mut b = GraphBuilder::default();
    b.node(
        "waits",
        To { attrs: vec!["source"], ..To::default() },
        move |cx, burst, input, ports| {
            log.note("waits", burst, input);
            for i in bits(input) {
                let first = burst.get(i).map_or(0, |b| b.data()[0]);
                let key = (first & 3) as usize;
                if first & 0x80 == 0 || open[key] {
                    ports.enable(1, 1 << i);
                } else {
                    open[3] |= first == 0xff;
                    cx.block(i, key as u64);
                }
                if first & 0x40 != 0 {
                    open[key] = true;
                }
            }
        },
    );
    let to = To { attrs: vec!["source"], n: Some(0), ..To::default() };
    b.node("tells", to, |cx, burst, input, ports| {
        for i in bits(input) {
            match burst.get(i).map_or(0, |b| b.data()[0]) {
                0xff => cx.notify_all(0),
                key => cx.notify(0, key.into()),
            }
        }
        ports.enable(0, input);
    });
    let to = To { attrs: vec!["source"], a: Some(0), ..To::default() };
    b.node("queues", to, |cx, _, input, _| cx.spawn(0, input));
    b.build(limits)
}

#[test]
fn woken_tasks_come_first_in_the_order_they_blocked() {
    let log = Log::default();
    let (mut engine, _pool) = blocking(&log, Limits::default());
    inject(&mut engine, "waits", &[0x81, 0x82, 0x85, 0x89, 0x86], 0);
    assert_eq!(engine.counters().total("blocked_now"), 5);
    assert!(engine.idle());
    inject(&mut engine, "queues", &[1, 2], 0);
    log.take();
    inject(&mut engine, "waits", &[0x41], 0);
    inject(&mut engine, "tells", &[1], 0);
    assert_eq!(engine.counters().total("blocked_now"), 2);
    log.take();
    assert_eq!(engine.run(0, 100), 5);
    assert_eq!(log.take(), [("waits", vec![0x81, 0x85, 0x89, 1, 2])]);
    inject(&mut engine, "tells", &[0], 0);
    assert_eq!(engine.run(0, 100), 0, "no task waits for this key");
}

#[test]
fn all_that_wait_can_be_woken_at_once() {
    let log = Log::default();
    let (mut engine, _pool) = blocking(&log, Limits::default());
    inject(&mut engine, "waits", &[0x81, 0x82, 0x80], 0);
    inject(&mut engine, "tells", &[0xff], 0);
    assert_eq!(engine.counters().total("blocked_now"), 0);
    log.take();
    engine.run(0, 3);
    let mut again = log.take().remove(0).1;
    again.sort_unstable();
    assert_eq!(again, [0x80, 0x81, 0x82]);
}

#[test]
fn a_wake_up_in_the_batch_that_blocks_is_not_lost() {
    let mut b = GraphBuilder::default();
    let log = Log::default();
    let seen = log.clone();
    let to = To { yes: vec![1, 2], attrs: vec!["source"], ..To::default() };
    b.node("start", to, |_, _, input, ports| ports.enable(1, input))
        .node("tells", To { n: Some(2), ..To::default() }, |cx, _, input, ports| {
            cx.notify(0, 7);
            ports.enable(0, input);
        })
        .node("waits", To::default(), {
            let mut times = 0;
            move |cx, burst, input, ports| {
                seen.note("waits", burst, input);
                times += 1;
                if times == 1 {
                    bits(input).for_each(|i| cx.block(i, 7));
                } else {
                    ports.enable(1, input);
                }
            }
        });
    let (mut engine, _pool) = b.build(Limits::default());
    inject(&mut engine, "start", &[1, 2], 0);
    assert_eq!(engine.run(0, 10), 2);
    assert_eq!(log.take(), [("waits", vec![1, 2]), ("waits", vec![1, 2])]);
}

#[test]
fn too_many_blocked_are_dropped_where_they_block() {
    let log = Log::default();
    let limits = Limits { blocked: 4, blocked_per_key: 3, ..Limits::default() };
    let (mut engine, pool) = blocking(&log, limits);
    inject(&mut engine, "waits", &[0x81, 0x85, 0x89, 0x8d, 0x82, 0x86], 0);
    assert_eq!(get(&engine, "waits", CounterKind::BlockFull, ""), 2);
    assert_eq!(engine.counters().total("blocked_now"), 4);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}

#[test]
fn a_large_frame_waits_as_an_ordinary_one_if_its_packet_fits() {
    let mut b = GraphBuilder::default();
    let to = To { attrs: vec!["source"], ..To::default() };
    b.node("start", to, |cx, _, input, _| bits(input).for_each(|i| cx.block(i, 7)));
    let (mut engine, pool) = b.build(Limits::default());
    let large = Pool::new(PoolConfig::large(64)).unwrap();
    let entry = engine.entry("start").unwrap();
    for (bytes, stay) in [(1400, 0), (3000, 1)] {
        let mut packet = large.alloc().unwrap();
        assert!(packet.append(&vec![7; bytes]));
        let mut burst = Burst::new();
        burst.put(0, packet);
        engine.inject(entry, &mut burst, 1, 0);
        assert_eq!(large.frames() - large.available(), stay, "{bytes} bytes");
    }
    assert_eq!(engine.counters().total("blocked_now"), 2);
    drop(engine);
    assert_eq!((pool.available(), large.available()), (pool.frames(), large.frames()));
}

/// Packets that start again later wait for their time, and leave the engine idle meanwhile; those for which there is no
/// room are dropped, and counted at the edge.
#[test]
fn tasks_that_start_later_wait_idly_and_within_a_bound() {
    let mut b = GraphBuilder::default();
    let log = Log::default();
    let seen = log.clone();
    let to = To { attrs: vec!["source"], ..To::default() };
    b.node("start", to, move |cx, burst, input, _| {
        seen.note("start", burst, input);
        if cx.now < 250 { cx.spawn_later(0, input, 100) } else { cx.transmit(0, input) }
    });
    let (mut engine, pool) = b.build(Limits { delayed: 3, tick: 1, ..Limits::default() });
    inject(&mut engine, "start", &[1, 2, 3, 4], 0);
    assert_eq!(log.take(), [("start", vec![1, 2, 3, 4])]);
    assert_eq!(get(&engine, "start", CounterKind::Spawned, "a"), 4);
    assert_eq!(get(&engine, "start", CounterKind::SpawnFull, "a"), 1);
    assert_eq!(engine.counters().total("delayed_now"), 3);
    assert_eq!((engine.idle(), engine.run(99, 64)), (true, 0));
    for (now, sent) in [(100, 0), (200, 0), (300, 3)] {
        assert!(engine.next_deadline().is_some_and(|at| at <= now));
        assert_eq!(engine.run(now, 64), 3, "no more than once each");
        assert_eq!(log.take(), [("start", vec![1, 2, 3])]);
        assert_eq!((engine.outbox(0).len(), engine.idle()), (sent, true));
    }
    assert_eq!(engine.counters().total("delayed_now"), 0);
    drop(engine);
    assert_eq!(pool.available(), pool.frames());
}
