//! Filters have the meaning that libpcap gives them: random frames, random filters, `tcpdump -r` as the
//! judge. `TCPDUMP` names the program if it is not in the path.
//!
//! Four differences are intended, and kept out of here: EtherType 0x9100 is no tag; fields behind VLAN tags match without
//! `vlan`, so that what is `vlan and vlan and udp` there may be `vlan and udp`; what follows `or` or `not vlan` is about
//! the same tag; and `host` and `net` mean IP only.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use weever_graph::Field;
use weever_unicorn::predicate::parse;

/// A frame, and the fields that a parser should find in it.
#[derive(Clone, Debug)]
struct Frame {
    bytes: Vec<u8>,
    fields: HashMap<Field, u128>,
}

impl Frame {
    fn put(&mut self, field: Field, value: u128) {
        let bytes = &value.to_be_bytes()[16 - (field.bits() as usize).div_ceil(8)..];
        self.bytes.extend_from_slice(bytes);
        self.fields.insert(field, value);
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    tag: Option<u16>,
    tags: Tags,
    four: bool,
    protocol: u8,
    addresses: (u8, u8),
    ports: (u16, u16),
    flags: u8,
    frag: u16,
    ttl: u8,
    broadcast: bool,
    padding: usize,
}

/// The tags of frames that have some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    None,
    /// One of 802.1Q.
    One,
    /// One of 802.1ad, alone.
    Service,
    /// One of 802.1Q behind another, and behind one of 802.1ad.
    Two,
    ServiceAndOne,
    /// Three, of which the last is a type like others.
    Three,
    ServiceAndTwo,
}

impl Tags {
    const ALL: [Tags; 7] = [
        Tags::None,
        Tags::One,
        Tags::Service,
        Tags::Two,
        Tags::ServiceAndOne,
        Tags::Three,
        Tags::ServiceAndTwo,
    ];

    fn types(self) -> &'static [u16] {
        match self {
            Tags::None => &[],
            Tags::One => &[0x8100],
            Tags::Service => &[0x88a8],
            Tags::Two => &[0x8100, 0x8100],
            Tags::ServiceAndOne => &[0x88a8, 0x8100],
            Tags::Three => &[0x8100, 0x8100, 0x8100],
            Tags::ServiceAndTwo => &[0x88a8, 0x8100, 0x88a8],
        }
    }

    /// A filter for frames with these tags behind tests of the outer ones, and the same for libpcap, which has to be
    /// told of each tag.
    fn filters(self, [tag, second]: [&str; 2], inner: String) -> (String, String) {
        let same = |filter: String| (filter.clone(), filter);
        match (self.types().len(), second) {
            (0, _) => same(inner),
            (1, _) => same(format!("{tag} and ({inner})")),
            (_, "") => (format!("{tag} and ({inner})"), format!("{tag} and vlan and ({inner})")),
            _ => same(format!("{tag} and {second} and ({inner})")),
        }
    }
}

const PORTS: [u16; 6] = [53, 54, 80, 1024, 11211, 65535];

fn shape() -> impl Strategy<Value = Shape> {
    let l3 = (any::<bool>(), select(vec![1u8, 6, 17, 132, 58, 2, 50, 51]), (0u8..4, 0u8..4));
    let l4 = ((select(PORTS.to_vec()), select(PORTS.to_vec())), any::<u8>());
    let frag = select(vec![0u16, 0, 0, 0x2000, 0x2010, 3]);
    let rest = (proptest::option::of(0u16..4), 1u8..4, any::<bool>(), 0usize..3, frag);
    (l3, l4, rest).prop_map(|((four, protocol, addresses), (ports, flags), rest)| {
        let (tag, ttl, broadcast, padding, frag) = rest;
        Shape {
            tag,
            tags: Tags::One,
            four,
            protocol,
            addresses,
            ports,
            flags,
            frag,
            ttl,
            broadcast,
            padding,
        }
    })
}

fn four(i: u8) -> u128 {
    [0x0a00_0001, 0x0a00_0102, 0x0a01_0001, 0xe000_0001][usize::from(i)]
}

fn six(i: u8) -> u128 {
    (0x2001_0db8 << 96) | (u128::from(i / 2) << 64) | u128::from(i)
}

fn frame(shape: &Shape) -> Frame {
    let mut f = Frame { bytes: Vec::new(), fields: HashMap::new() };
    f.put(Field::EthDst, if shape.broadcast { 0xffff_ffff_ffff } else { 0x0200_0000_0001 });
    f.put(Field::EthSrc, 0x0200_0000_0002);
    let types = shape.tags.types();
    if let Some(tag) = shape.tag {
        // Each tag has another number.
        let fields = [Some(Field::VlanId), Some(Field::VlanInner), None];
        for ((of, id), field) in types.iter().zip([tag, tag ^ 1, tag ^ 2]).zip(fields) {
            f.bytes.extend_from_slice(&of.to_be_bytes());
            f.bytes.extend_from_slice(&id.to_be_bytes());
            f.fields.extend(field.map(|field| (field, id.into())));
        }
    }
    let stations_and_tags = f.fields.clone();
    let later = if shape.four { ip4(&mut f, shape) } else { ip6(&mut f, shape) };
    if !later {
        transport(&mut f, shape);
    }
    if let Some(third) = types.get(2) {
        f.fields = stations_and_tags;
        f.fields.insert(Field::EthType, (*third).into());
    }
    f.bytes.resize(f.bytes.len() + 40 + 100 * shape.padding, 0);
    f.fields.insert(Field::FrameLen, f.bytes.len() as u128);
    f
}

/// Returns whether it is a later fragment.
fn ip4(f: &mut Frame, shape: &Shape) -> bool {
    f.put(Field::EthType, 0x0800);
    f.fields.insert(Field::IpVersion, 4);
    f.fields.insert(Field::Ip4Hlen, 20);
    f.fields.insert(Field::Ip4Len, 100);
    let tos = [0, 0x10, 0xb8, 0xb9][usize::from(shape.ttl)];
    f.fields.insert(Field::Ip4Tos, tos.into());
    f.bytes.extend_from_slice(&[0x45, tos, 0, 100, 0, 0]);
    f.bytes.extend_from_slice(&shape.frag.to_be_bytes());
    f.fields.insert(Field::Ip4Frag, (shape.frag & 0x3fff).into());
    f.put(Field::Ip4Ttl, shape.ttl.into());
    f.put(Field::Ip4Proto, shape.protocol.into());
    f.bytes.extend_from_slice(&[0, 0]);
    f.put(Field::Ip4Src, four(shape.addresses.0));
    f.put(Field::Ip4Dst, four(shape.addresses.1));
    shape.frag & 0x1fff != 0
}

fn ip6(f: &mut Frame, shape: &Shape) -> bool {
    f.put(Field::EthType, 0x86dd);
    f.fields.insert(Field::IpVersion, 6);
    f.bytes.extend_from_slice(&[0x60, 0, 0, 0, 0, 60]);
    f.put(Field::Ip6Next, shape.protocol.into());
    f.bytes.push(shape.ttl);
    f.put(Field::Ip6Src, six(shape.addresses.0));
    f.put(Field::Ip6Dst, six(shape.addresses.1));
    false
}

fn transport(f: &mut Frame, shape: &Shape) {
    match shape.protocol {
        6 | 17 | 132 => {
            f.put(Field::L4Src, shape.ports.0.into());
            f.put(Field::L4Dst, shape.ports.1.into());
            if shape.protocol == 6 {
                f.bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0x50]);
                f.put(Field::TcpFlags, shape.flags.into());
            }
        }
        1 => {
            f.put(Field::IcmpType, shape.flags.into());
            f.put(Field::IcmpCode, shape.ttl.into());
        }
        _ => {}
    }
}

fn primitive() -> impl Strategy<Value = String> {
    let way = select(vec!["", "src ", "dst ", "src or dst ", "src and dst "]);
    let transport = select(vec!["", "tcp ", "udp ", "sctp "]);
    let port = select(PORTS.to_vec());
    // Rows of values: `K` stands for the keywords.
    let row = select(vec![
        "(K A or B)",
        "K (A or B)",
        "(K A and not B)",
        "K (A or not B)",
        "(not K A or (B))",
    ]);
    let transport2 = transport.clone();
    let four = select(vec!["10.0.0.1", "10.0.1.2", "10.1.0.1", "224.0.0.1"]);
    let net =
        select(vec!["10.0.0.0/8", "10.0.0.0/16", "10.0.0.0 mask 255.255.255.0", "10.0", "10"]);
    let six = select(vec!["2001:db8::", "2001:db8::1", "2001:db8:0:1::2"]);
    let six_net = select(vec!["2001:db8::/32", "2001:db8::/64", "2001:db8:0:1::/64"]);
    let word = select(vec![
        "ip",
        "ip6",
        "tcp",
        "udp",
        "sctp",
        "icmp",
        "icmp6",
        "igmp",
        "esp",
        "ah",
        "pim or igrp or vrrp",
        "ether broadcast",
        "ether multicast",
        "ip multicast",
        "ip6 multicast",
        "multicast",
        "broadcast",
        "icmp[icmptype] = icmp-echo or icmp[icmptype] = icmp-unreach",
        r"ip proto \udp",
        "ether dst 02:00:00:00:00:01",
        "ether proto 0x86dd",
        "less 130",
        "greater 130",
        "ip proto 17",
        "ip6 proto 6",
        "proto 17",
        "ip[8] = 2",
        "ip[8] > 1",
        "ip[9] = 6",
        "ip[6:2] & 0x1fff = 0",
        "ip[6:2] & 0x2000 != 0",
        "ip[6] & 0x20 != 0",
        "ip[7] = 3",
        "ip[0] & 0xf = 5",
        "ip[0] = 0x45",
        "ip[2:2] > 99",
        "ip[1] = 0x10",
        "ip[1] & 0xfc = 0xb8",
        "ip[1] & 3 != 0",
        "icmp[0] < 9",
        "icmp[icmptype] = 8",
        "tcp[tcpflags] & tcp-syn != 0",
        "tcp[13] = 2",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
        "tcp[tcpflags] & (tcp-fin | tcp-rst) != 0",
        "udp[2:2] = 53",
        "tcp[0:2] > 53",
        "tcp[tcpflags] = tcp-syn|tcp-ack",
    ]);
    // For tests of bytes, libpcap looks for TCP behind IPv4 only.
    let word = word.prop_map(|w| {
        if w.contains("tp[") || w.contains("cp[") || w.starts_with("udp[") {
            format!("(ip and {w})")
        } else {
            w.to_string()
        }
    });
    prop_oneof![
        3 => word,
        3 => (transport, way.clone(), port.clone()).prop_map(|(t, w, p)| format!("{t}{w}port {p}")),
        1 => (way.clone(), port.clone(), port.clone()).prop_map(|(w, a, b)| format!("{w}portrange {a}-{b}")),
        1 => (transport2, way.clone(), port.clone(), port.clone(), row)
            .prop_map(|(t, w, a, b, row)| row.replace("K", &format!("{t}{w}port")).replace("A", &a.to_string()).replace("B", &b.to_string())),
        1 => (way.clone(), four.clone(), four.clone()).prop_map(|(w, a, b)| format!("(ip {w}host {a} or {b})")),
        1 => (way.clone(), four).prop_map(|(w, a)| format!("ip {w}host {a}")),
        1 => (way.clone(), net).prop_map(|(w, a)| format!("ip {w}net {a}")),
        1 => (way.clone(), six).prop_map(|(w, a)| format!("ip6 {w}host {a}")),
        1 => (way, six_net).prop_map(|(w, a)| format!("ip6 {w}net {a}")),
    ]
}

fn filter() -> impl Strategy<Value = String> {
    let join = select(vec!["and", "or", "&&", "||", "and not"]);
    let one =
        (any::<bool>(), primitive()).prop_map(|(not, p)| if not { format!("not {p}") } else { p });
    one.prop_recursive(3, 6, 2, move |inner| {
        (inner.clone(), join.clone(), inner).prop_map(|(a, j, b)| format!("({a} {j} {b})"))
    })
}

/// Those of the frames, by number, that pass.
fn judged(tcpdump: &str, file: &PathBuf, filter: &str) -> Result<BTreeSet<u32>, String> {
    // Run by root, it would become a user that may not exist.
    let mut run = Command::new(tcpdump);
    run.args(["-Z", "root", "-nr"]).arg(file).args(["-w", "-", filter]);
    let run = run.output();
    let run = run.map_err(|e| e.to_string())?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let nothing = said.contains("rejects all packets");
        return if nothing { Ok(BTreeSet::new()) } else { Err(said) };
    }
    let mut found = BTreeSet::new();
    let mut rest = run.stdout.get(24..).unwrap_or_default();
    while rest.len() >= 16 {
        let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
        found.insert(word(0));
        rest = &rest[16 + word(8) as usize..];
    }
    Ok(found)
}

fn capture(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        let len = frame.bytes.len() as u32;
        for word in [i as u32, 0, len, len] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&frame.bytes);
    }
    out
}

#[test]
fn filters_mean_what_libpcap_says() {
    let tcpdump = std::env::var("TCPDUMP").unwrap_or_else(|_| "tcpdump".into());
    if Command::new(&tcpdump).arg("--version").output().is_err() {
        println!("skipped: needs tcpdump");
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut draw = |tags: Tags| {
        let mut one = shape().new_tree(&mut runner).expect("a shape").current();
        one.tag = if tags == Tags::None { None } else { Some(one.tag.unwrap_or(3)) };
        frame(&Shape { tags, ..one })
    };
    let frames = Tags::ALL.map(|tags| (0..300).map(|_| draw(tags)).collect::<Vec<_>>());
    let folder = std::env::temp_dir();
    for (tags, frames) in Tags::ALL.into_iter().zip(&frames) {
        let mut matched = 0;
        let file = folder.join(format!("weever-filters-{}-{tags:?}.pcap", std::process::id()));
        std::fs::write(&file, capture(frames)).expect("a writable folder");
        for i in 0..120 {
            let inner = filter().new_tree(&mut runner).expect("a filter").current();
            let tag = ["vlan", "vlan 2", "(vlan 1)"][i % 3];
            let second = ["", "vlan", "vlan 3", "not vlan 0", "(vlan)"][i % 5];
            let (text, theirs) = tags.filters([tag, second], inner);
            let wanted = judged(&tcpdump, &file, &theirs);
            let wanted = wanted.unwrap_or_else(|e| panic!("{theirs}: {e}"));
            let ours = parse(&text).unwrap_or_else(|e| panic!("{text}: {e} at {}", e.at));
            let holds = |f: &Frame| ours.eval(&|field| f.fields.get(&field).copied(), &|_| false);
            for (n, frame) in frames.iter().enumerate() {
                let is = wanted.contains(&(n as u32));
                assert_eq!(holds(frame), is, "{text}\n{:?}", frame.fields);
                matched += usize::from(is);
            }
        }
        std::fs::remove_file(&file).expect("the file is ours");
        assert!(matched > 2_000, "the filters match almost nothing with {tags:?}: {matched}");
    }
}
