//! A gate that is opened and shut by a socket while frames arrive.
//!
//! Run it with `cargo run -p weever-examples-sampler --bin gate`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use weever_blocks_std::registry;
use weever_examples_sampler::{GATE, Lever};
use weever_host::{Host, HostBuilder};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};

/// What passes the gate is sent back.
const TEXT: &str = "
graph gate {
    node RxQueue { attr \"source\" port out[Gate] }
    node Gate {
        attr \"drop shut: the gate is shut\"
        attr \"ends=told\"
        spawn told Gate
        port open[Mirror]
        port shut[]
        port told[]
    }
    node Mirror { implementation TxQueue }
}";

fn main() -> Result<(), Box<dyn Error>> {
    for (said, passed) in run(&["", "1", "0", "01"])? {
        println!("after {said:?} the frame {}", if passed { "came back" } else { "was dropped" });
    }
    Ok(())
}

/// Says each of these to the gate, and sends a frame after it. Whether the frames came back.
fn run<'a>(all: &[&'a str]) -> Result<Vec<(&'a str, bool)>, Box<dyn Error>> {
    let (lever, mut theirs) = Lever::new()?;
    let (ours, mut far) = pair(&MemoryConfig::default())?;
    let mut builder = HostBuilder::new(Pool::new(PoolConfig::default())?);
    builder.registry(registry().with(&[&GATE]));
    builder.graph(weever_unicorn::load(TEXT, "gate.unicorn")?.graph, "RxQueue");
    builder.env().provide(Arc::new(lever));
    builder.link(Box::new(ours));
    let mut host = builder.build(0)?;
    let (mut peer, mut cache) = (far.take_queues().remove(0), host.handle().pool.cache());
    let mut heard = Vec::new();
    for said in all {
        theirs.write_all(said.as_bytes())?;
        // An idle turn looks at the descriptor, and the task runs in the next.
        for _ in 0..3 {
            host.step(1_000);
        }
        heard.push((*said, passes(&mut host, &mut *peer, &mut cache)?));
    }
    Ok(heard)
}

/// Sends a frame and lets the host come to rest; whether it came back.
fn passes(
    host: &mut Host,
    peer: &mut dyn LinkQueue,
    cache: &mut PoolCache,
) -> Result<bool, Box<dyn Error>> {
    let mut frame = cache.alloc().ok_or("the pool is empty")?;
    frame.append(&[0; 60]);
    peer.tx(cache, &mut [frame].into())?;
    peer.flush(cache)?;
    while host.step(1_000) {}
    Ok(peer.rx(cache, &mut Burst::new(), 64)? == 1)
}

#[test]
fn the_gate_does_as_it_is_told() {
    let came = run(&["", "1", "", "0", "01"]).unwrap();
    assert_eq!(came, [("", false), ("1", true), ("", true), ("0", false), ("01", true)]);
}
