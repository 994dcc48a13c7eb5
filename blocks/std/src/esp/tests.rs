use std::net::SocketAddrV4;
use std::sync::Arc;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce};
use weever_net::state::NetConfig;
use weever_wire::ipv4::{Ipv4View, protocol};

use super::*;
use crate::bench::{Bench, Ran};
use crate::host::{Network, Secret};
use crate::testing::frames::*;

const KEY: &str = "00112233445566778899aabbccddeeff01020304";

fn bench() -> Bench {
    let host = NetConfig::single(HOST_MAC, &["10.0.0.1/24".parse().unwrap()]);
    let bench = Bench::new().providing(Arc::new(Network::new(host)));
    bench.with_param("remote", "10.0.0.2").with_param("spi", "4660").with_param("key", KEY)
}

fn run(bench: &mut Bench, datagrams: &[&[u8]]) -> Ran {
    let burst = bench.burst(datagrams);
    bench.run(&ENCRYPT, burst, (1 << datagrams.len()) - 1)
}

/// The inner packet and its next header, for whoever has the key. Panics if the packet is no sound ESP.
fn open(outer: &[u8]) -> (Vec<u8>, u8) {
    let view = Ipv4View::new(outer).expect("an IPv4 datagram");
    assert_eq!(view.header().protocol(), 50);
    let (front, rest) = outer[HEADER_LEN..].split_at(HEADER);
    let (bytes, tag) = rest.split_at(rest.len() - TAG);
    let mut nonce = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    nonce[4..].copy_from_slice(&front[8..]);
    let mut bytes = bytes.to_vec();
    let cipher =
        Aes128Gcm::new_from_slice(&(0..16).map(|i| i * 0x11).collect::<Vec<u8>>()).unwrap();
    let tag: [u8; TAG] = tag.try_into().unwrap();
    cipher
        .decrypt_inout_detached(
            &Nonce::from(nonce),
            &front[..8],
            bytes.as_mut_slice().into(),
            &tag.into(),
        )
        .expect("the check value is right");
    assert_eq!(bytes.len() % 4, 0, "RFC 4303 §2.4: the next header ends a word of four bytes");
    let (next_header, pad) = (bytes.pop().unwrap(), bytes.pop().unwrap());
    let padding = bytes.split_off(bytes.len() - usize::from(pad));
    assert!(padding.into_iter().eq(1..=pad));
    (bytes, next_header)
}

fn number(outer: &[u8]) -> u32 {
    u32::from_be_bytes(outer[24..28].try_into().unwrap())
}

#[test]
fn every_length_comes_out_of_the_tunnel_as_it_went_in() {
    let mut bench = bench();
    let datagrams: Vec<Vec<u8>> = (0..60)
        .map(|len| ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &vec![len; len.into()]))
        .collect();
    let ran = run(&mut bench, &datagrams.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!(ran.ports[OUT], (1 << 60) - 1);
    for (task, inner) in datagrams.iter().enumerate() {
        let outer = ran.packet(task);
        assert_eq!(open(outer.data()), (inner.clone(), 4));
        assert_eq!(number(outer.data()), task as u32 + 1);
        assert_eq!(outer.data()[20..24], [0, 0, 0x12, 0x34]);
        assert_eq!(usize::from(outer.meta().end - outer.meta().l3), outer.len());
        assert_eq!(outer.meta().endpoints.next_hop, Endpoints::mapped(0x0a00_0002));
        assert_eq!(outer.meta().iface, 0);
    }
    let bytes = datagrams.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(ran.requests.counts, [(0, bytes)]);
}

#[test]
fn the_outer_header_takes_over_what_routers_look_at() {
    let four = patched(&ipv4(ipv4_repr(PEER, HOST, protocol::UDP), b"x"), 1, 0xb9);
    let mut six = [0; 40];
    six[..2].copy_from_slice(&[0x6b, 0x90]);
    let ran = run(&mut bench(), &[&four, &six]);
    for (task, next_header) in [(0, 4), (1, 41)] {
        let outer = Ipv4View::new(ran.packet(task).data()).unwrap().header();
        assert_eq!((outer.tos(), outer.src(), outer.dst()), (0xb9, HOST, PEER));
        assert_eq!(open(ran.packet(task).data()).1, next_header);
    }
}

#[test]
fn passes_cost_time_and_change_nothing() {
    let inner = ipv4(ipv4_repr(PEER, HOST, protocol::UDP), b"payload");
    let fixed = || bench().providing(Arc::new(Secret::from_seed(3)));
    let once = run(&mut fixed(), &[&inner]);
    let often = run(&mut fixed().with_param("passes", "5"), &[&inner]);
    assert_eq!(once.packet(0).data(), often.packet(0).data());
    assert_eq!(open(often.packet(0).data()).0, inner);
}

#[test]
fn what_cannot_go_stays_as_it_is_and_says_why() {
    let longest = ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &[0; 1426]);
    let too_long = ipv4(ipv4_repr(PEER, HOST, protocol::UDP), &[0; 1427]);
    let mut bench = bench();
    let ran = run(&mut bench, &[&longest, &too_long, &[], b"\x45", b"\x55 no IP"]);
    assert_eq!(ran.ports, [1, 0, 0b10, 0, 0b1_1100]);
    assert_eq!(ran.packet(0).len(), 1500);
    assert_eq!(ran.packet(1).data(), too_long);
    let mut elsewhere = Bench::new()
        .providing(Arc::new(Network::new(NetConfig::new())))
        .with_param("remote", "10.0.0.2")
        .with_param("key", KEY);
    assert_eq!(run(&mut elsewhere, &[&longest]).ports, [0, 1, 0, 0, 0]);
}

#[test]
fn a_partial_checksum_is_completed_inside() {
    let whole = udp_datagram(SocketAddrV4::new(PEER, 5), SocketAddrV4::new(HOST, 7), b"payload");
    let mut partial = whole.clone();
    let pseudo = weever_wire::checksum::pseudo_v4(PEER, HOST, protocol::UDP, 15);
    partial[26..28].copy_from_slice(&pseudo.to_be_bytes());
    let mut bench = bench();
    let mut burst = bench.burst(&[&partial]);
    let meta = burst.get_mut(0).unwrap().meta_mut();
    meta.flags = Flags::FORWARDED.with(Flags::PARTIAL_CHECKSUM);
    let ran = bench.run(&ENCRYPT, burst, 1);
    assert_eq!(open(ran.packet(0).data()).0, whole);
    assert_eq!(ran.packet(0).meta().flags, Flags::FORWARDED);
}

#[test]
fn a_number_is_used_once() {
    let inner = ipv4(ipv4_repr(PEER, HOST, protocol::UDP), b"payload");
    let mut bench = bench();
    let mut seen = Vec::new();
    // Blocks of two workers, and one that is made again: all share the numbers.
    for _ in 0..3 {
        let ran = run(&mut bench, &[&inner, &inner]);
        seen.extend([0, 1].map(|task| number(ran.packet(task).data())));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    let (all, secret) = (bench.env.get_or_default::<Associations>(), bench.env.get_or_default());
    all.of(PEER, 4660, &KEY.parse().unwrap(), &secret).skip_to(u32::MAX.into());
    assert_eq!(run(&mut bench, &[&inner, &inner]).ports, [1, 0, 0, 0b10, 0]);
    assert_eq!(run(&mut bench, &[&inner]).ports, [0, 0, 0, 1, 0]);
}

#[test]
fn wrong_parameters_are_refused() {
    for (name, value, part) in [
        ("remote", "0.0.0.0", "name the other end"),
        ("remote", "there", "remote=there"),
        ("spi", "255", "use 256 or more"),
        ("key", "12", "40 hexadecimal digits"),
        ("passes", "0", "use 1 to 1000"),
    ] {
        let mut node = weever_graph::Node::new("Esp", weever_graph::NodeKind::Function);
        let other =
            [("remote", "10.0.0.2"), ("key", KEY)].into_iter().filter(|(key, _)| *key != name);
        for (key, value) in other.chain([(name, value)]) {
            let (key, value) = (key.into(), value.into());
            node.attrs.push(weever_graph::Attr::Param { key, value });
        }
        let env = bench().env;
        let build = Build { node: &node, block_type: &ENCRYPT, env: &env };
        let error = (ENCRYPT.make)(&build).err().expect(part).to_string();
        assert!(error.contains(part) && !error.contains("1122"), "{error}");
    }
}
