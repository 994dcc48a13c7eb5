//! Filters in an order, with masks and ranges: a tree of comparisons with short lists as leaves.
//!
//! Each inner node compares one lane of a field with a constant, chosen so that the longer side is
//! as short as can be; a filter with an interval on both sides is in both, as far as there is room
//! for copies. A leaf asks its filters one by one, in order.

use super::layout::{self, FieldWord, code_of, lanes, masked_lanes};
use super::parse::at;
use super::rule::{Rule, Test};
use crate::asm::Reg::{R1, R2, R3, R10};
use crate::asm::{AluOp, Assembler, AtomicOp, Cond, Label, Width};
use crate::sys::Map;

/// Longest list that is not split.
const LEAF: usize = 4;
/// Deepest tree: twice the depth of a balanced one over the most filters that a program can hold.
const DEEPEST: usize = 32;

/// The tree over the rules with these numbers.
#[derive(Debug)]
pub(super) enum Node {
    Leaf(Vec<usize>),
    Split { lane: FieldWord, at: u64, below: Box<Node>, above: Box<Node> },
}

/// The interval of a lane's values that a rule can match.
fn interval(rule: &Rule, field: super::Field, lane: FieldWord) -> (u64, u64) {
    let most = u64::MAX >> (64 - lane.width.bits());
    let test = rule.tests.iter().find(|test| test.field() == field);
    match test {
        None => (0, most),
        Some(Test::Range { lo, hi, .. }) => range_of_lane(*lo, *hi, lane),
        Some(Test::Mask { mask, value, .. }) => {
            let (mask, value) = (lane.part(*mask), lane.part(*value));
            let free = !mask & most;
            // The values that a mask with holes matches are no interval; their hull is one.
            let hull = if free == 0 { 0 } else { u64::MAX >> free.leading_zeros() };
            (value & !hull, value | hull)
        }
    }
}

/// Below the lane in which the ends differ first, everything can occur.
fn range_of_lane(lo: u128, hi: u128, lane: FieldWord) -> (u64, u64) {
    let most = u64::MAX >> (64 - lane.width.bits());
    let higher = |number: u128| number.checked_shr(lane.shift + lane.width.bits()).unwrap_or(0);
    if higher(lo) == higher(hi) { (lane.part(lo), lane.part(hi)) } else { (0, most) }
}

/// The tree for `rules`, in their order. It has fewer leaves' entries than three for each rule.
pub(super) fn build(rules: &[Rule]) -> Node {
    grow(rules, (0..rules.len()).collect(), DEEPEST, &mut (2 * rules.len()))
}

/// `copies` is how many more entries there may be than rules: without a bound, rules that leave
/// fields open could be copied into every leaf.
fn grow(rules: &[Rule], numbers: Vec<usize>, depth: usize, copies: &mut usize) -> Node {
    let split = (numbers.len() > LEAF && depth > 0).then(|| best_split(rules, &numbers)).flatten();
    let length = numbers.len();
    let affordable =
        split.and_then(|split| Some((copies.checked_sub(split.copies(length))?, split)));
    let Some((left, Split { lane, at, below, above })) = affordable else {
        return Node::Leaf(numbers);
    };
    *copies = left;
    let [below, above] = [below, above].map(|side| Box::new(grow(rules, side, depth - 1, copies)));
    Node::Split { lane, at, below, above }
}

struct Split {
    lane: FieldWord,
    at: u64,
    below: Vec<usize>,
    above: Vec<usize>,
}

impl Split {
    fn longer(&self) -> usize {
        self.below.len().max(self.above.len())
    }

    fn copies(&self, of: usize) -> usize {
        (self.below.len() + self.above.len()).saturating_sub(of)
    }
}

/// The split with the shortest longer side, if both sides become shorter.
fn best_split(rules: &[Rule], numbers: &[usize]) -> Option<Split> {
    let fields = super::Field::ALL.into_iter();
    let all = fields.flat_map(|field| lanes(field).into_iter().map(move |lane| (field, lane)));
    let splits = all.filter_map(|(field, lane)| split_by(rules, numbers, field, lane));
    splits.min_by_key(Split::longer).filter(|split| split.longer() < numbers.len())
}

/// Splits at the median of where the rules' intervals begin.
fn split_by(
    rules: &[Rule],
    numbers: &[usize],
    field: super::Field,
    lane: FieldWord,
) -> Option<Split> {
    let of = |number: &usize| interval(&rules[*number], field, lane);
    let mut starts: Vec<u64> = numbers.iter().map(|n| of(n).0).filter(|lo| *lo > 0).collect();
    starts.sort_unstable();
    starts.dedup();
    let at = *starts.get(starts.len() / 2)?;
    let side = |keep: &dyn Fn((u64, u64)) -> bool| {
        numbers.iter().copied().filter(|n| keep(of(n))).collect::<Vec<_>>()
    };
    let (below, above) = (side(&|(lo, _)| lo < at), side(&|(_, hi)| hi >= at));
    Some(Split { lane, at, below, above })
}

/// Walks the tree: a hit is counted, if `hits` are, leaves its target's code in R1 and goes to `hit`.
pub(super) fn emit(
    asm: &mut Assembler,
    rules: &[Rule],
    node: &Node,
    hits: Option<&Map>,
    hit: Label,
) {
    let miss = asm.label("no rule");
    emit_node(asm, rules, node, hits, hit, miss);
    asm.bind(miss);
}

fn emit_node(
    asm: &mut Assembler,
    rules: &[Rule],
    node: &Node,
    hits: Option<&Map>,
    hit: Label,
    miss: Label,
) {
    match node {
        Node::Leaf(numbers) => {
            for number in numbers {
                emit_rule(asm, &rules[*number], *number, hits, hit);
            }
            asm.jump(miss);
        }
        Node::Split { lane, at: from, below, above } => {
            let up = asm.label("above");
            load_number(asm, *lane);
            compare(asm, Cond::Ge, *from, up);
            emit_node(asm, rules, below, hits, hit, miss);
            asm.bind(up);
            emit_node(asm, rules, above, hits, hit, miss);
        }
    }
}

/// R1 = the lane's value as a number.
fn load_number(asm: &mut Assembler, lane: FieldWord) {
    asm.load(lane.width, R1, R10, at(lane.offset));
    if lane.width != Width::B {
        asm.big_endian(R1, lane.width.bits());
    }
}

/// Goes to `to` if R1 compares so with `number`. Small numbers fit the instruction.
fn compare(asm: &mut Assembler, cond: Cond, number: u64, to: Label) {
    match i32::try_from(number) {
        Ok(small) => asm.jump_if(cond, R1, small, to),
        Err(_) => asm.load_imm64(R2, number).jump_if(cond, R1, R2, to),
    };
}

/// R1 &= `mask`.
fn keep(asm: &mut Assembler, mask: u64) {
    match i32::try_from(mask) {
        Ok(small) => asm.alu(AluOp::And, R1, small),
        Err(_) => asm.load_imm64(R2, mask).alu(AluOp::And, R1, R2),
    };
}

fn emit_rule(asm: &mut Assembler, rule: &Rule, number: usize, hits: Option<&Map>, hit: Label) {
    let no = asm.label("not this rule");
    asm.note("a rule");
    let present = layout::present(rule);
    let masked = rule.tests.iter().filter_map(|test| match *test {
        Test::Mask { field, mask, value } => Some(masked_lanes(field, mask, value)),
        Test::Range { .. } => None,
    });
    for masked in std::iter::once(present).chain(masked.flatten()).filter(|m| m.mask != 0) {
        asm.load(masked.lane.width, R1, R10, at(masked.lane.offset));
        if masked.mask.count_ones() < masked.lane.width.bits() {
            keep(asm, masked.mask);
        }
        compare(asm, Cond::Ne, masked.value, no);
    }
    for test in &rule.tests {
        if let Test::Range { field, lo, hi } = *test {
            emit_range(asm, &lanes(field), lo, hi, no);
        }
    }
    if rule.tests.iter().all(|test| test.is_always_true()) && present.mask == 0 {
        // The kernel refuses programs with unreachable code, as behind a rule that matches
        // everything; it does not know that no packet has all of these.
        asm.load(present.lane.width, R1, R10, at(present.lane.offset));
        compare(asm, Cond::Eq, 0xff, no);
    }
    if let Some(hits) = hits {
        asm.load_map_value(R2, hits, 8 * number as u32).mov(R3, 1);
        asm.atomic(AtomicOp::Add, R2, 0, R3);
    }
    asm.mov(R1, code_of(rule.target) as i32).jump(hit);
    asm.bind(no);
}

/// Goes to `no` unless the number in the lanes is between `lo` and `hi`.
fn emit_range(asm: &mut Assembler, lanes: &[FieldWord], lo: u128, hi: u128, no: Label) {
    for (end, out) in [(lo, Cond::Lt), (hi, Cond::Gt)] {
        let inside = asm.label("inside");
        for (i, lane) in lanes.iter().enumerate() {
            load_number(asm, *lane);
            compare(asm, out, lane.part(end), no);
            if i + 1 < lanes.len() {
                // Inside already by the higher half; if that is equal, the lower one decides.
                compare(asm, Cond::Ne, lane.part(end), inside);
            }
        }
        asm.bind(inside);
    }
}
