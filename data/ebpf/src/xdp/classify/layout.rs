//! The key area: a packet's fields as the program lays them out on its stack, in network order.
//!
//! Fields that a packet lacks are zero there, and [`PRESENT`] tells zero from absent, so that a
//! lookup of the bytes is a test of presence too.

use super::rule::{Field, Rule, Target, Test};
use crate::asm::Width;

/// Bytes of the key area.
pub(super) const SIZE: usize = 48;
/// Where the area begins, from the frame pointer.
pub(super) const AREA: i16 = -(SIZE as i16);
/// A byte of bits: which fields the packet has.
pub(super) const PRESENT: usize = 43;
/// The packet has an IPv4 header.
pub(super) const HAS_V4: u8 = 1;
/// The packet has an IPv6 header.
pub(super) const HAS_V6: u8 = 2;
/// The packet has ports.
pub(super) const HAS_PORTS: u8 = 4;
/// The packet has TCP flags.
pub(super) const HAS_FLAGS: u8 = 8;
/// The packet has a VLAN tag.
pub(super) const HAS_VLAN: u8 = 16;

const PASS: u32 = 0x1_0000;
const DROP: u32 = 0x1_0001;

/// A target as a number that a map holds.
pub(super) fn code_of(target: Target) -> u32 {
    match target {
        Target::Queue(queue) => queue,
        Target::Pass => PASS,
        Target::Drop => DROP,
    }
}

/// A part of a field that one instruction loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FieldWord {
    pub(super) offset: usize,
    pub(super) width: Width,
    /// How far the lane's lowest bit lies above the field's.
    pub(super) shift: u32,
}

impl FieldWord {
    pub(super) fn bytes(self) -> usize {
        self.width.bits() as usize / 8
    }

    /// The lane's part of a number about the whole field.
    pub(super) fn part(self, of: u128) -> u64 {
        (of >> self.shift) as u64 & (u64::MAX >> (64 - self.width.bits()))
    }

    /// A number as loading it from the frame yields it.
    pub(super) fn as_loaded(self, number: u64) -> u64 {
        match self.width {
            Width::B => number,
            Width::H => u16::from_be(number as u16).into(),
            Width::W => u32::from_be(number as u32).into(),
            Width::DW => u64::from_be(number),
        }
    }

    /// A loaded number's bytes in memory, padded.
    pub(super) fn to_bytes(self, loaded: u64) -> [u8; 8] {
        // Swapped twice: the number again, with its bytes in network order.
        let (number, count) = (self.as_loaded(loaded), self.bytes());
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(&number.to_be_bytes()[8 - count..]);
        bytes
    }
}

/// The lanes of a field, most significant first.
pub(super) fn lanes(field: Field) -> Vec<FieldWord> {
    let one = |offset, width| vec![FieldWord { offset, width, shift: 0 }];
    let two = |offset| {
        let lane = |offset, shift| FieldWord { offset, width: Width::DW, shift };
        vec![lane(offset, 64), lane(offset + 8, 0)]
    };
    match field {
        Field::Src4 => one(0, Width::W),
        Field::Dst4 => one(16, Width::W),
        Field::Src6 => two(0),
        Field::Dst6 => two(16),
        Field::SrcPort => one(32, Width::H),
        Field::DstPort => one(34, Width::H),
        Field::Protocol => one(36, Width::B),
        Field::TcpFlags => one(37, Width::B),
        Field::EtherType => one(38, Width::H),
        Field::Vlan => one(40, Width::H),
    }
}

const PRESENCE: FieldWord = FieldWord { offset: PRESENT, width: Width::B, shift: 0 };

/// Which fields a packet must have for the rule to match.
fn presence(rule: &Rule) -> u8 {
    let of = |field| match field {
        Field::EtherType => 0,
        Field::Vlan => HAS_VLAN,
        Field::Src4 | Field::Dst4 => HAS_V4,
        Field::Src6 | Field::Dst6 => HAS_V6,
        // Nothing has the number 0 that is looked for by protocol, but hop-by-hop options do.
        Field::Protocol => 0,
        Field::SrcPort | Field::DstPort => HAS_PORTS,
        Field::TcpFlags => HAS_FLAGS,
    };
    rule.tests.iter().fold(0, |bits, test| bits | of(test.field()))
}

/// `area[lane] & mask == value`, all in network order as loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Masked {
    pub(super) lane: FieldWord,
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// The rule as masked lanes; `None` if it has a range.
pub(super) fn masked(rule: &Rule) -> Option<Vec<Masked>> {
    let mut all = vec![present(rule)];
    let mut tests = rule.tests.clone();
    tests.sort();
    for test in tests {
        let Test::Mask { field, mask, value } = test else { return None };
        all.extend(masked_lanes(field, mask, value));
    }
    all.retain(|masked| masked.mask != 0);
    Some(all)
}

/// The rule's test for the fields that it needs; its mask is zero if it needs none.
pub(super) fn present(rule: &Rule) -> Masked {
    let bits = u64::from(presence(rule));
    Masked { lane: PRESENCE, mask: bits, value: bits }
}

pub(super) fn masked_lanes(field: Field, mask: u128, value: u128) -> impl Iterator<Item = Masked> {
    lanes(field).into_iter().map(move |lane| Masked {
        lane,
        mask: lane.as_loaded(lane.part(mask)),
        value: lane.as_loaded(lane.part(value)),
    })
}
