#![doc = include_str!("README.md")]

use weever_block::{Block, BlockType, Buffer, Burst, Cx, Mask, PortDoc, Ports, Priority, bits};

/// The block type.
pub static TEE: BlockType = BlockType {
    spawns: &["copy"],
    counters: &["copies", "lost"],
    ..BlockType::new(
        "Tee",
        "Copies packets; the copies start tasks of their own.",
        &[PortDoc { name: "out", doc: "every packet" }],
        |_| Ok(Box::new(Tee)),
    )
};

struct Tee;

impl Block for Tee {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let mut copies = 0;
        for task in bits(input) {
            if let Some(copy) = burst.get(task).and_then(|packet| copy(cx, packet)) {
                cx.spawn_new(0, Some(copy), 0, Priority::High);
                copies += 1;
            }
        }
        cx.count(0, copies);
        cx.count(1, u64::from(input.count_ones()) - copies);
        ports.enable(0, input);
    }
}

/// The same bytes at the same place in their frame, so that recorded offsets hold, from the link
/// header on even if that was stripped.
pub(crate) fn copy(cx: &mut Cx<'_>, packet: &Buffer) -> Option<Buffer> {
    let start = packet.meta().l2.min(packet.head());
    let bytes = packet.at(start);
    let mut copy = cx.alloc()?;
    if !copy.set_bounds(start, start + bytes.len() as u16) {
        cx.free(copy);
        return None;
    }
    copy.data_mut().copy_from_slice(bytes);
    copy.strip(packet.head() - start);
    *copy.meta_mut() = *packet.meta();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;

    #[test]
    fn a_copy_has_headers_and_metadata_of_its_own() {
        let mut bench = Bench::new();
        let mut packet = bench.packet(b"header and payload");
        packet.meta_mut().l2 = packet.head();
        packet.meta_mut().entry = 7;
        assert!(packet.strip(11));
        let burst = bench.single(packet);
        let mut ran = bench.run(&TEE, burst, 1);
        assert_eq!(
            (ran.ports.as_slice(), ran.requests.counts.as_slice()),
            (&[1][..], &[(0, 1)][..])
        );
        let copy = ran.requests.spawns.remove(0).buffer.unwrap();
        let original = ran.packet(0);
        assert_ne!(copy.index(), original.index());
        assert_eq!(copy.data(), b"payload");
        assert_eq!(copy.at(copy.meta().l2), b"header and payload");
        assert_eq!(copy.meta(), original.meta());
    }

    #[test]
    fn without_a_buffer_the_original_goes_on_alone() {
        let mut bench = Bench::new();
        let burst = bench.burst(&[b"x"]);
        let held: Vec<Buffer> = std::iter::from_fn(|| bench.pool.alloc()).collect();
        assert!(!held.is_empty());
        let ran = bench.run(&TEE, burst, 1);
        assert_eq!(ran.ports, [1]);
        assert_eq!(ran.requests.counts, [(1, 1)]);
        assert!(ran.requests.spawns.is_empty());
    }
}
