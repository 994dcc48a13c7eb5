use super::*;

const SECOND: u64 = 1_000_000_000;

fn flow(n: u32) -> FiveTuple {
    let src = (std::net::Ipv4Addr::from(0x0a00_0000 + n), 9);
    FiveTuple { protocol: 17, src: src.into(), dst: ([10, 0, 0, 1], 53).into() }
}

fn watch(settings: Settings) -> Watch {
    Watch::new(settings)
}

#[test]
fn a_flow_is_due_once_it_is_fast_and_again_when_it_has_gone() {
    let mut watch = watch(Settings { rate: 100, ..Settings::default() });
    watch.saw(0, flow(1), 99);
    watch.saw(0, flow(2), 500);
    watch.saw(0, flow(3), 1000);
    watch.tick(0);
    let due = watch.due(0);
    assert_eq!(due.came, [(flow(3), 1000), (flow(2), 500)], "the fastest first");
    assert!(watch.due(0).is_empty(), "they are known now");
    for now in [SECOND, 2 * SECOND] {
        watch.saw(now, flow(1), 200);
        watch.saw(now, flow(2), 300);
        watch.tick(now);
    }
    assert_eq!(watch.rate(&flow(2)), Some(350));
    assert_eq!(watch.due(2 * SECOND).came.len(), 1, "the first has become fast");
    watch.tick(10 * SECOND);
    assert_eq!(watch.due(10 * SECOND), DueFlow { came: vec![], gone: vec![flow(3)] });
    assert!(watch.due(10 * SECOND).is_empty());
    watch.saw(13 * SECOND, flow(3), 1000);
    watch.tick(13 * SECOND);
    assert_eq!(watch.due(13 * SECOND).came.len(), 1, "one that comes back is due again");
}

#[test]
fn more_flows_than_there_is_room_for_are_counted() {
    let mut watch = watch(Settings { most: 1000, batch: 64, interval: 0, ..Settings::default() });
    (0..100_000).for_each(|n| watch.saw(0, flow(n), 50));
    watch.tick(0);
    assert_eq!((watch.len(), watch.refused()), (1000, 99_000));
    let mut told = std::collections::HashSet::new();
    for _ in 0..16 {
        let due = watch.due(0);
        assert!(due.came.len() <= 64);
        told.extend(due.came);
    }
    assert_eq!(told.len(), 1000, "by and by all of them are told");
    watch.tick(11 * SECOND);
    assert_eq!(watch.due(11 * SECOND).gone.len(), 1000);
    assert!(watch.is_empty());
}

#[test]
fn flows_that_nobody_was_told_of_make_room() {
    let mut watch = watch(Settings { most: 2, rate: 100, ..Settings::default() });
    (0..3).for_each(|n| watch.saw(0, flow(n), 1));
    watch.tick(20 * SECOND);
    assert!(watch.is_empty() && watch.due(20 * SECOND).is_empty());
    watch.saw(20 * SECOND, flow(3), 1000);
    assert_eq!(watch.len(), 1);
}

#[test]
fn searches_come_as_the_bucket_allows() {
    let settings = Settings { interval: SECOND, burst: 2, ..Settings::default() };
    let mut watch = watch(settings);
    let mut searched = Vec::new();
    for tenth in 0..40u32 {
        let now = u64::from(tenth) * SECOND / 10;
        watch.saw(now, flow(tenth), 1000);
        watch.tick(now);
        if !watch.due(now).is_empty() {
            searched.push(tenth);
        }
    }
    // Two at once. The token that refills the bucket comes a second after the first was taken.
    assert_eq!(searched, [0, 1, 10, 20, 30]);
}

#[test]
fn a_bucket_that_was_full_for_long_holds_no_more_than_its_burst() {
    let mut bucket = TokenBucket::new(10, 3);
    let taken = |bucket: &mut TokenBucket, now| (0..9).filter(|_| bucket.take(now)).count();
    assert_eq!(taken(&mut bucket, 0), 3);
    assert_eq!(taken(&mut bucket, 25), 2);
    assert_eq!(taken(&mut bucket, 30), 1, "the rest of the interval counts");
    assert_eq!(taken(&mut bucket, 1_000_000), 3);
    assert_eq!(taken(&mut TokenBucket::new(0, 0), 0), 9);
}

#[test]
fn five_tuples_are_flows() {
    let flow = flow(7);
    assert_eq!(flow.to_string(), "udp 10.0.0.7:9 -> 10.0.0.1:53");
    let conj = flow.packets().unwrap();
    assert_eq!(conj.single(weever_graph::Field::L4Dst), Some(53));
    assert_eq!(conj.single(weever_graph::Field::Ip4Proto), Some(17));
    assert_eq!(flow.flow().unwrap().name, flow.to_string());
    let six = FiveTuple { src: "[fd00::1]:5".parse().unwrap(), ..flow };
    assert!(six.packets().is_none(), "two versions of IP");
    let six = FiveTuple { dst: "[fd00::2]:6".parse().unwrap(), ..six };
    assert!(!six.packets().unwrap().is_empty());
    assert!(FiveTuple { protocol: 1, ..flow }.flow().is_none());
}

#[test]
fn a_five_tuple_is_recognized_by_its_packets() {
    for (src, dst) in [("10.0.0.1:5", "10.0.0.2:7"), ("[fd00::1]:5", "[fd00::2]:7")] {
        for protocol in [6, 17, 132] {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            let tuple = FiveTuple { protocol, src, dst };
            assert_eq!(FiveTuple::of(&tuple.packets().unwrap()), Some(tuple));
        }
    }
    let wide = crate::flow::Conj::all().with(weever_graph::Field::L4Dst, 7);
    assert_eq!(FiveTuple::of(&wide), None);
}
