//! The classifier in the kernel against one in plain Rust, on random filters and frames.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weever_ebpf::sys::{BpfError, XdpAction};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Field, Rule, Sink, Target, Test};

/// A frame by its fields; `None` is absent.
#[derive(Clone, Debug)]
struct Frame {
    vlan: Option<u16>,
    /// Of a tagged frame: one tag of 802.1Q or of 802.1ad, or a second tag behind either.
    tags: u8,
    six: bool,
    src: u8,
    dst: u8,
    protocol: u8,
    ports: (u16, u16),
    flags: u8,
    options: u8,
    fragment: bool,
    cut: usize,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if let Some(vlan) = self.vlan {
            frame.extend([[0x81, 0], [0x88, 0xa8]][usize::from(self.tags % 2)]);
            frame.extend((vlan | 0x6000).to_be_bytes());
            if self.tags >= 2 {
                frame.extend([0x81, 0, 0, 9]);
            }
        }
        frame.extend(if self.six { [0x86, 0xdd] } else { [8, 0] });
        match self.six {
            true => {
                frame.extend([0x60, 0, 0, 0, 0, 40, self.protocol, 64]);
                frame.extend(address6(self.src).to_be_bytes());
                frame.extend(address6(self.dst).to_be_bytes());
            }
            false => {
                let fragment = if self.fragment { 0x20 } else { 0x40 };
                frame.extend([0x45 + self.options, 0, 0, 80, 0, 0, fragment, 0, 64]);
                frame.extend([self.protocol, 0, 0]);
                frame.extend(address4(self.src).to_be_bytes());
                frame.extend(address4(self.dst).to_be_bytes());
                frame.extend(vec![1; 4 * usize::from(self.options)]);
            }
        }
        frame.extend(self.ports.0.to_be_bytes());
        frame.extend(self.ports.1.to_be_bytes());
        frame.extend([0; 9]);
        frame.push(self.flags);
        frame.extend([0; 20]);
        // The kernel takes no frame without a whole Ethernet header.
        frame.truncate(frame.len().saturating_sub(self.cut).max(14));
        frame
    }

    /// The field's value that the program is to see: from the description of the packet, not from
    /// its bytes.
    fn field(&self, field: Field) -> Option<u128> {
        let tag = self.vlan.map_or(0, |_| if self.tags >= 2 { 8 } else { 4 });
        let header = if self.six { 40 } else { 20 + 4 * usize::from(self.options) };
        let ip = 14 + tag;
        let has = |bytes: usize| self.bytes().len() >= bytes;
        let whole = has(ip + if self.six { 40 } else { 20 });
        let is_transport = [6, 17, 132].contains(&self.protocol);
        let entire = whole && (self.six || !self.fragment) && is_transport;
        let ports = entire && has(ip + header + 4);
        let given = |there: bool, value: u128| there.then_some(value);
        match field {
            Field::EtherType if !has(ip) => Some(0),
            Field::EtherType => Some(if self.six { 0x86dd } else { 0x800 }),
            Field::Vlan => self.vlan.filter(|_| has(18)).map(u128::from),
            Field::Src4 => given(whole && !self.six, address4(self.src).into()),
            Field::Dst4 => given(whole && !self.six, address4(self.dst).into()),
            Field::Src6 => given(whole && self.six, address6(self.src)),
            Field::Dst6 => given(whole && self.six, address6(self.dst)),
            Field::Protocol => Some(if whole { self.protocol.into() } else { 0 }),
            Field::SrcPort => given(ports, self.ports.0.into()),
            Field::DstPort => given(ports, self.ports.1.into()),
            Field::TcpFlags => {
                given(ports && self.protocol == 6 && has(ip + header + 14), self.flags.into())
            }
        }
    }

    fn matches(&self, rule: &Rule) -> bool {
        rule.tests.iter().all(|test| self.field(test.field()).is_some_and(|v| test.holds(v)))
    }
}

/// Few values, so that filters are hit; spread over the bytes, so that order matters.
fn address4(n: u8) -> u32 {
    0x0a00_0000 | u32::from(n & 3) << 16 | u32::from(n >> 2 & 3)
}

fn address6(n: u8) -> u128 {
    0xfd00 << 112 | u128::from(n & 3) << 64 | u128::from(n >> 2 & 3)
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(53), Just(80), Just(0x1234), Just(0x3412)]
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(6), Just(17), Just(132), Just(1)]
}

fn frame() -> impl Strategy<Value = Frame> {
    let vlan = proptest::option::weighted(0.3, (1..4u16, 0..4u8));
    let head = (vlan, any::<bool>(), 0..16u8, 0..16u8);
    let tail = (protocol(), (port(), port()), 0..4u8, 0..3u8);
    let cut = prop_oneof![4 => Just(0), 1 => 0..70usize];
    (head, tail, proptest::bool::weighted(0.1), cut).prop_map(|(head, tail, fragment, cut)| {
        let ((vlan, six, src, dst), (protocol, ports, flags, options)) = (head, tail);
        let tags = vlan.map_or(0, |(_, tags)| tags);
        let vlan = vlan.map(|(vlan, _)| vlan);
        Frame { vlan, tags, six, src, dst, protocol, ports, flags, options, fragment, cut }
    })
}

fn value(field: Field) -> BoxedStrategy<u128> {
    match field {
        Field::EtherType => prop_oneof![Just(0x800), Just(0x86dd)].boxed(),
        Field::Vlan => (1..4u128).boxed(),
        Field::Src4 | Field::Dst4 => (0..16u8).prop_map(|n| address4(n).into()).boxed(),
        Field::Src6 | Field::Dst6 => (0..16u8).prop_map(address6).boxed(),
        Field::Protocol => protocol().prop_map(u128::from).boxed(),
        Field::SrcPort | Field::DstPort => port().prop_map(u128::from).boxed(),
        Field::TcpFlags => (0..4u128).boxed(),
    }
}

fn masked(field: Field) -> BoxedStrategy<Test> {
    let full = field.full();
    let mask = prop_oneof![
        3 => Just(full),
        1 => (0..=field.bits()).prop_map(move |bits| full & !(full.checked_shr(bits).unwrap_or(0))),
        1 => any::<u128>().prop_map(move |mask| mask & full),
    ];
    (mask, value(field))
        .prop_map(move |(mask, value)| Test::Mask { field, mask, value: value & mask })
        .boxed()
}

fn test(field: Field) -> BoxedStrategy<Test> {
    let range = (value(field), value(field)).prop_map(move |(a, b)| Test::Range {
        field,
        lo: a.min(b),
        hi: a.max(b),
    });
    prop_oneof![3 => masked(field), 1 => range].boxed()
}

fn rule(test: fn(Field) -> BoxedStrategy<Test>) -> impl Strategy<Value = Rule> {
    let fields = proptest::sample::subsequence(Field::ALL.to_vec(), 1..4);
    let tests = fields.prop_flat_map(move |fields| {
        fields.into_iter().map(test).collect::<Vec<BoxedStrategy<Test>>>()
    });
    let rule = tests.prop_map(|tests| Rule { tests, target: Target::Queue(1) });
    rule.prop_filter("of one version of IP", |rule| rule.check().is_ok())
}

fn classifier() -> Option<Classifier> {
    let fallback = Fallback::To(Target::Pass);
    match Classifier::load(Sink::Count, fallback, 64) {
        Ok(classifier) => Some(classifier),
        Err(error) if error.is_denied() => {
            println!("skipped: needs CAP_NET_ADMIN and CAP_BPF");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn ordered_filters_are_asked_in_their_order() {
    let Some(first) = classifier() else { return };
    let classifier = std::cell::RefCell::new(first);
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let rules = proptest::collection::vec(rule(test), 0..24);
    let frames = proptest::collection::vec(frame(), 24);
    let result = runner.run(&(rules, frames), |(rules, frames)| {
        let mut classifier = classifier.borrow_mut();
        classifier.set_ordered(rules.clone()).unwrap();
        for frame in frames {
            let before = (classifier.ordered_hits().unwrap(), classifier.missed().unwrap());
            let ran = classifier.program().run(&frame.bytes(), 1).unwrap();
            let wanted = rules.iter().position(|rule| frame.matches(rule));
            let mut hits = before.0;
            if let Some(wanted) = wanted {
                hits[wanted] += 1;
            }
            prop_assert_eq!(classifier.ordered_hits().unwrap(), hits, "{:?}", &frame);
            let missed = before.1 + u64::from(wanted.is_none());
            prop_assert_eq!(classifier.missed().unwrap(), missed, "{:?}", &frame);
            let action = if wanted.is_some() { XdpAction::Drop } else { XdpAction::Pass };
            prop_assert_eq!(ran.action(), Some(action));
        }
        Ok(())
    });
    result.unwrap();
}

/// How many bits a filter looks at, presence aside.
fn bits(rule: &Rule) -> u32 {
    let of = |test: &Test| match test {
        Test::Mask { mask, .. } => mask.count_ones(),
        Test::Range { .. } => 0,
    };
    rule.tests.iter().map(of).sum()
}

#[test]
fn inserted_filters_are_found_and_removed_ones_are_not() {
    if classifier().is_none() {
        return;
    }
    let mut runner = TestRunner::new(Config { cases: 40, ..Config::default() });
    let rules = proptest::collection::vec(rule(masked), 1..12);
    let frames = proptest::collection::vec(frame(), 24);
    let removed = proptest::collection::vec(any::<bool>(), 12);
    let result = runner.run(&(rules, frames, removed), |(rules, frames, removed)| {
        let mut classifier = classifier().unwrap();
        for rule in &rules {
            classifier.insert(rule).unwrap();
        }
        let (gone, left): (Vec<_>, Vec<_>) = rules.iter().zip(removed).partition(|(_, gone)| *gone);
        for (rule, _) in &gone {
            classifier.remove(rule).unwrap();
        }
        let same = |a: &Rule, b: &Rule| {
            let sorted = |rule: &Rule| {
                let mut tests = rule.tests.clone();
                tests.sort();
                tests
            };
            sorted(a) == sorted(b)
        };
        let left: Vec<&Rule> = left.into_iter().map(|(rule, _)| rule).collect();
        let left: Vec<&Rule> =
            left.into_iter().filter(|rule| !gone.iter().any(|(g, _)| same(g, rule))).collect();
        for frame in frames {
            let missed = classifier.missed().unwrap();
            classifier.program().run(&frame.bytes(), 1).unwrap();
            let matching = left.iter().filter(|rule| frame.matches(rule));
            let most = matching.clone().map(|rule| bits(rule)).max();
            let is_missed = classifier.missed().unwrap() > missed;
            prop_assert_eq!(is_missed, most.is_none(), "{:?}", &frame);
        }
        Ok(())
    });
    result.unwrap();
}

fn exact(queue: u32, port: u16) -> Rule {
    let tests = vec![
        Test::exact(Field::Dst4, address4(1).into()),
        Test::exact(Field::Protocol, 17),
        Test::exact(Field::DstPort, port.into()),
    ];
    Rule { tests, target: Target::Queue(queue) }
}

fn datagram(port: u16) -> Frame {
    Frame {
        vlan: None,
        tags: 0,
        six: false,
        src: 0,
        dst: 1,
        protocol: 17,
        ports: (9, port),
        flags: 0,
        options: 0,
        fragment: false,
        cut: 0,
    }
}

#[test]
fn filters_of_one_shape_share_a_map_and_exchange_nothing() {
    let Some(mut classifier) = classifier() else { return };
    assert!(classifier.insert(&exact(0, 1)).unwrap(), "the first makes a map");
    for port in 2..=64 {
        assert!(!classifier.insert(&exact(u32::from(port), port)).unwrap());
    }
    assert_eq!(classifier.tables(), [64]);
    let full = classifier.insert(&exact(0, 65)).unwrap_err();
    assert!(matches!(full, BpfError::Setting { .. }), "{full}");
    // Another target for one that is there needs no room.
    assert!(!classifier.insert(&exact(3, 64)).unwrap());
    for _ in 0..3 {
        classifier.program().run(&datagram(7).bytes(), 1).unwrap();
    }
    assert_eq!(classifier.hits(&exact(0, 7)).unwrap(), Some(3));
    assert_eq!(classifier.hits(&exact(0, 65)).unwrap(), None);
    assert!(classifier.remove(&exact(0, 7)).unwrap() && !classifier.remove(&exact(0, 7)).unwrap());
    assert_eq!(classifier.missed().unwrap(), 0);
    classifier.program().run(&datagram(7).bytes(), 1).unwrap();
    assert_eq!(classifier.missed().unwrap(), 1);
}

#[test]
fn the_filter_that_looks_at_more_wins_and_targets_are_obeyed() {
    let Some(mut classifier) = classifier() else { return };
    let wide = Rule { tests: vec![Test::exact(Field::Protocol, 17)], target: Target::Queue(1) };
    let narrow = Rule { target: Target::Pass, ..exact(0, 7) };
    classifier.insert(&wide).unwrap();
    classifier.insert(&narrow).unwrap();
    let run = |classifier: &Classifier, port| {
        classifier.program().run(&datagram(port).bytes(), 1).unwrap().action()
    };
    assert_eq!(run(&classifier, 7), Some(XdpAction::Pass));
    assert_eq!(run(&classifier, 8), Some(XdpAction::Drop), "a queue, which only counts here");
    classifier.insert(&Rule { target: Target::Drop, ..narrow }).unwrap();
    assert_eq!(run(&classifier, 7), Some(XdpAction::Drop));
    assert_eq!(classifier.hits(&wide).unwrap(), Some(1));
}

#[test]
fn a_thousand_ordered_filters_pass_the_verifier() {
    let Some(mut classifier) = classifier() else { return };
    let range = |n: u128| Test::Range { field: Field::DstPort, lo: 63 * n, hi: 63 * n + 15 };
    let rule = |n: u128| Rule {
        tests: vec![range(n), Test::exact(Field::Protocol, 17)],
        target: Target::Queue(n as u32),
    };
    classifier.set_ordered((0..1024).map(rule).collect()).unwrap();
    classifier.program().run(&datagram(63 * 1000 + 3).bytes(), 1).unwrap();
    assert_eq!(classifier.ordered_hits().unwrap()[1000], 1);
    let error = classifier.set_ordered((0..1025).map(rule).collect()).unwrap_err().to_string();
    assert!(error.contains("1025") && error.contains("1024"), "{error}");
    assert_eq!(classifier.ordered_hits().unwrap()[1000], 1, "nothing has changed");
}

#[test]
fn a_filter_may_match_everything() {
    let Some(mut classifier) = classifier() else { return };
    let nothing = Test::Mask { field: Field::EtherType, mask: 0, value: 0 };
    let all = |tests| Rule { tests, target: Target::Queue(1) };
    for rules in [vec![all(vec![])], vec![all(vec![nothing]), exact(2, 7)]] {
        classifier.set_ordered(rules).unwrap();
        classifier.program().run(&datagram(7).bytes(), 1).unwrap();
        assert_eq!(classifier.ordered_hits().unwrap()[0], 1);
    }
    assert_eq!(classifier.missed().unwrap(), 0);
}

#[test]
fn what_is_no_filter_is_refused() {
    let Some(mut classifier) = classifier() else { return };
    let of = |tests: Vec<Test>| Rule { tests, target: Target::Queue(0) };
    let port = Test::exact(Field::DstPort, 7);
    let range = Test::Range { field: Field::DstPort, lo: 7, hi: 6 };
    for (rule, word) in [
        (of(vec![port, port]), "twice"),
        (of(vec![Test::exact(Field::Src4, 1), Test::exact(Field::Dst6, 1)]), "both versions"),
        (of(vec![Test::Mask { field: Field::Vlan, mask: 1, value: 2 }]), "no test"),
        (of(vec![Test::exact(Field::Vlan, 0x1000)]), "no test"),
        (of(vec![range]), "no test"),
        (of(vec![Test::Range { field: Field::DstPort, lo: 7, hi: 8 }]), "range"),
        (Rule { tests: vec![], target: Target::Queue(1 << 16) }, "65535"),
    ] {
        let error = classifier.insert(&rule).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert!(classifier.tables().is_empty());
    assert!(Classifier::load(Sink::Count, Fallback::Spread(vec![]), 1).is_err());
}

#[test]
fn what_no_filter_matches_is_spread_over_queues() {
    let Some(mut classifier) = classifier() else { return };
    classifier.set_fallback(Fallback::Spread(vec![0, 1, 2, 3])).unwrap();
    for port in [1, 2, 3, 99] {
        let action = classifier.program().run(&datagram(port).bytes(), 1).unwrap().action();
        assert_eq!(action, Some(XdpAction::Drop));
    }
    assert_eq!(classifier.missed().unwrap(), 4);
}

#[test]
fn what_no_filter_matches_is_counted_on_all_cpus_at_once() {
    const EACH: u32 = 100_000;
    let Some(classifier) = classifier() else { return };
    let cores = weever_testbed::allowed_cores().unwrap();
    std::thread::scope(|scope| {
        for core in &cores {
            scope.spawn(|| {
                weever_testbed::pin_to(*core).unwrap();
                classifier.program().run(&datagram(7).bytes(), EACH).unwrap();
            });
        }
    });
    assert_eq!(classifier.missed().unwrap(), u64::from(EACH) * cores.len() as u64);
}

/// The flows that were counted, with their frames.
fn missed(classifier: &Classifier) -> Vec<(u8, (std::net::IpAddr, u16), u16, u64)> {
    let mut flows = Vec::new();
    classifier.take_missed(|f| flows.push((f.protocol, f.src, f.dst.1, f.frames))).unwrap();
    flows.sort();
    flows
}

#[test]
fn flows_that_no_filter_matches_are_counted_and_taken_out() {
    let Some(mut classifier) = classifier() else { return };
    classifier.insert(&exact(0, 7)).unwrap();
    classifier.program().run(&datagram(8).bytes(), 1).unwrap();
    assert!(missed(&classifier).is_empty(), "not unless it is asked for");
    classifier.sample(64, 1).unwrap();
    let six = Frame { six: true, src: 2, protocol: 6, ..datagram(9) };
    let no_ports = Frame { protocol: 1, ..datagram(9) };
    let fragment = Frame { fragment: true, ..datagram(9) };
    for frame in [datagram(8), datagram(8), datagram(7), six, no_ports, fragment] {
        classifier.program().run(&frame.bytes(), 1).unwrap();
    }
    let four = (std::net::Ipv4Addr::from(address4(0)).into(), 9);
    let six = (std::net::Ipv6Addr::from(address6(2)).into(), 9);
    assert_eq!(missed(&classifier), [(6, six, 9, 1), (17, four, 8, 2)]);
    assert!(missed(&classifier).is_empty(), "they were taken out");
}

#[test]
fn the_flows_that_are_counted_are_bounded_and_sampled() {
    let Some(mut classifier) = classifier() else { return };
    classifier.sample(256, 1).unwrap();
    for port in 0..5000 {
        classifier.program().run(&datagram(port).bytes(), 1).unwrap();
    }
    let flows = missed(&classifier).len();
    assert!((1..=256).contains(&flows), "{flows}");
    classifier.sample(256, 16).unwrap();
    classifier.program().run(&datagram(3).bytes(), 64_000).unwrap();
    let [(.., frames)] = missed(&classifier)[..] else { panic!("one flow") };
    // Five standard deviations.
    assert!(frames.abs_diff(64_000) < 5000, "{frames}");
    for (entries, every) in [(0, 1), (1, 3), (1, 0)] {
        assert!(matches!(classifier.sample(entries, every), Err(BpfError::Setting { .. })));
    }
}
