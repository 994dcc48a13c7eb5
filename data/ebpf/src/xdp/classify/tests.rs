//! The dissector and the ordered filters in an interpreter that is not the kernel's: needs no privileges. What asks
//! maps is held against the kernel only (`tests/classify.rs`).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::rule::{Field, Rule, Target, Test};
use super::{parse, tree};
use crate::asm::Assembler;
use crate::asm::Reg::{R0, R1, R6};

/// What the program says where no filter matches.
const MISS: u64 = 0xdead;
const LOAD_32: u8 = 0x61;
const LOAD_64: u8 = 0x79;

/// A program of these filters in their order: it returns the target's number.
fn program(rules: &[Rule]) -> Vec<u8> {
    let mut asm = Assembler::new();
    let hit = asm.label("hit");
    asm.mov(R6, R1);
    parse::emit(&mut asm);
    tree::emit(&mut asm, rules, &tree::build(rules), None, hit);
    asm.mov(R0, MISS as i32).exit();
    asm.bind(hit).mov(R0, R1).exit();
    let mut bytes = asm.assemble().unwrap().to_bytes();
    // As the kernel does, accesses to the context become those to its pointers, which are wider.
    for instruction in bytes.chunks_exact_mut(8) {
        let is_of_context = instruction[0] == LOAD_32 && instruction[1] >> 4 == R6 as u8;
        if is_of_context {
            instruction[0] = LOAD_64;
            instruction[2] *= 2;
        }
    }
    bytes
}

/// The fields of a frame, by another way through it.
fn fields(frame: &[u8]) -> BTreeMap<Field, u128> {
    let number = |at: usize, bytes: usize| {
        let bytes = frame.get(at..at + bytes)?;
        Some(bytes.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte)))
    };
    let mut found = BTreeMap::from([(Field::EtherType, 0), (Field::Protocol, 0)]);
    let (mut at, mut tags) = (12, 0);
    while tags < 2 && matches!(number(at, 2), Some(0x8100 | 0x88a8)) {
        let Some(tag) = number(at + 2, 4) else { return found };
        found.entry(Field::Vlan).or_insert(tag >> 16 & 0xfff);
        (at, tags) = (at + 4, tags + 1);
    }
    found.extend(number(at, 2).map(|of| (Field::EtherType, of)));
    let ip = at + 2;
    let (addresses, protocol, behind) = match number(at, 2) {
        Some(0x0800) if frame.len() >= ip + 20 => {
            let length = usize::from(frame[ip] & 15) * 4;
            let whole = number(ip + 6, 2).is_some_and(|fragment| fragment & 0x3fff == 0);
            let behind = (whole && length >= 20).then_some(ip + length);
            ([(Field::Src4, ip + 12, 4), (Field::Dst4, ip + 16, 4)], ip + 9, behind)
        }
        Some(0x86dd) if frame.len() >= ip + 40 => {
            ([(Field::Src6, ip + 8, 16), (Field::Dst6, ip + 24, 16)], ip + 6, Some(ip + 40))
        }
        _ => return found,
    };
    found.extend(addresses.into_iter().filter_map(|(field, at, n)| Some((field, number(at, n)?))));
    let protocol = u128::from(frame[protocol]);
    found.insert(Field::Protocol, protocol);
    let Some(l4) = behind.filter(|_| [6, 17, 132].contains(&protocol)) else { return found };
    let Some(ports) = number(l4, 4) else { return found };
    found.extend([(Field::SrcPort, ports >> 16), (Field::DstPort, ports & 0xffff)]);
    found.extend(number(l4, 14).filter(|_| protocol == 6).map(|tcp| (Field::TcpFlags, tcp & 0xff)));
    found
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![Just(vec![0x81, 0, 0x60, 2]), Just(vec![0x88, 0xa8, 0, 3])];
    let tags = proptest::collection::vec(tag, 0..4);
    let shape = (any::<bool>(), 0..3u8, prop_oneof![4 => Just(0u8), 1 => Just(0x20u8)]);
    let body = (prop_oneof![Just(6u8), Just(17), Just(132), Just(1)], 0..4u8, 0..4u8, 0..4u8);
    let cut = prop_oneof![4 => Just(0), 1 => 0..70usize];
    (tags, shape, body, cut).prop_map(|(tags, (six, options, fragment), body, cut)| {
        let (protocol, address, port, flags) = body;
        let mut frame = vec![2; 12];
        tags.iter().for_each(|tag| frame.extend(tag));
        if six {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, protocol, 64]);
            frame.extend([0xfd; 15].into_iter().chain([address]));
            frame.extend([0xfd; 15].into_iter().chain([address ^ 1]));
        } else {
            frame.extend([8, 0, 0x45 + options, 0, 0, 80, 0, 0, fragment, 0, 64, protocol, 0, 0]);
            frame.extend([10, 0, 0, address, 10, 0, 0, address ^ 1]);
            frame.extend(vec![1; 4 * usize::from(options)]);
        }
        frame.extend([0, 50 + port, 0, 51 + port, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags]);
        frame.resize(frame.len() + 20, 0);
        frame.truncate(frame.len().saturating_sub(cut).max(14));
        frame
    })
}

/// Filters whose numbers are those of some frame, or nearly.
fn rules(frames: &[Vec<u8>], dice: &[(u8, u8, u8)]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (queue, (of, kind, bits)) in (1..).zip(dice) {
        let fields = fields(&frames[usize::from(*of) % frames.len()]);
        let (field, value) = fields.iter().nth(usize::from(*kind) % fields.len()).unwrap();
        let (field, value, full) = (*field, *value, field.full());
        let second = fields.iter().nth(usize::from(*bits) % fields.len()).unwrap();
        let test = match kind % 3 {
            0 => Test::exact(field, value),
            1 => {
                let mask = full & !(full >> (u32::from(*bits) % field.bits()));
                Test::Mask { field, mask, value: value & mask }
            }
            _ => Test::Range { field, lo: value.saturating_sub(1), hi: value },
        };
        let mut tests = vec![test];
        if *second.0 != field {
            tests.push(Test::exact(*second.0, *second.1));
        }
        let rule = Rule { tests, target: Target::Queue(queue) };
        rules.extend(rule.check().is_ok().then_some(rule));
    }
    rules
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn frames_are_dissected_and_ordered_filters_asked_in_their_order(
        frames in proptest::collection::vec(frame(), 12),
        dice in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..16),
    ) {
        let rules = rules(&frames, &dice);
        let program = program(&rules);
        for frame in &frames {
            let found = fields(frame);
            let holds = |test: &Test| found.get(&test.field()).is_some_and(|v| test.holds(*v));
            let first = rules.iter().find(|rule| rule.tests.iter().all(holds));
            let wanted = first.map_or(MISS, |rule| match rule.target {
                Target::Queue(queue) => queue.into(),
                _ => unreachable!("all go to queues"),
            });
            let mut copy = frame.clone();
            let mut vm = rbpf::EbpfVmFixedMbuff::new(Some(&program), 0, 8).unwrap();
            let said = vm.execute_program(&mut copy).unwrap();
            prop_assert_eq!(said, wanted, "{:02x?}\n{:?}", frame, rules);
        }
    }
}
