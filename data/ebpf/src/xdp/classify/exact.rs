//! Filters with the same masks: one hash map, one lookup.

use super::layout::{self, FieldWord, Masked, code_of};
use super::parse::at;
use super::rule::{Rule, setting};
use crate::asm::Reg::{R0, R1, R2, R10};
use crate::asm::{AluOp, Assembler, AtomicOp, Cond, Helper, Label, Width};
use crate::sys::{BpfError, Map, MapKind};

/// Where the lookup's key is put together, below the key area.
const KEY: i16 = layout::AREA - 48;
/// Bytes of a value: the target, padding, and how often it was hit.
const VALUE: usize = 16;
const HITS: i16 = 8;
/// Where in the key area addresses and ports end.
const PORTS_END: usize = 36;

/// The bits of each lane that count, the same for all filters of one map.
pub(super) type Signature = Vec<(FieldWord, u64)>;

pub(super) fn signature(masked: &[Masked]) -> Signature {
    masked.iter().map(|m| (m.lane, m.mask)).collect()
}

/// A map of filters that look at the same bits.
#[derive(Debug)]
pub(super) struct ExactTable {
    pub(super) signature: Signature,
    pub(super) entries: u32,
    /// The table with the lowest is asked first.
    pub(super) rank: i64,
    capacity: u32,
    map: Map,
}

impl ExactTable {
    pub(super) fn new(
        signature: Signature,
        capacity: u32,
        rank: Option<i64>,
    ) -> Result<ExactTable, BpfError> {
        let bits: u32 = signature.iter().map(|(_, mask)| mask.count_ones()).sum();
        let rank = rank.unwrap_or(-i64::from(bits));
        let size = key_size(&signature) as u32;
        let map = Map::create(MapKind::Hash, "weever_filters", size, VALUE as u32, capacity)?;
        Ok(ExactTable { signature, entries: 0, rank, capacity, map })
    }

    /// Whether its filters look at all of addresses and ports: each is for one flow.
    pub(super) fn is_of_flows(&self) -> bool {
        let ends = self.signature.iter().filter(|(lane, _)| lane.offset < PORTS_END);
        let bits: u32 = ends.clone().map(|(_, mask)| mask.count_ones()).sum();
        let has_v6 = ends.clone().any(|(lane, _)| lane.width == Width::DW);
        bits == if has_v6 { 2 * 128 + 32 } else { 2 * 32 + 32 }
    }

    /// Enters a filter, or gives it another target; says whether it was new.
    pub(super) fn insert(&mut self, masked: &[Masked], rule: &Rule) -> Result<bool, BpfError> {
        let key = self.key(masked);
        let is_new = self.value(&key)?.is_none();
        if is_new && self.entries == self.capacity {
            let what = "its table has no room: remove filters, or make it with a greater capacity";
            return setting(what);
        }
        let mut value = [0; VALUE];
        value[..4].copy_from_slice(&code_of(rule.target).to_ne_bytes());
        self.map.update(&key, &value)?;
        self.entries += u32::from(is_new);
        Ok(is_new)
    }

    pub(super) fn remove(&mut self, masked: &[Masked]) -> Result<bool, BpfError> {
        let was_there = self.map.remove(&self.key(masked))?;
        self.entries -= u32::from(was_there);
        Ok(was_there)
    }

    /// How often the filter was hit; `None` if it is not there.
    pub(super) fn hits(&self, masked: &[Masked]) -> Result<Option<u64>, BpfError> {
        let value = self.value(&self.key(masked))?;
        Ok(value.map(|value| u64::from_ne_bytes(*value.last_chunk().expect("16 bytes"))))
    }

    fn value(&self, key: &[u8]) -> Result<Option<[u8; VALUE]>, BpfError> {
        let mut value = [0; VALUE];
        Ok(self.map.lookup(key, &mut value)?.then_some(value))
    }

    fn key(&self, masked: &[Masked]) -> Vec<u8> {
        let mut key = vec![0; key_size(&self.signature)];
        for ((lane, offset), masked) in places(&self.signature).zip(masked) {
            let bytes = lane.to_bytes(masked.value);
            key[offset..offset + lane.bytes()].copy_from_slice(&bytes[..lane.bytes()]);
        }
        key
    }
}

/// The lanes of a key, widest first so that each is aligned, and where each lies.
fn places(signature: &Signature) -> impl Iterator<Item = (FieldWord, usize)> + '_ {
    let end_of_wider = |lane: FieldWord| -> usize {
        signature.iter().map(|(l, _)| l.bytes()).filter(|bytes| *bytes > lane.bytes()).sum()
    };
    signature.iter().enumerate().map(move |(i, (lane, _))| {
        let same = signature[..i].iter().filter(|(l, _)| l.bytes() == lane.bytes());
        (*lane, end_of_wider(*lane) + same.count() * lane.bytes())
    })
}

/// A multiple of 8, for which the kernel's hash takes its shortest way.
fn key_size(signature: &Signature) -> usize {
    signature.iter().map(|(lane, _)| lane.bytes()).sum::<usize>().next_multiple_of(8).max(8)
}

/// Looks the packet up: a hit leaves its target's code in R1 and goes to `hit`.
pub(super) fn emit(asm: &mut Assembler, table: &ExactTable, hit: Label) {
    let miss = asm.label("no such filter");
    asm.note("put a key together");
    // The key may end within the last word: the rest of the last word has to be zero.
    let last = key_size(&table.signature) as i16 - 8;
    asm.store(Width::DW, R10, KEY + last, 0);
    for ((lane, offset), (_, mask)) in places(&table.signature).zip(&table.signature) {
        asm.load(lane.width, R1, R10, at(lane.offset));
        if mask.count_ones() < lane.width.bits() {
            asm.load_imm64(R2, *mask).alu(AluOp::And, R1, R2);
        }
        asm.store(lane.width, R10, KEY + offset as i16, R1);
    }
    asm.note("is there a filter for it?");
    asm.load_map(R1, &table.map).mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.call(Helper::MAP_LOOKUP_ELEM).jump_if(Cond::Eq, R0, 0, miss);
    asm.mov(R2, 1).atomic(AtomicOp::Add, R0, HITS, R2);
    asm.load(Width::W, R1, R0, 0).jump(hit);
    asm.bind(miss);
}
