//! The cost of the steering program for a frame, in nanoseconds, by repeated test runs: run as root
//! with `cargo run --release -p weever-ebpf --example steering_cost`.

use std::net::Ipv4Addr;

use weever_ebpf::sys::{BpfError, XdpProgram};
use weever_ebpf::xdp::{Share, Steer, pass};

const REPEAT: u32 = 300_000;
const RUNS: usize = 40;

fn best_nanoseconds(program: &XdpProgram, frame: &[u8]) -> Result<u128, BpfError> {
    let mut best = u128::MAX;
    for _ in 0..RUNS {
        best = best.min(program.run(frame, REPEAT)?.duration.as_nanos());
    }
    Ok(best)
}

fn main() -> Result<(), BpfError> {
    let address = |i| Ipv4Addr::new(10, 0, 0, i);
    let mut frame = vec![0; 64];
    frame[12] = 8;
    frame[14] = 0x45;
    let unshared = Steer::load(Share::None, 1)?;
    let shared = Steer::load(Share::Address, 1)?;
    for i in 1..=20 {
        shared.add_address(address(i))?;
    }
    println!("an empty program           {:4} ns", best_nanoseconds(&pass()?, &frame)?);
    println!("share = none               {:4} ns", best_nanoseconds(unshared.program(), &frame)?);
    for (what, i) in [("first", 1), ("seventh", 7), ("eighth", 8), ("not ours", 99)] {
        frame[30..34].copy_from_slice(&address(i).octets());
        let cost = best_nanoseconds(shared.program(), &frame)?;
        println!("share = address, {what:<9} {cost:4} ns");
    }
    Ok(())
}
