//! Blocks of one's own, used by name in a graph of one's own, over a link in memory.
//!
//! Run it with `cargo run -p weever-examples-sampler`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_blocks_std::registry;
use weever_engine::CounterKind;
use weever_examples_sampler::{LONG_FRAME, SAMPLER};
use weever_host::HostBuilder;
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Burst, Pool, PoolConfig};

/// The returned frames, and the counters of the graph's nodes.
#[derive(Debug, PartialEq, Eq)]
struct Sampled {
    frames: Vec<Vec<u8>>,
    sampled: u64,
    dropped: Vec<(String, u64)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let frames: Vec<Vec<u8>> = (0..10).map(|i| vec![i; if i < 2 { 60 } else { 100 }]).collect();
    let Sampled { frames, sampled, dropped } = run(include_str!("../sampler.unicorn"), &frames)?;
    let first: Vec<u8> = frames.iter().filter_map(|frame| frame.first().copied()).collect();
    println!("{} frames of 10 came back: {first:?}", frames.len());
    println!("sampled: {sampled}");
    dropped.iter().for_each(|(reason, count)| println!("dropped: {count} ({reason})"));
    Ok(())
}

/// Runs the graph of `text` until it has dealt with `frames`.
fn run(text: &str, frames: &[Vec<u8>]) -> Result<Sampled, Box<dyn Error>> {
    let graph = weever_unicorn::load(text, "sampler.unicorn")?.graph;

    // The graph's nodes find their blocks by name: those that ship, and these two.
    let (ours, mut theirs) = pair(&MemoryConfig::default())?;
    let mut builder = HostBuilder::new(Pool::new(PoolConfig::default())?);
    builder.registry(registry().with(&[&LONG_FRAME, &SAMPLER]));
    builder.graph(graph, "RxQueue");
    builder.link(Box::new(ours));
    let mut host = builder.build(0)?;

    // The other end of the link: frames in, turns of the worker, frames out.
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() })?;
    let (mut buffers, mut queue) = (pool.cache(), theirs.take_queues().remove(0));
    let mut packets = std::collections::VecDeque::new();
    for frame in frames {
        let mut packet = buffers.alloc().ok_or("the pool is empty")?;
        if !packet.append(frame) {
            return Err("the frame is longer than a buffer".into());
        }
        packets.push_back(packet);
    }
    queue.tx(&mut buffers, &mut packets)?;
    queue.flush(&mut buffers)?;
    while host.step(1_000) {}
    let mut burst = Burst::new();
    let received = queue.rx(&mut buffers, &mut burst, 64)?;
    let frames = (0..received).filter_map(|slot| burst.take(slot)).map(|p| p.data().to_vec());

    let readings = host.handle().readings().concat();
    let of = |kind| readings.iter().filter(move |r| r.kind == kind && r.value > 0);
    let dropped = of(CounterKind::Drop).map(|r| (r.label.to_string(), r.value)).collect();
    let sampled = of(CounterKind::Own).map(|r| r.value).sum();
    Ok(Sampled { frames: frames.collect(), sampled, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../sampler.unicorn");

    #[test]
    fn one_long_frame_of_three_comes_back() {
        let frames =
            [vec![0; 60], vec![1; 100], vec![2; 100], vec![3; 64], vec![4; 65], vec![5; 90]];
        let report = run(TEXT, &frames).unwrap();
        assert_eq!(report.frames, [vec![1; 100], vec![5; 90]]);
        assert_eq!(report.sampled, 2);
        assert_eq!(report.dropped, [("short frame".into(), 2), ("not sampled".into(), 2)]);
    }

    #[test]
    fn errors_name_the_node_and_the_remedy() {
        let error = |text: &str| run(text, &[]).unwrap_err().to_string();
        let zero = error(&TEXT.replace("every=3", "every=0"));
        assert!(zero.contains("node Sample") && zero.contains("use 1 or more"), "{zero}");
        let misspelt = error(&TEXT.replace("implementation Sampler", "implementation Smapler"));
        assert!(misspelt.contains("did you mean `implementation Sampler`"), "{misspelt}");
        let port = error(&TEXT.replace("port rest[]", ""));
        assert!(port.contains("port `rest`"), "{port}");
    }

    #[test]
    fn the_walkthrough_is_up_to_date() {
        let guide = include_str!("../../../docs/blocks.md");
        let sources = [include_str!("lib.rs"), include_str!("main.rs"), TEXT];
        let shown = guide.split("```").skip(1).step_by(2);
        let code = shown.filter_map(|block| {
            let (kind, text) = block.split_once('\n')?;
            matches!(kind, "rust,ignore" | "unicorn").then_some(text)
        });
        let missing: Vec<_> =
            code.filter(|s| !sources.iter().any(|all| all.contains(s.trim_end()))).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
