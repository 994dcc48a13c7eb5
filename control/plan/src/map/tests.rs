//! The incrementally kept map against a map computed from nothing.

use weever_graph::Field;

use super::*;
use crate::config::Configuration;
use crate::flow::{Kinds, Values};
use crate::search::tests::random::{Dice, flow};
use crate::testkit::*;

/// The contract of [`FlowMap`], written down without indexes.
fn from_nothing(map: &FlowMap, id: u32) -> Placement {
    let member = &map.flows[id];
    let parts: Vec<u32> = member.parts.iter().collect();
    let place = |part: u32| {
        let conj = &map.parts[part].conj;
        let mut met: Vec<&Entry> = map
            .entries
            .iter()
            .map(|(_, e)| e)
            .filter(|e| !e.rule.conj.disjoint(conj) && !owned_by_narrower(map, e, part))
            .collect();
        met.sort_by_key(|e| e.turn());
        let met: Vec<MatchedEntry<'_>> = met
            .iter()
            .map(|e| MatchedEntry { conj: &e.rule.conj, to: map.to(e.rule.target) })
            .collect();
        walk::place(conj, &met, &map.spreading, false, &Work::default())
    };
    let placed: Vec<Placement> = parts.into_iter().map(place).collect();
    if placed.iter().all(|p| *p == placed[0]) {
        return placed[0].clone();
    }
    let mut mix = PlacementSum::default();
    placed.iter().for_each(|p| mix.merge(p, 1.0));
    mix.finish()
}

fn owned_by_narrower(map: &FlowMap, entry: &Entry, part: u32) -> bool {
    map.parts.iter().any(|(other, p)| {
        let wide = &map.parts[part];
        let narrower = p.conj.implies(&wide.conj) && !wide.conj.implies(&p.conj);
        let covers = entry.rule.conj.implies(&p.conj);
        other != part && p.flow != wide.flow && covers && narrower
    })
}

fn other_from_nothing(map: &FlowMap, queue: u32) -> bool {
    let by_default = map.spreading.place(&Conj::all()).reaches(queue);
    let claimed = |e: &Entry| map.parts.iter().any(|(_, p)| e.rule.conj.implies(&p.conj));
    by_default
        || map
            .entries
            .iter()
            .any(|(_, e)| map.reached_by(e.rule.target).contains(&queue) && !claimed(e))
}

fn random_entry(dice: &mut Dice) -> NewEntry {
    let conj = crate::search::tests::random::conj(dice);
    let (table, target) = (dice.roll(2) as usize, random_target(dice));
    let rank = dice.roll(3) as i64;
    NewEntry { table, flow_type: None, conj, target, priority: 0, location: 0, rank }
}

/// A queue, one of the two contexts of [`CONTEXTS`], or nowhere.
fn random_target(dice: &mut Dice) -> Target {
    match dice.roll(7) {
        4 | 5 => Target::Context(dice.roll(2) as u32),
        6 => Target::Drop,
        queue => Target::Queue(queue as u32),
    }
}

const CONTEXTS: [&[u32]; 2] = [&[1, 3], &[0, 1, 2]];

fn check(map: &FlowMap, seed: u64, step: usize) {
    for (id, member) in map.flows.iter() {
        let fresh = from_nothing(map, id);
        assert_eq!(member.placement, fresh, "seed {seed} step {step} flow {id}");
    }
    for queue in 0..4 {
        let fresh = other_from_nothing(map, queue);
        assert_eq!(map.other_reaches(queue), fresh, "seed {seed} step {step} queue {queue}");
    }
}

#[test]
fn kept_equals_made_from_nothing() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let nic = with_rss(nic(4, vec![five_tuple_filters(64), five_tuple_filters(64)]), 8);
        let key = dice.one_in(2).then(|| vec![0x2d; 40]);
        let rss = Rss::over(&nic, &[0, 2, 3], key);
        let mut map = FlowMap::new(&nic, &rss);
        map.contexts.restore(&nic, &rss, &CONTEXTS.map(<[u32]>::to_vec));
        let mut journal = Journal::default();
        let (mut flows, mut entries) = (Vec::new(), Vec::new());
        for step in 0..60 {
            journal.clear();
            let before: Vec<(u32, Placement)> =
                map.flows.iter().map(|(i, m)| (i, m.placement.clone())).collect();
            match dice.roll(5) {
                0 | 1 => flows.push(map.add_flow(flow(&mut dice, step), &mut journal)),
                2 => entries.push(map.insert_entry(random_entry(&mut dice), 0, &mut journal)),
                3 if !flows.is_empty() => {
                    let at = dice.roll(flows.len() as u64) as usize;
                    map.remove_flow(flows.swap_remove(at), &mut journal).unwrap();
                }
                4 if !entries.is_empty() => {
                    let at = dice.roll(entries.len() as u64) as usize;
                    if dice.one_in(2) {
                        map.retarget(entries[at], random_target(&mut dice), &mut journal);
                    } else {
                        map.remove_entry(entries.swap_remove(at), &mut journal).unwrap();
                    }
                }
                _ => {}
            }
            check(&map, seed, step);
            // A flow that moved is in the journal, with its former placement.
            for (id, old) in before.into_iter().filter(|(i, _)| map.flows.get(*i).is_some()) {
                let noted = journal.flows.iter().find(|(f, _)| *f == id);
                let was = noted.map_or(&map.flows[id].placement, |(_, before)| before);
                assert_eq!(*was, old, "seed {seed} step {step} flow {id}");
            }
        }
    }
}

#[test]
fn a_narrower_flow_owns_its_rule() {
    let nic = nic(4, vec![five_tuple_filters(64)]);
    let mut map = FlowMap::new(&nic, &Rss::default());
    let mut journal = Journal::default();
    let listening = Conj::all().with(Field::EthType, 0x0800).with(Field::L4Dst, 53);
    let listening = listening.with(Field::Ip4Proto, 17);
    let wide = map.add_flow(Flow::of("listening", vec![listening]), &mut journal);
    let conj = udp(1, 2, 3, 53);
    let narrow = map.add_flow(Flow::of("connected", vec![conj.clone()]), &mut journal);
    let rule = NewEntry {
        table: 0,
        flow_type: None,
        conj,
        target: Target::Queue(3),
        priority: 1,
        location: 0,
        rank: 0,
    };
    map.insert_entry(rule, narrow, &mut journal);
    assert_eq!(map.flows[narrow].placement, Placement::One(3));
    assert_eq!(map.flows[wide].placement, Placement::One(0));
    assert!(!map.other_reaches(3));
    map.remove_flow(narrow, &mut journal);
    assert!(map.flows[wide].placement.reaches(3), "no narrower flow is left");
    assert!(!map.other_reaches(3));
    map.remove_flow(wide, &mut journal);
    assert!(map.other_reaches(3));
}

/// Follows single packets through rules, and compares their queue with their flow's placement.
#[test]
fn packets_arrive_where_the_placement_says() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let nic = with_rss(nic(4, vec![five_tuple_filters(64), five_tuple_filters(64)]), 8);
        let contexts = CONTEXTS.map(<[u32]>::to_vec).to_vec();
        let rss = Rss::over(&nic, &[0], None);
        let mut configuration = Configuration { rules: vec![Vec::new(); 2], rss, contexts };
        for _ in 0..dice.roll(6) {
            let NewEntry { table, conj, target, .. } = random_entry(&mut dice);
            let rule = crate::config::Rule::of(&nic.tables[table].model, None, &conj);
            let priority = 1 + dice.roll(3) as u32;
            configuration.rules[table].push(crate::config::Rule { target, priority, ..rule });
        }
        // Filters by ports leave first fragments alone, which this walk does not know.
        let conj = crate::search::tests::random::conj(&mut dice);
        let conj = conj.of(Kinds::ALL.without(Kinds::FIRST_FRAGMENTS));
        let placement = place(&nic, &configuration, &conj);
        assert_eq!(Places::new(&nic, &configuration).of(&conj), placement, "seed {seed}");
        let mut reached = std::collections::BTreeSet::new();
        let mut dropped = false;
        for packet in packets_of(&conj) {
            let target = walk_packet(&nic, &configuration, &packet);
            let at = match target {
                Target::Queue(queue) => vec![queue],
                Target::Context(context) => CONTEXTS[context as usize].to_vec(),
                Target::Drop => Vec::new(),
            };
            dropped |= target == Target::Drop;
            assert!(at.iter().all(|q| placement.reaches(*q)), "seed {seed}: {packet:?} at {at:?}");
            reached.extend(at);
        }
        let said: std::collections::BTreeSet<u32> = placement.shares().map(|(q, _)| q).collect();
        assert_eq!((reached, dropped), (said, placement.dropped() > 0), "seed {seed}");
    }
}

/// Every packet of `conj` with fields between 7 and 12: beyond those all are alike.
fn packets_of(conj: &Conj) -> Vec<Conj> {
    let mut all = vec![conj.clone()];
    for field in [Field::Ip4Src, Field::Ip4Dst, Field::L4Src, Field::L4Dst] {
        let values = (7..=12).map(|v| Values::masked(field, field.full_mask(), v));
        let values: Vec<Values> = values.collect();
        let each = all.iter().flat_map(|c| values.iter().map(|v| c.clone().having(v.clone())));
        all = each.filter(|c| !c.is_empty()).collect();
    }
    all
}

fn walk_packet(nic: &Nic, configuration: &Configuration, packet: &Conj) -> Target {
    for (table, rules) in nic.tables.iter().zip(&configuration.rules) {
        let hits = rules.iter().filter(|r| {
            let key = |(m, k): (&weever_graph::nic::FieldMatch, &weever_graph::Key)| {
                k.mask == 0 || packet.single(m.field).is_some_and(|v| v & k.mask == k.value)
            };
            table.model.matches.iter().zip(&r.keys).all(key)
        });
        // Of equal priorities the earlier rule wins.
        if let Some(rule) = hits.reduce(|best, r| if r.priority > best.priority { r } else { best })
        {
            return rule.target;
        }
    }
    Target::Queue(nic.default_queue)
}
