use proptest::prelude::*;

use super::*;
use crate::Position;

fn whole(text: &str) -> Vec<FlowSpec> {
    let list = parse(text.as_bytes());
    assert!(list.problems.is_empty(), "{}", list.problems);
    list.flows
}

fn same(a: &str, b: &str) {
    let (a, b) = (whole(a), whole(b));
    let within =
        |a: &FlowSpec, b: &FlowSpec| a.parts.iter().all(|p| b.parts.iter().any(|q| p.implies(q)));
    assert!(within(&a[0], &b[0]) && within(&b[0], &a[0]), "{a:?} {b:?}");
}

#[test]
fn lines_have_an_expression_settings_and_a_comment() {
    let flows = whole(
        "# clients\n\n\
         udp 10.0.0.1:1234 -> 10.0.0.2:11211 rate=12k class=hp app=kv core=3 weight=2 name=c1 # x\r\n\
         udp dst port 53 and src net 10.0.0.0/8\n",
    );
    assert_eq!(flows.len(), 2);
    let first = &flows[0];
    assert_eq!((first.name.as_str(), first.rate, first.weight), ("c1", Some(12_000), 2));
    assert_eq!((first.class.as_deref(), first.app.as_deref()), (Some("hp"), Some("kv")));
    assert_eq!((first.core, first.place), (Some(3), Position::Line(3)));
    assert_eq!(flows[1].name, "udp dst port 53 and src net 10.0.0.0/8");
}

#[test]
fn a_five_tuple_means_what_its_filter_means() {
    same(
        "udp 10.0.0.1:1234 -> 10.0.0.2:11211",
        "ip and udp src port 1234 and udp dst port 11211 and src host 10.0.0.1 and dst host 10.0.0.2",
    );
    same(
        "tcp [2001:db8::1]:80->[2001:db8::/32]:*",
        "ip6 and tcp src port 80 and src host 2001:db8::1 and dst net 2001:db8::/32",
    );
    same("udp *:53 -> *", "udp src port 53");
    same("sctp 10.0.0.0/8:* -> *:7", "ip and sctp dst port 7 and src net 10.0.0.0/8");
    same("tcp 2001:db8::1 -> *", "tcp and src host 2001:db8::1");
}

#[test]
fn garbage_is_reported_by_line_and_the_rest_is_kept() {
    let text = b"udp dst port 53\nfrob the port\nudp dst port 54 rat=3\n\xff\xfe\n\
        tcp 10.0.0.1:1 -> [::1]:2\nicmp 10.0.0.1 -> 10.0.0.2\nudp 10.0.0.300:1 -> *\n\
        udp dst port 1 rate=12q\nudp port 1 core=-1\nrate=5\nudp dst port 9 weight=0\n\
        udp dst port 1 and udp dst port 2\nudp dst port 5 rate=1 rate=2\nudp dst port 55";
    let list = parse(text);
    let names: Vec<&str> = list.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["udp dst port 53", "udp dst port 55"]);
    let said = list.problems.to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 12, "{said}");
    for (i, part) in [
        "line 2: ",
        "did you mean `rate`?",
        "line 4: the line is no UTF-8",
        "one side is IPv4",
        "`icmp` is none of tcp, udp and sctp",
        "`10.0.0.300:1` is no side",
        "`12q` is no rate",
        "`-1` is no value for `core`",
        "says not which packets",
        "weight lies between",
        "no packet matches",
        "`rate` is set twice",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(lines[i].contains(part), "{part}: {}", lines[i]);
    }
}

#[test]
fn json_says_the_same() {
    let list = r#"[{"match": "udp dst port 53", "rate": 7, "class": "dns"},
        {"match": "udp 10.0.0.1:1 -> *:53", "rate": "2k", "name": "n", "core": 1}]"#;
    let flows = whole(list);
    assert_eq!((flows[0].rate, flows[1].rate), (Some(7), Some(2000)));
    assert_eq!((flows[1].name.as_str(), flows[1].place), ("n", Position::Entry(2)));
    assert_eq!(whole(&format!("{{\"flows\": {list}}}")), flows);
}

#[test]
fn garbage_in_json_is_reported_by_entry() {
    let list = parse(br#"[{"match": "udp"}, 7, {"mach": "udp"}, {"match": "udp", "rate": "x"}]"#);
    assert_eq!(list.flows.len(), 1);
    let places: Vec<Position> = list.problems.first.iter().map(|p| p.place).collect();
    assert_eq!(places, [Position::Entry(2), Position::Entry(3), Position::Entry(4)]);
    assert_eq!(parse(b"[{]").problems.count(), 1);
    assert_eq!(parse(b"{\"flow\": []}").problems.count(), 1);
}

#[test]
fn many_mistakes_are_counted_and_the_first_are_kept() {
    let text = "frob\n".repeat(5_000) + "udp\n";
    let list = parse(text.as_bytes());
    assert_eq!((list.flows.len(), list.problems.count()), (1, 5_000));
    assert_eq!(list.problems.first.len(), crate::problem::MAX_KEPT);
    assert!(list.problems.to_string().ends_with("and 4950 more"));
    assert_eq!(parse("x".repeat(1 << 20).as_bytes()).problems.count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_lost_and_nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let list = parse(&bytes);
        let _ = list.problems.to_string();
        let text = !matches!(bytes.iter().find(|b| !b.is_ascii_whitespace()), Some(b'[' | b'{'));
        if text && !bytes.contains(&b'#') && !bytes.starts_with(b"\xef\xbb\xbf") {
            let lines = bytes.split(|b| *b == b'\n').filter(|l| {
                std::str::from_utf8(l).map_or(true, |t| !t.trim().is_empty())
            });
            prop_assert_eq!(list.flows.len() + list.problems.count(), lines.count());
        }
    }
}
