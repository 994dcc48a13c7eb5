use proptest::prelude::*;
use weever_graph::{Field, Predicate, Relation, Set};

use super::{PredicateText, parse};

fn p(text: &str) -> Predicate {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e} at {}", e.at))
}

fn eq(field: Field, value: u128) -> Predicate {
    Predicate::eq(field, value)
}

fn atom(label: &str, value: &str) -> Predicate {
    Predicate::Atom { label: label.into(), value: value.into() }
}

fn not(p: Predicate) -> Predicate {
    Predicate::Not(Box::new(p))
}

fn udp() -> Predicate {
    Predicate::Or(vec![eq(Field::Ip4Proto, 17), eq(Field::Ip6Next, 17)])
}

#[test]
fn dragonets_forms() {
    let (ip4, arp) = (eq(Field::EthType, 0x800), eq(Field::EthType, 0x806));
    assert_eq!(p("true"), Predicate::True);
    assert_eq!(p("IPv4"), ip4);
    assert_eq!(p("!IPv4"), not(ip4.clone()));
    assert_eq!(p("pred(EthType, IPv4)"), ip4);
    assert_eq!(
        p("not(or(pred(EthType,IPv4),pred(EthType,ARP)))"),
        not(Predicate::Or(vec![ip4, arp]))
    );
    let both = Predicate::And(vec![eq(Field::Ip4Proto, 17), atom("RxL3IPv4ValidChecksum", "true")]);
    assert_eq!(p("and(pred(IpProt,UDP),pred(RxL3IPv4ValidChecksum, true))"), both);
    assert_eq!(p("SomeLabel"), atom("SomeLabel", "true"));
    assert_eq!(p("pred(EthType,Strange)"), atom("EthType", "Strange"));
}

#[test]
fn fields_with_fields_and_sets() {
    let test = |left, relation, right| Predicate::Compare { left, relation, right };
    let (length, there) = (Field::Ip4Len, Field::L3Len);
    assert_eq!(p("ip4.len <= l3.len"), test(length, Relation::AtMost, there));
    assert_eq!(p("ip4.len > l3.len"), test(there, Relation::Less, length));
    assert_eq!(p("ip4.len == l3.len"), test(length, Relation::Equal, there));
    let member = Predicate::Member { field: Field::Ip4Dst, set: Set::Forwarded };
    assert_eq!(p("ip4.dst in forwarded"), member);
    assert_eq!(p("frame.vlan in 1-9"), Predicate::Range { field: Field::FrameVlan, lo: 1, hi: 9 });
    for text in ["udp.len != l4.len", "ip6.src in ours", "ip.upper = icmp6", "arp.spa = 10.0.0.1"] {
        assert_eq!(p(&PredicateText(&p(text)).to_string()), p(text), "{text}");
    }
    let error = parse("ip4.dst in our").unwrap_err();
    assert_eq!(error.help.as_deref(), Some("did you mean `ours`?"), "{error}");
    let error = parse("ip4.len & 3 = l3.len").unwrap_err();
    assert!(error.message.contains("mask"), "{error}");
}

#[test]
fn pcap_ports_and_protocols() {
    let both = |inner| Predicate::And(vec![udp(), inner]);
    assert_eq!(p("udp"), udp());
    assert_eq!(p("udp dst port 53"), both(eq(Field::L4Dst, 53)));
    let either = Predicate::Or(vec![eq(Field::L4Src, 53), eq(Field::L4Dst, 53)]);
    assert_eq!(p("port 53"), either);
    assert_eq!(p("src or dst port 53"), either);
    let range = |field| Predicate::Range { field, lo: 7, hi: 9 };
    assert_eq!(p("dst portrange 7-9"), range(Field::L4Dst));
    assert_eq!(
        p("src and dst portrange 9-7"),
        Predicate::And(vec![range(Field::L4Src), range(Field::L4Dst)])
    );
    assert_eq!(p("arp"), eq(Field::EthType, 0x806));
    assert_eq!(p("icmp"), eq(Field::Ip4Proto, 1));
    let in_ip4 = |inner| Predicate::And(vec![eq(Field::EthType, 0x800), inner]);
    assert_eq!(p("ip proto 17"), in_ip4(eq(Field::Ip4Proto, 17)));
    assert_eq!(p("ip proto udp"), in_ip4(eq(Field::Ip4Proto, 17)));
}

#[test]
fn pcap_addresses() {
    let ten = |field, mask| Predicate::Match { field, mask, value: 0x0a00_0000 };
    assert_eq!(p("src host 10.0.0.0"), ten(Field::Ip4Src, 0xffff_ffff));
    assert_eq!(p("dst 10.0.0.0"), ten(Field::Ip4Dst, 0xffff_ffff));
    assert_eq!(p("src net 10.0.0.0/8"), ten(Field::Ip4Src, 0xff00_0000));
    assert_eq!(p("src net 10.0.0.0 mask 255.0.0.0"), ten(Field::Ip4Src, 0xff00_0000));
    let host =
        Predicate::Or(vec![ten(Field::Ip4Src, 0xffff_ffff), ten(Field::Ip4Dst, 0xffff_ffff)]);
    assert_eq!(p("host 10.0.0.0"), host);
    assert_eq!(p("arp host 10.0.0.0"), ten(Field::ArpTpa, 0xffff_ffff));
    assert_eq!(p("dst ::1"), eq(Field::Ip6Dst, 1));
    assert_eq!(p("ether dst 02:00:00:00:00:0a"), eq(Field::EthDst, 0x0200_0000_000a));
    assert_eq!(p("ether proto 0x88cc"), eq(Field::EthType, 0x88cc));
    assert_eq!(p("vlan 7"), eq(Field::VlanId, 7));
    assert_eq!(p("vlan 7 and udp"), Predicate::And(vec![eq(Field::VlanId, 7), udp()]));
    assert_eq!(
        p("vlan and udp"),
        Predicate::And(vec![Predicate::Match { field: Field::VlanId, mask: 0, value: 0 }, udp()])
    );
}

#[test]
fn pcap_bytes() {
    assert_eq!(p("ip[9] = 17"), eq(Field::Ip4Proto, 17));
    assert_eq!(p("ip[8]<2"), Predicate::Range { field: Field::Ip4Ttl, lo: 0, hi: 1 });
    let fragment = Predicate::Match { field: Field::Ip4Frag, mask: 0x3fff, value: 0 };
    assert_eq!(p("ip[6:2] & 0x3fff = 0"), fragment);
    assert_eq!(p("ip[0] & 0xf0 = 0x40"), eq(Field::IpVersion, 4));
    let syn = |value| Predicate::Match { field: Field::TcpFlags, mask: 2, value };
    assert_eq!(p("tcp[tcpflags] & tcp-syn = 2"), syn(2));
    assert_eq!(
        p("tcp[13] & (tcp-syn) != 0").clone(),
        Predicate::And(vec![
            Predicate::Match { field: Field::TcpFlags, mask: 0, value: 0 },
            not(syn(0))
        ])
    );
    assert_eq!(p("udp[2:2] = 53"), Predicate::And(vec![udp(), eq(Field::L4Dst, 53)]));
    assert!(parse("ip[3] = 1").is_err());
    assert!(parse("ip[6:2] & 0xffff = 0").is_err());
}

#[test]
fn pcap_groups_and_broadcasts() {
    let group = Predicate::Match { field: Field::EthDst, mask: 1 << 40, value: 1 << 40 };
    assert_eq!(p("multicast"), group);
    assert_eq!(p("ether multicast"), group);
    assert_eq!(p("broadcast"), eq(Field::EthDst, 0xffff_ffff_ffff));
    let of = |kind, inner| Predicate::And(vec![eq(Field::EthType, kind), inner]);
    let (mask, value) = (0xff << 120, 0xff << 120);
    let six = Predicate::Match { field: Field::Ip6Dst, mask, value };
    assert_eq!(p("ip6 multicast"), of(0x86dd, six));
    let (mask, value) = (0xf000_0000, 0xe000_0000);
    assert_eq!(
        p("ip multicast"),
        of(0x800, Predicate::Match { field: Field::Ip4Dst, mask, value })
    );
    for wrong in
        ["udp multicast", "tcp broadcast", "ip broadcast", "src multicast and tcp multicast"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn pcap_types_of_icmp() {
    let of = |field, protocol, kind| {
        Predicate::And(vec![eq(field, protocol), eq(Field::IcmpType, kind)])
    };
    assert_eq!(p("icmp[icmptype] == icmp-echo"), of(Field::Ip4Proto, 1, 8));
    let six = of(Field::Ip6Next, 58, 135);
    assert_eq!(p("icmp6[icmp6type] = icmp6-neighborsolicit"), six);
    assert_eq!(p("icmp6[0] = 135"), six);
    assert_eq!(p(r"ip proto \icmp"), p("ip proto 1"));
    assert!(parse(r"ip proto \").is_err());
}

#[test]
fn values_without_keywords_have_those_before() {
    for (short, long) in [
        ("port 80 or 443", "port 80 or port 443"),
        (
            "tcp dst port 80 or 443 or http-alt",
            "tcp dst port 80 or tcp dst port 443 or tcp dst port 8080",
        ),
        ("tcp dst port (80 or 443)", "tcp dst port 80 or tcp dst port 443"),
        ("port 80 and not 443", "port 80 and not port 443"),
        ("udp port (not 80)", "not udp port 80"),
        ("not port 80 or 443", "not port 80 or port 443"),
        ("(port 80) or (443 or 8443)", "(port 80) or (port 443 or port 8443)"),
        ("src host 10.0.0.1 or 10.0.0.2", "src host 10.0.0.1 or src host 10.0.0.2"),
        ("src (10.0.0.1 or fe80::1)", "src 10.0.0.1 or src fe80::1"),
        ("udp and host 10.0.0.1 or ::1", "udp and host 10.0.0.1 or host ::1"),
        ("net 10.1 or 10.2.3", "net 10.1 or net 10.2.3"),
        ("ip proto 6 or 17", "ip proto 6 or ip proto 17"),
        ("portrange 1-9 or 20-29", "portrange 1-9 or portrange 20-29"),
        (
            "ether src 02:0:0:0:0:1 or a:0:0:0:0:2",
            "ether src 02:0:0:0:0:1 or ether src 0a:0:0:0:0:2",
        ),
        ("port 80 or udp", "(port 80) or (udp)"),
        ("port domain", "port 53"),
        ("l4.dst = https", "l4.dst = 443"),
    ] {
        assert_eq!(p(short), p(long), "{short}");
    }
    assert_eq!(
        p("port 53 or SomeLabel"),
        Predicate::Or(vec![p("port 53"), atom("SomeLabel", "true")])
    );
    assert!(parse(&format!("port {}", "(".repeat(100_000))).is_err());
    assert!(parse(&format!("port {}53", "not ".repeat(100_000))).is_err());
    assert_eq!(parse("port htpp").unwrap_err().help.as_deref(), Some("did you mean `http`?"));
}

#[test]
fn several_tags_are_told_from_alternatives() {
    let (two, three) = (|| eq(Field::VlanId, 2), || eq(Field::VlanId, 3));
    let inner = |id| eq(Field::VlanInner, id);
    let some = || Predicate::Match { field: Field::VlanInner, mask: 0, value: 0 };
    let (and, or) = (Predicate::And, Predicate::Or);
    for (text, wanted) in [
        ("vlan 2 or vlan 3", or(vec![two(), three()])),
        ("or(vlan 2, vlan 3)", or(vec![two(), three()])),
        ("vlan 2 and vlan 3", and(vec![two(), inner(3)])),
        ("and(vlan 2, vlan 3)", and(vec![two(), inner(3)])),
        ("vlan 2 and (udp or vlan)", and(vec![two(), or(vec![udp(), some()])])),
        ("(vlan 2 or vlan 3) and vlan 4", and(vec![or(vec![two(), three()]), inner(4)])),
        ("vlan 2 or vlan 3 and vlan 4", and(vec![or(vec![two(), three()]), inner(4)])),
        ("vlan 2 and vlan 4 or vlan 3", or(vec![and(vec![two(), inner(4)]), three()])),
        ("(vlan 2 or udp) and vlan 4", and(vec![or(vec![two(), udp()]), inner(4)])),
        ("or(vlan 2, udp) and vlan 4", and(vec![or(vec![two(), udp()]), inner(4)])),
        ("vlan 2 and not vlan 4", and(vec![two(), not(inner(4))])),
        ("not vlan 2 and vlan 3", and(vec![not(two()), three()])),
        ("vlan 2 and not vlan 3 and vlan 4", and(vec![two(), not(inner(3)), inner(4)])),
    ] {
        assert_eq!(p(text), wanted, "{text}");
    }
    for third in ["vlan and vlan and vlan", "vlan 2 and (vlan 3 and vlan 4)", "and(vlan,vlan,vlan)"]
    {
        assert!(parse(third).unwrap_err().message.contains("third tag"), "{third}");
    }
}

#[test]
fn bytes_of_several_fields() {
    let part = |field, mask, value| Predicate::Match { field, mask, value };
    assert_eq!(p("ip[0] & 0xf0 = 0x40"), eq(Field::IpVersion, 4));
    assert_eq!(p("ip[0] & 0xf = 5"), part(Field::Ip4Hlen, 0x3c, 20));
    let both = vec![eq(Field::IpVersion, 4), part(Field::Ip4Hlen, 0x3c, 20)];
    assert_eq!(p("ip[0] = 0x45"), Predicate::And(both));
    assert_eq!(p("ip[6] & 0x20 = 0x20"), part(Field::Ip4Frag, 0x2000, 0x2000));
    assert_eq!(p("ip[7] = 3"), part(Field::Ip4Frag, 0xff, 3));
    assert_eq!(p("ip[2:2] > 99"), p("ip4.len > 99"));
    assert_eq!(p("tcp[tcpflags] = tcp-syn|tcp-ack"), p("tcp[13] = 0x12"));
    let error = parse("ip[6:2] & 0x4000 != 0").unwrap_err();
    assert!(error.message.contains("only ip4.frag is known: the bits 0x4000"), "{error}");
    assert!(parse("ip[6:2] & 0x1f = 0x20").unwrap_err().message.contains("leaves out"));
}

#[test]
fn operators_have_pcaps_precedence() {
    let (a, b, c) = (|| atom("a", "true"), || atom("b", "true"), || atom("c", "true"));
    let left = Predicate::And(vec![Predicate::Or(vec![a(), b()]), c()]);
    assert_eq!(p("a or b and c"), left);
    assert_eq!(p("a || b && c"), left);
    assert_eq!(p("a or (b and c)"), Predicate::Or(vec![a(), Predicate::And(vec![b(), c()])]));
    assert_eq!(p("a and b and c"), Predicate::And(vec![a(), b(), c()]));
    assert_eq!(p("not a and b"), Predicate::And(vec![not(a()), b()]));
    assert_eq!(p("(a and b) and c"), Predicate::And(vec![Predicate::And(vec![a(), b()]), c()]));
}

#[test]
fn typed_fields() {
    assert_eq!(p("ip4.ttl > 1"), Predicate::Range { field: Field::Ip4Ttl, lo: 2, hi: 255 });
    assert_eq!(p("ip4.ttl > 255"), Predicate::False);
    assert_eq!(p("ip4.ttl < 0"), Predicate::False);
    assert_eq!(
        p("ip4.dst = 10.1.2.3/8"),
        Predicate::Match { field: Field::Ip4Dst, mask: 0xff00_0000, value: 0x0a00_0000 }
    );
    assert_eq!(
        p("tcp.flags & 2 = 2"),
        Predicate::Match { field: Field::TcpFlags, mask: 2, value: 2 }
    );
    assert_eq!(p("l4.dst in 1-9"), Predicate::Range { field: Field::L4Dst, lo: 1, hi: 9 });
}

#[test]
fn errors_say_where_and_what() {
    for (text, at) in [
        ("udp dst prot 53", 8),
        ("ip4.ttl = 256", 10),
        ("and(true", 8),
        ("true true", 5),
        ("port 53 or tcp 54", 15),
        ("arp or 54", 7),
        ("vlan 2 and vlan 3 and vlan", 26),
        ("host example.org", 5),
        ("port htpp", 5),
        ("", 0),
        ("ip4.dst = 10.0.0.0/33", 10),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.at, at, "{text}: {error}");
    }
    assert!(parse(&"(".repeat(100_000)).is_err());
    assert!(parse(&"!".repeat(100_000)).is_err());
    assert!(parse(&"not(".repeat(100_000)).is_err());
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let field = prop::sample::select(Field::ALL.to_vec());
    let matched = (field.clone(), any::<u128>(), any::<u128>(), any::<bool>());
    let matched = matched.prop_map(|(field, mask, value, whole)| {
        let mask = if whole { field.full_mask() } else { mask & field.full_mask() };
        Predicate::Match { field, mask, value: value & mask }
    });
    let range = (field, any::<u128>(), any::<u128>()).prop_map(|(field, a, b)| {
        let (a, b) = (a & field.full_mask(), b & field.full_mask());
        Predicate::Range { field, lo: a.min(b), hi: a.max(b) }
    });
    let label = "[a-zA-Z .:,()!-]{0,6}";
    let leaf = prop_oneof![
        Just(Predicate::True),
        Just(Predicate::False),
        matched,
        range,
        (label, label).prop_map(|(label, value)| atom(&label, &value)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(not),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Predicate::And),
            prop::collection::vec(inner, 0..4).prop_map(Predicate::Or),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_shown_is_read_back(predicate in predicate()) {
        let text = PredicateText(&predicate).to_string();
        prop_assert_eq!(parse(&text), Ok(predicate), "{}", text);
    }

    #[test]
    fn words_in_any_order_never_panic(words in prop::collection::vec(prop::sample::select(vec![
        "and", "or", "not", "(", ")", ",", "!", "pred", "ip", "udp", "src", "dst", "port", "net",
        "10.0.0.1/8", "::1", "53", "1-2", "[", "]", "6:2", "&", "=", "<", "in", "ip4.src", "vlan",
        "ether", "proto", "host", "true", "x", "'", "ä", "len", "mask", "0x", "tcp-syn",
    ]), 0..12)) {
        let _ = parse(&words.join(" "));
        let _ = parse(&words.concat());
    }
}
