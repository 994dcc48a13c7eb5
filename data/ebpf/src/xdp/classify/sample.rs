//! Which flows no filter matches: a bounded map of five-tuples that the program counts in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::layout::{self, HAS_PORTS, HAS_V4, HAS_V6, PRESENT};
use super::parse::at;
use super::rule::setting;
use crate::asm::Reg::{R0, R1, R2, R3, R4, R10};
use crate::asm::{AluOp, Assembler, AtomicOp, Cond, Helper, Width};
use crate::sys::{BpfError, Map, MapKind};

/// Bytes of a key: the area up to the protocol, and which version of IP it is.
const KEY_SIZE: usize = 40;
const VERSION: usize = 37;
/// Where a key is put together, below the key area.
const KEY: i16 = layout::AREA - 48;
const ONE: i16 = KEY - 8;
const TARGET: i16 = ONE - 8;
/// `BPF_NOEXIST`: of two cores that see a new flow, the second adds nothing.
const NO_EXIST: i32 = 1;

/// A flow of frames that no filter matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedFlow {
    /// The IP protocol: TCP, UDP or SCTP.
    pub protocol: u8,
    /// Source address and port.
    pub src: (IpAddr, u16),
    /// Destination address and port.
    pub dst: (IpAddr, u16),
    /// The number of frames, estimated from the sampled ones.
    pub frames: u64,
}

/// The map, and how many frames pass for one that is counted.
#[derive(Debug)]
pub(super) struct Sampling {
    map: Map,
    every: u32,
    /// Whether flows are counted that match a filter which is not theirs alone.
    pub(super) within_filters: bool,
}

impl Sampling {
    pub(super) fn new(entries: u32, every: u32) -> Result<Sampling, BpfError> {
        if entries == 0 || !every.is_power_of_two() || every > 1 << 16 {
            return setting(format!(
                "counting {entries} flows, one frame in {every}: take 1 flow or more, and a power \
                 of two up to 65536"
            ));
        }
        let map = Map::create(MapKind::LruHash, "weever_flows", KEY_SIZE as u32, 8, entries)?;
        Ok(Sampling { map, every, within_filters: false })
    }

    pub(super) fn within_filters(self) -> Sampling {
        Sampling { within_filters: true, ..self }
    }

    pub(super) fn take(&self, mut take: impl FnMut(MissedFlow)) -> Result<usize, BpfError> {
        self.map.drain(|key, value| {
            if let (Some(key), Some(count)) = (key.first_chunk(), value.first_chunk()) {
                take(flow(key, u64::from_ne_bytes(*count).saturating_mul(self.every.into())));
            }
        })
    }
}

fn flow(key: &[u8; KEY_SIZE], frames: u64) -> MissedFlow {
    let address = |from: usize| {
        let six: [u8; 16] = std::array::from_fn(|i| key[from + i]);
        match key[VERSION] & HAS_V6 {
            0 => IpAddr::V4(Ipv4Addr::new(six[0], six[1], six[2], six[3])),
            _ => IpAddr::V6(Ipv6Addr::from(six)),
        }
    };
    let port = |from: usize| u16::from_be_bytes([key[from], key[from + 1]]);
    let (src, dst) = ((address(0), port(32)), (address(16), port(34)));
    MissedFlow { protocol: key[36], src, dst, frames }
}

/// Counts the frame's flow. R1 stays, the others up to R5 are lost.
pub(super) fn emit(asm: &mut Assembler, sampling: &Sampling) {
    let (done, known) = (asm.label("flow is counted"), asm.label("flow is known"));
    asm.note("which flow is it?").store(Width::DW, R10, TARGET, R1).load(
        Width::B,
        R1,
        R10,
        at(PRESENT),
    );
    asm.alu(AluOp::And, R1, i32::from(HAS_PORTS)).jump_if(Cond::Eq, R1, 0, done);
    if sampling.every > 1 {
        asm.note("one in so many").call(Helper::GET_PRANDOM_U32);
        asm.alu(AluOp::And, R0, sampling.every as i32 - 1).jump_if(Cond::Ne, R0, 0, done);
    }
    put_key(asm);
    asm.note("count its flow").load_map(R1, &sampling.map);
    asm.mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY)).call(Helper::MAP_LOOKUP_ELEM);
    asm.jump_if(Cond::Ne, R0, 0, known);
    asm.store(Width::DW, R10, ONE, 1).load_map(R1, &sampling.map);
    asm.mov(R2, R10).alu(AluOp::Add, R2, i32::from(KEY));
    asm.mov(R3, R10).alu(AluOp::Add, R3, i32::from(ONE)).mov(R4, NO_EXIST);
    asm.call(Helper::MAP_UPDATE_ELEM).jump(done);
    asm.bind(known).mov(R2, 1).atomic(AtomicOp::Add, R0, 0, R2);
    asm.bind(done).load(Width::DW, R1, R10, TARGET);
}

fn put_key(asm: &mut Assembler) {
    for word in 0..4 {
        asm.load(Width::DW, R1, R10, at(8 * word)).store(Width::DW, R10, KEY + 8 * word as i16, R1);
    }
    asm.load(Width::W, R1, R10, at(32)).store(Width::W, R10, KEY + 32, R1);
    asm.load(Width::B, R1, R10, at(36)).store(Width::B, R10, KEY + 36, R1);
    asm.load(Width::B, R1, R10, at(PRESENT)).alu(AluOp::And, R1, i32::from(HAS_V4 | HAS_V6));
    asm.store(Width::B, R10, KEY + VERSION as i16, R1).store(Width::H, R10, KEY + 38, 0);
}
