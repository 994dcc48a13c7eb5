use std::net::Ipv4Addr;

use proptest::prelude::*;
use weever_block::{Burst, PortDoc};
use weever_graph::{Entry, Field, Key, NodeKind, TableSpec};
use weever_packet::Buffer;
use weever_wire::fields::summarize;
use weever_wire::ipv4::protocol;

use super::fields::{Frame, Source, value_of};
use super::*;
use crate::bench::Bench;
use crate::testing::{field_of, frames::*};

/// Headers as the validators record them.
fn received(bench: &mut Bench, frame: &[u8]) -> Buffer {
    let mut packet = bench.packet(frame);
    let (head, parsed) = (packet.head(), summarize(frame));
    let at = |offset: Option<usize>| offset.map_or(u16::MAX, |o| head + o as u16);
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.l4) = (at(parsed.l2), at(parsed.l3), at(parsed.l4));
    meta.ethertype = parsed.ethertype.unwrap_or(0);
    packet
}

fn run(spec: &TableSpec, frames: &[&[u8]]) -> (Vec<Mask>, Vec<u32>) {
    let mut bench = Bench::new().with_kind(NodeKind::Table(spec.clone()));
    let mut burst = Burst::new();
    for (task, frame) in frames.iter().enumerate() {
        let packet = received(&mut bench, frame);
        burst.put(task, packet);
    }
    let mut block = bench.make(&TABLE_TYPE);
    const PORT: PortDoc = PortDoc { name: "a", doc: "what one of the entries matches" };
    const SHAPE: BlockType = BlockType { ports: &[PORT; 3], ..TABLE_TYPE };
    let ran = bench.run_block(block.as_mut(), &SHAPE, burst, (1 << frames.len()) - 1);
    let entries = (0..frames.len()).map(|task| ran.packet(task).meta().entry).collect();
    (ran.ports, entries)
}

fn exact(field: Field, value: u128) -> Key {
    Key { mask: field.full_mask(), value }
}

const ANY: Key = Key { mask: 0, value: 0 };

fn sockets() -> TableSpec {
    let entry = |id, ip: Option<Ipv4Addr>, port: u16, out| {
        let ip = ip.map_or(ANY, |ip| exact(Field::Ip4Dst, ip.to_bits().into()));
        Entry { id, keys: vec![ip, exact(Field::L4Dst, port.into())], priority: 0, port: out }
    };
    let entries = vec![entry(1, Some(HOST), 7, 0), entry(2, None, 7, 1), entry(3, None, 9, 1)];
    TableSpec { fields: vec![Field::Ip4Dst, Field::L4Dst], entries, miss: 2, capacity: 16 }
}

#[test]
fn sockets_by_address_and_port() {
    let to_all = ipv4(ipv4_repr(PEER, SUBNET_BROADCAST, protocol::UDP), &udp(5, 7, b"x")[34..]);
    let frames = [udp(5, 7, b"a"), from_peer(&to_all), udp(5, 9, b"b"), udp(5, 8, b"c")];
    let (ports, entries) = run(&sockets(), &frames.each_ref().map(Vec::as_slice));
    assert_eq!(ports, [0b0001, 0b0110, 0b1000]);
    assert_eq!(entries, [1, 2, 3, 0]);
}

#[test]
fn a_table_that_names_a_field_too_often_is_refused() {
    let spec = TableSpec { fields: vec![Field::Ip6Dst; 6], ..TableSpec::default() };
    let node = weever_graph::Node::new("Wide", NodeKind::Table(spec));
    let env = weever_block::Env::new();
    let error = crate::registry().build(&node, &env).err().unwrap().to_string();
    assert!(error.contains("Wide") && error.contains("more than once"), "{error}");
}

/// Every field of a frame, against an independent walk over it.
#[test]
fn fields_are_those_of_the_reference_walk() {
    let mut bench = Bench::new();
    for frame in [
        udp(5, 7, b"a"),
        echo_request(1, 2, b"data"),
        arp_request(HOST),
        tagged(&udp(5, 7, b"a"), 77, 3),
        from_peer(&ipv4(ipv4_repr(PEER, HOST, protocol::TCP), &[0xab; 20])),
        ethernet(HOST_MAC, PEER_MAC, 0x86dd, &[0x60; 60]),
        ethernet(HOST_MAC, PEER_MAC, 0x88cc, b"other"),
    ] {
        let packet = received(&mut bench, &frame);
        let parsed = summarize(&frame);
        for field in Field::ALL {
            assert_eq!(value_of(&packet, field), field_of(&parsed, field), "{field:?}");
        }
        for field in Field::ALL.into_iter().chain(Field::DERIVED) {
            let (read, walked) = (Frame::value(&packet, field), field_of(&parsed, field));
            assert_eq!(read, walked, "{field:?} of {frame:02x?}");
        }
    }
}

/// The slow and obvious meaning of a table.
fn reference(spec: &TableSpec, frame: &[u8]) -> Verdict {
    let parsed = summarize(frame);
    let matches = |entry: &&Entry| {
        spec.fields.iter().zip(&entry.keys).all(|(field, key)| {
            key.mask == 0 || field_of(&parsed, *field).is_some_and(|v| v & key.mask == key.value)
        })
    };
    let best = |a: &Entry, b: &Entry| a.priority.cmp(&b.priority).then(std::cmp::Ordering::Greater);
    match spec.entries.iter().filter(matches).max_by(|a, b| best(a, b)) {
        Some(entry) => Verdict { entry: Some(entry.id), port: entry.port },
        None => Verdict { entry: None, port: spec.miss },
    }
}

fn entry(fields: Vec<Field>) -> impl Strategy<Value = Entry> {
    // Few values and masks, so that entries overlap and packets hit them.
    let value = |field: Field| match field {
        Field::Ip4Src | Field::Ip4Dst => 0x0a00_0000u128..0x0a00_0004,
        Field::Ip4Proto => 16..19,
        _ => 5..9,
    };
    let masks = prop::sample::select(vec![0u128, 1, 0xfffe, u128::MAX]);
    let keys: Vec<_> = fields
        .into_iter()
        .map(|field| {
            (value(field), masks.clone()).prop_map(move |(value, mask)| {
                let mask = mask & field.full_mask();
                Key { mask, value: value & mask }
            })
        })
        .collect();
    (keys, 0u32..3, 0u32..2, 1u32..1000).prop_map(|(keys, priority, port, id)| Entry {
        id,
        keys,
        priority,
        port,
    })
}

fn spec() -> impl Strategy<Value = TableSpec> {
    let fields = prop::sample::select(vec![
        vec![Field::Ip4Dst, Field::L4Dst],
        vec![Field::L4Dst],
        vec![Field::Ip4Src, Field::Ip4Dst, Field::Ip4Proto, Field::L4Src, Field::L4Dst],
        vec![Field::EthDst, Field::Ip6Dst, Field::Ip4Dst, Field::L4Dst, Field::Ip6Src],
    ]);
    fields.prop_flat_map(|fields| {
        prop::collection::vec(entry(fields.clone()), 0..12).prop_map(move |entries| TableSpec {
            fields: fields.clone(),
            entries,
            miss: 2,
            capacity: 12,
        })
    })
}

proptest! {
    #[test]
    fn a_table_means_what_its_entries_say(
        spec in spec(), flows in prop::collection::vec((0u32..4, 0u32..4, 5u16..9, 5u16..9), 1..20),
    ) {
        let frames: Vec<Vec<u8>> = flows
            .into_iter()
            .map(|(src, dst, from, to)| {
                let ip = |n| Ipv4Addr::from_bits(0x0a00_0000 | n);
                let (src, dst) = ((ip(src), from).into_addr(), (ip(dst), to).into_addr());
                from_peer(&udp_datagram(src, dst, b"payload"))
            })
            .collect();
        let views: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let (ports, entries) = run(&spec, &views);
        for (task, frame) in views.iter().enumerate() {
            let wanted = reference(&spec, frame);
            prop_assert_eq!(ports[wanted.port as usize] >> task & 1, 1);
            prop_assert_eq!(entries[task], wanted.entry.unwrap_or(0));
        }
    }
}

trait IntoAddr {
    fn into_addr(self) -> std::net::SocketAddrV4;
}

impl IntoAddr for (Ipv4Addr, u16) {
    fn into_addr(self) -> std::net::SocketAddrV4 {
        std::net::SocketAddrV4::new(self.0, self.1)
    }
}
