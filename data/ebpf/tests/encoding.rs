//! Instructions against the bytes of RFC 9669, against an independent assembler, and there and
//! back; labels; provenance.

use proptest::prelude::*;
use weever_ebpf::asm::Reg::{R0, R1, R2, R7, R10};
use weever_ebpf::asm::{
    AluOp, AsmError, Assembler, AtomicOp, Cond, Helper, Imm64, Insn, Program, Raw, Reg, Source,
    Width,
};

fn build(emit: impl FnOnce(&mut Assembler)) -> Program {
    let mut asm = Assembler::new();
    emit(&mut asm);
    asm.assemble().unwrap()
}

fn words(program: &Program) -> Vec<u64> {
    program.to_bytes().as_chunks::<8>().0.iter().map(|b| u64::from_be_bytes(*b)).collect()
}

/// As an assembler of another project writes the same instructions.
#[test]
fn agrees_with_another_assembler() {
    let ours = build(|a| {
        let end = a.label("end");
        a.mov(R0, 7).alu(AluOp::Add, R0, R1).alu32(AluOp::Arsh, R7, 3);
        a.alu(AluOp::Mod, R2, R7).emit(Insn::Neg { wide: true, dst: R2 });
        a.emit(Insn::Neg { wide: false, dst: R7 });
        a.big_endian(R1, 16).emit(Insn::LittleEndian { dst: R1, bits: 64 });
        a.load(Width::H, R1, R2, -12).store(Width::B, R10, -1, 0x44).store(Width::DW, R1, 8, R7);
        a.load_imm64(R2, 0x1122_3344_5566_7788);
        a.jump_if(Cond::SLe, R1, -5, end).jump_if(Cond::Set, R1, R2, end);
        a.jump32_if(Cond::Lt, R1, 9, end);
        a.jump(end).call(Helper::REDIRECT_MAP).bind(end).exit();
    });
    let theirs = rbpf::assembler::assemble(
        "mov r0, 7\nadd r0, r1\narsh32 r7, 3\nmod r2, r7\nneg r2\nneg32 r7\nbe16 r1\nle64 r1\n\
         ldxh r1, [r2-12]\nstb [r10-1], 0x44\nstxdw [r1+8], r7\nlddw r2, 0x1122334455667788\n\
         jsle r1, -5, +4\njset r1, r2, +3\njlt32 r1, 9, +2\nja +1\ncall 51\nexit",
    );
    assert_eq!(ours.to_bytes(), theirs.unwrap());
}

/// Instructions unknown to the other assembler, by hand from the RFC's tables (bytes of a
/// little-endian machine).
#[test]
#[cfg(target_endian = "little")]
fn agrees_with_the_tables() {
    let program = build(|a| {
        a.atomic(AtomicOp::Add, R1, 8, R2).atomic(AtomicOp::FetchAdd, R1, 8, R2);
        a.emit(Insn::Atomic {
            wide: false,
            op: AtomicOp::CompareExchange,
            base: R1,
            off: 0,
            src: R2,
        });
        a.emit(Insn::LoadImm64 { dst: R1, imm: Imm64::MapFd(5) });
        a.emit(Insn::LoadImm64 { dst: R1, imm: Imm64::MapValue { fd: 5, offset: 16 } });
    });
    let expected = [
        0xdb21_0800_0000_0000,
        0xdb21_0800_0100_0000,
        0xc321_0000_f100_0000,
        0x1811_0000_0500_0000,
        0,
        0x1821_0000_0500_0000,
        0x0000_0000_1000_0000,
    ];
    assert_eq!(words(&program), expected);
}

#[test]
fn displays_as_the_verifier_does() {
    let program = build(|a| {
        let back = a.label("back");
        a.bind(back);
        a.load(Width::W, R2, R1, 4).store(Width::B, R10, -8, 1).mov(R0, R2);
        a.alu32(AluOp::Rsh, R0, 4).big_endian(R0, 16).call(Helper::MAP_LOOKUP_ELEM);
        a.jump32_if(Cond::SGt, R0, R1, back).jump(back).exit();
    });
    let shown: Vec<_> = program.instructions().map(|(_, insn)| insn.to_string()).collect();
    let expected = [
        "r2 = *(u32 *)(r1 +4)",
        "*(u8 *)(r10 -8) = 1",
        "r0 = r2",
        "w0 >>= 4",
        "r0 = be16 r0",
        "call bpf_map_lookup_elem#1",
        "if w0 s> w1 goto -7",
        "goto -8",
        "exit",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn jumps_count_slots_not_instructions() {
    let program = build(|a| {
        let (start, end) = (a.label("start"), a.label("end"));
        a.bind(start).jump(end).load_imm64(R0, 1).jump(start).bind(end).exit();
    });
    let jumps: Vec<_> = program.instructions().collect();
    assert_eq!(jumps[0], (0, Insn::Jump { off: 3 }));
    assert_eq!(jumps[2], (3, Insn::Jump { off: -4 }));
    assert_eq!(jumps[3], (4, Insn::Exit));
}

#[test]
fn mistakes_name_the_label_and_the_line() {
    let mut asm = Assembler::new();
    let label = asm.label("nowhere");
    asm.note("a test").jump(label);
    let error = asm.assemble().unwrap_err();
    assert!(matches!(&error, AsmError::Unbound { label: "nowhere", origin }
        if origin.note == "a test" && origin.location.file().ends_with("encoding.rs")));
    assert!(error.to_string().contains("a test"), "{error}");

    let mut asm = Assembler::new();
    let label = asm.label("twice");
    asm.bind(label).exit().bind(label);
    assert!(matches!(asm.assemble(), Err(AsmError::Rebound { label: "twice", .. })));
}

#[test]
fn jumps_reach_as_far_as_sixteen_bits() {
    let far = |n: usize| {
        let mut asm = Assembler::new();
        let end = asm.label("far");
        asm.jump(end);
        (0..n).for_each(|_| _ = asm.mov(R0, 0));
        asm.bind(end).exit();
        asm.assemble()
    };
    assert!(far(32_767).is_ok());
    assert!(matches!(far(32_768), Err(AsmError::TooFar { distance: 32_768, .. })));
}

#[test]
fn every_slot_knows_where_it_came_from() {
    let program = build(|a| {
        a.note("first").load_imm64(R0, 9);
        a.note("second").exit();
    });
    let notes: Vec<_> = (0..3).map(|slot| program.origin(slot).unwrap().note).collect();
    assert_eq!(notes, ["first", "first", "second"]);
    assert_eq!(program.origin(3), None);
    let (a, b) = (program.origin(0).unwrap().location, program.origin(2).unwrap().location);
    assert_eq!((a.line() + 1, a.file()), (b.line(), file!()));
    assert!(program.excerpt(1, 0).starts_with(">    0  r0 = 0x9 ll"), "{program}");
}

fn reg() -> impl Strategy<Value = Reg> {
    prop::sample::select(&Reg::ALL[..])
}

fn width() -> impl Strategy<Value = Width> {
    prop::sample::select(&Width::ALL[..])
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![reg().prop_map(Source::Reg), any::<i32>().prop_map(Source::Imm)]
}

fn imm64() -> impl Strategy<Value = Imm64> {
    prop_oneof![
        any::<u64>().prop_map(Imm64::Value),
        any::<i32>().prop_map(Imm64::MapFd),
        (any::<i32>(), any::<u32>()).prop_map(|(fd, offset)| Imm64::MapValue { fd, offset }),
    ]
}

fn insn() -> impl Strategy<Value = Insn> {
    let (alu, cond) = (prop::sample::select(&AluOp::ALL[..]), prop::sample::select(&Cond::ALL[..]));
    let atomic = prop::sample::select(&AtomicOp::ALL[..]);
    let bits = prop::sample::select(&[16u32, 32, 64][..]);
    prop_oneof![
        (any::<bool>(), alu, reg(), source()).prop_map(|(wide, op, dst, src)| Insn::Alu {
            wide,
            op,
            dst,
            src
        }),
        (any::<bool>(), reg()).prop_map(|(wide, dst)| Insn::Neg { wide, dst }),
        (reg(), bits.clone()).prop_map(|(dst, bits)| Insn::BigEndian { dst, bits }),
        (reg(), bits).prop_map(|(dst, bits)| Insn::LittleEndian { dst, bits }),
        (reg(), imm64()).prop_map(|(dst, imm)| Insn::LoadImm64 { dst, imm }),
        (width(), reg(), reg(), any::<i16>()).prop_map(|(width, dst, base, off)| Insn::Load {
            width,
            dst,
            base,
            off
        }),
        (width(), reg(), any::<i16>(), source()).prop_map(|(width, base, off, src)| Insn::Store {
            width,
            base,
            off,
            src
        }),
        (any::<bool>(), atomic, reg(), any::<i16>(), reg())
            .prop_map(|(wide, op, base, off, src)| Insn::Atomic { wide, op, base, off, src }),
        any::<i16>().prop_map(|off| Insn::Jump { off }),
        (any::<bool>(), cond, reg(), source(), any::<i16>())
            .prop_map(|(wide, cond, dst, src, off)| Insn::JumpIf { wide, cond, dst, src, off }),
        any::<i32>().prop_map(|id| Insn::Call { helper: Helper(id) }),
        Just(Insn::Exit),
    ]
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(insn in insn()) {
        let (first, second) = insn.encode();
        let slots: Vec<Raw> = [Some(first), second].into_iter().flatten().collect();
        prop_assert_eq!(slots.len(), insn.slots());
        prop_assert_eq!(Insn::decode(&slots), Ok(insn));
    }

    /// Anything that decodes encodes to the same bits.
    #[test]
    fn decoding_is_total_and_exact(
        code in any::<u8>(), regs in any::<u8>(), off in prop_oneof![Just(0), any::<i16>()],
        imm in prop_oneof![Just(0), 0..256, any::<i32>()], high in any::<i32>(),
    ) {
        let first = Raw { code, regs, off, imm };
        let second = Raw { imm: high, ..Raw::default() };
        if let Ok(insn) = Insn::decode(&[first, second]) {
            prop_assert_eq!(insn.encode().0, first);
            prop_assert!(!insn.to_string().is_empty());
        }
    }
}
