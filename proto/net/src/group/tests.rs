use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;
use weever_wire::igmp::{self, IgmpQuery, IgmpReport};
use weever_wire::listener::{REPORT_LEN, record_kind as kind};
use weever_wire::mld::MldReport;
use weever_wire::{icmpv6, mld};

use super::*;
use crate::{MILLIS, SECOND};

const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn group(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(239, 0, 0, last)
}

fn source(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 9, last)
}

type Record = (u8, Ipv4Addr, Vec<Ipv4Addr>);

/// All messages that are due at `now`.
fn messages(of: &mut Memberships<Ipv4Addr>, now: u64) -> Vec<(Ipv4Addr, Vec<u8>)> {
    let mut out = [0; 1200];
    let mut list = Vec::new();
    while let Some(Outgoing { dst, len }) = of.poll(now, SRC, &mut out) {
        assert!(igmp::checksum_ok(&out[..len]));
        list.push((dst, out[..len].to_vec()));
        assert!(list.len() < 1000);
    }
    list
}

fn records(of: &mut Memberships<Ipv4Addr>, now: u64) -> Vec<Record> {
    let mut list = Vec::new();
    for (dst, message) in messages(of, now) {
        assert_eq!(dst, Ipv4Addr::new(224, 0, 0, 22));
        for record in IgmpReport::parse(&message).unwrap() {
            let record = record.unwrap();
            list.push((record.kind, record.group, record.sources.iter().collect()));
        }
    }
    list
}

fn next(of: &mut Memberships<Ipv4Addr>, now: &mut u64) -> Vec<Record> {
    *now = of.poll_at().unwrap().max(*now);
    records(of, *now)
}

fn host() -> Memberships<Ipv4Addr> {
    Memberships::new(MembershipConfig::default())
}

fn query(version: Version, group: Option<Ipv4Addr>) -> Query<Ipv4Addr> {
    Query { version, group, max_response: 10 * SECOND, robustness: 2, interval: 125 }
}

fn ask(of: &mut Memberships<Ipv4Addr>, query: Query<Ipv4Addr>, sources: &[Ipv4Addr], now: u64) {
    of.query(query, sources.iter().copied(), now);
}

#[test]
fn a_join_and_a_leave_are_said_twice() {
    let (mut host, mut now) = (host(), 5);
    host.set(1, group(1), Filter::any(), now).unwrap();
    let join = (kind::CHANGE_TO_EXCLUDE, group(1), Vec::new());
    assert_eq!(records(&mut host, now), core::slice::from_ref(&join));
    assert_eq!(next(&mut host, &mut now), [join]);
    assert!(now - 5 <= SECOND && host.poll_at().is_none());
    assert!(host.accepts(group(1), source(1)) && !host.accepts(group(2), source(1)));
    host.set(1, group(1), Filter::none(), now).unwrap();
    let leave = (kind::CHANGE_TO_INCLUDE, group(1), Vec::new());
    assert_eq!(records(&mut host, now), core::slice::from_ref(&leave));
    assert_eq!(next(&mut host, &mut now), [leave]);
    assert_eq!((host.poll_at(), host.groups().count()), (None, 0));
}

#[test]
fn sources_come_and_go() {
    let (mut host, now) = (host(), 0);
    host.set(1, group(1), Filter::new(Mode::Include, &[source(2), source(1)]), now).unwrap();
    assert_eq!(
        records(&mut host, now),
        [(kind::ALLOW_NEW, group(1), std::vec![source(1), source(2)])]
    );
    host.set(1, group(1), Filter::new(Mode::Include, &[source(2), source(3)]), now).unwrap();
    assert_eq!(
        records(&mut host, now),
        [
            (
                kind::ALLOW_NEW,
                group(1),
                std::vec![source(1), source(2), source(3)]
                    .into_iter()
                    .filter(|s| *s != source(1))
                    .collect()
            ),
            (kind::BLOCK_OLD, group(1), std::vec![source(1)]),
        ]
    );
    assert!(host.accepts(group(1), source(3)) && !host.accepts(group(1), source(1)));
}

#[test]
fn users_together_want_what_any_of_them_wants() {
    let mut host = host();
    host.set(1, group(1), Filter::new(Mode::Exclude, &[source(1), source(2)]), 0).unwrap();
    host.set(2, group(1), Filter::new(Mode::Exclude, &[source(2), source(3)]), 0).unwrap();
    assert_eq!(host.filter(group(1)).unwrap(), &Filter::new(Mode::Exclude, &[source(2)]));
    host.set(3, group(1), Filter::new(Mode::Include, &[source(2)]), 0).unwrap();
    assert_eq!(host.filter(group(1)).unwrap(), &Filter::any());
    host.set(1, group(1), Filter::none(), 0).unwrap();
    host.set(2, group(1), Filter::none(), 0).unwrap();
    assert_eq!(host.filter(group(1)).unwrap(), &Filter::new(Mode::Include, &[source(2)]));
    host.set_all(3, &[group(4), group(5)], 0).unwrap();
    assert_eq!(host.groups().map(|(g, _)| g).collect::<Vec<_>>(), [group(4), group(5)]);
}

#[test]
fn queries_are_answered_once_within_their_time() {
    let (mut host, mut now) = (host(), 0);
    for n in 1..4 {
        host.set(1, group(n), Filter::any(), now).unwrap();
    }
    host.set(1, Ipv4Addr::new(224, 0, 0, 1), Filter::any(), now).unwrap();
    while host.poll_at().is_some() {
        next(&mut host, &mut now);
    }
    let asked = now;
    ask(&mut host, query(Version::Newest, None), &[], now);
    ask(&mut host, query(Version::Newest, Some(group(2))), &[], now + 9 * SECOND);
    let mut answers = next(&mut host, &mut now);
    assert!(now - asked <= 10 * SECOND);
    while host.poll_at().is_some() {
        answers.extend(next(&mut host, &mut now));
    }
    let all: BTreeSet<_> = answers.iter().map(|(kind, group, _)| (*kind, *group)).collect();
    assert_eq!(all, (1..4).map(|n| (kind::MODE_IS_EXCLUDE, group(n))).collect(), "not 224.0.0.1");
    ask(&mut host, query(Version::Newest, Some(group(9))), &[], now);
    assert!(host.poll_at().is_none(), "a group without members");
}

#[test]
fn a_query_about_sources_is_answered_by_those_wanted() {
    let (mut host, mut now) = (host(), 0);
    host.set(1, group(1), Filter::new(Mode::Exclude, &[source(1)]), now).unwrap();
    while host.poll_at().is_some() {
        next(&mut host, &mut now);
    }
    ask(&mut host, query(Version::Newest, Some(group(1))), &[source(1), source(2)], now);
    ask(&mut host, query(Version::Newest, Some(group(1))), &[source(3)], now);
    let mut answer = next(&mut host, &mut now);
    answer[0].2.sort_unstable();
    assert_eq!(answer, [(kind::MODE_IS_INCLUDE, group(1), std::vec![source(2), source(3)])]);
    ask(&mut host, query(Version::Newest, Some(group(1))), &[source(1)], now);
    assert_eq!(next(&mut host, &mut now), [], "none of them");
    assert!(host.poll_at().is_none());
}

#[test]
fn older_queriers_are_lived_with() {
    let (mut host, mut now) = (host(), 0);
    ask(&mut host, query(Version::Older, None), &[], now);
    assert_eq!(host.version(now), Version::Older);
    host.set(1, group(1), Filter::any(), now).unwrap();
    let said = messages(&mut host, now);
    assert!(matches!(&said[..], [(dst, m)] if *dst == group(1) && m[0] == igmp::kind::V2_REPORT));
    now = host.poll_at().unwrap();
    assert_eq!(messages(&mut host, now).len(), 1);
    // Another host answers first.
    ask(&mut host, query(Version::Older, None), &[], now);
    assert!(host.poll_at().is_some());
    host.receive_report(group(1), now);
    assert!(host.poll_at().is_none());
    host.set(1, group(1), Filter::none(), now).unwrap();
    assert!(messages(&mut host, now).is_empty(), "the other one still listens");
    host.set(1, group(2), Filter::any(), now).unwrap();
    messages(&mut host, now);
    host.set(1, group(2), Filter::none(), now).unwrap();
    let said = messages(&mut host, now);
    assert!(
        matches!(&said[..], [(dst, m)] if *dst == Ipv4Addr::new(224, 0, 0, 2) && m[0] == igmp::kind::V2_LEAVE)
    );
    ask(&mut host, query(Version::Oldest, None), &[], now);
    host.set(1, group(3), Filter::any(), now).unwrap();
    assert_eq!(messages(&mut host, now)[0].1[0], igmp::kind::V1_REPORT);
    assert_eq!(host.version(now + 261 * SECOND), Version::Newest);
}

#[test]
fn on_a_link_that_was_down_all_is_said_anew() {
    let (mut host, mut now) = (host(), 0);
    host.set(1, group(1), Filter::any(), now).unwrap();
    host.set(1, group(2), Filter::new(Mode::Include, &[source(1)]), now).unwrap();
    host.set(1, Ipv4Addr::new(224, 0, 0, 1), Filter::any(), now).unwrap();
    while host.poll_at().is_some() {
        next(&mut host, &mut now);
    }
    ask(&mut host, query(Version::Older, None), &[], now);
    host.set(1, group(3), Filter::any(), now).unwrap();
    host.set(1, group(3), Filter::none(), now).unwrap();
    host.restart(now);
    assert_eq!(host.version(now), Version::Newest, "the querier was the other link's");
    let all = [
        (kind::CHANGE_TO_EXCLUDE, group(1), Vec::new()),
        (kind::CHANGE_TO_INCLUDE, group(2), std::vec![source(1)]),
    ];
    assert_eq!(records(&mut host, now), all);
    assert_eq!(next(&mut host, &mut now), all, "and again");
    assert!(host.poll_at().is_none() && host.accepts(group(2), source(1)));
}

#[test]
fn an_older_querier_counts_for_as_long_as_the_last_query_says() {
    let mut host = host();
    let said = |interval| Query { interval, ..query(Version::Newest, None) };
    ask(&mut host, said(1000), &[], 0);
    ask(&mut host, said(0), &[], 1);
    ask(&mut host, Query { interval: 0, ..query(Version::Older, None) }, &[], 2);
    let until = 2 + (2 * 1000 + 10) * SECOND;
    let spoken = [host.version(until - 1), host.version(until)];
    assert_eq!(spoken, [Version::Older, Version::Newest]);
}

#[test]
fn limits_are_errors() {
    let mut host: Memberships<Ipv4Addr> =
        Memberships::new(MembershipConfig { groups: 2, ..MembershipConfig::default() });
    assert_eq!(host.set(1, SRC, Filter::any(), 0), Err(GroupError::NotAGroup));
    let many: Vec<_> = (0..65).map(source).collect();
    assert_eq!(
        host.set(1, group(1), Filter::new(Mode::Include, &many), 0),
        Err(GroupError::TooManySources)
    );
    host.set_all(1, &[group(1), group(2)], 0).unwrap();
    assert_eq!(host.set(1, group(3), Filter::any(), 0), Err(GroupError::TooManyGroups));
    for user in 2..65 {
        host.set(user, group(1), Filter::any(), 0).unwrap();
    }
    assert_eq!(host.set(65, group(1), Filter::any(), 0), Err(GroupError::TooManyUsers));
}

#[test]
fn listeners_of_ipv6_say_the_same_in_longer_words() {
    let (us, group): (Ipv6Addr, Ipv6Addr) =
        ("fe80::1".parse().unwrap(), "ff02::1:ff00:1".parse().unwrap());
    let mut host: Memberships<Ipv6Addr> = Memberships::new(MembershipConfig::default());
    let mut out = [0; 1200];
    host.set(1, "ff02::1".parse().unwrap(), Filter::any(), 0).unwrap();
    assert_eq!(host.poll(0, us, &mut out), None, "all nodes");
    host.set(1, group, Filter::any(), 0).unwrap();
    let Outgoing { dst, len } = host.poll(0, us, &mut out).unwrap();
    assert_eq!((dst, len), ("ff02::16".parse().unwrap(), REPORT_LEN + 4 + 16));
    let addresses = |dst: Ipv6Addr| [us.octets(), dst.octets()].concat().try_into().unwrap();
    assert!(icmpv6::checksum_ok(&out[..len], &addresses(dst)));
    let record = MldReport::parse(&out[..len]).unwrap().next().unwrap().unwrap();
    assert_eq!((record.kind, record.group), (kind::CHANGE_TO_EXCLUDE, group));
    let old = Query {
        version: Version::Older,
        group: None,
        max_response: SECOND,
        robustness: 0,
        interval: 0,
    };
    host.query(old, core::iter::empty(), 10 * SECOND);
    let Outgoing { dst, len } = host.poll(12 * SECOND, us, &mut out).unwrap();
    assert_eq!((dst, len, out[0]), (group, mld::V1_LEN, icmpv6::kind::MLDV1_REPORT));
    assert!(icmpv6::checksum_ok(&out[..len], &addresses(dst)));
}

/// A router's view of one host on the link (RFC 3376 §6.4, without timers).
#[derive(Default)]
struct Router(BTreeMap<Ipv4Addr, (bool, BTreeSet<Ipv4Addr>)>);

impl Router {
    fn hear(&mut self, (what, group, sources): Record) {
        let (exclude, list) = self.0.entry(group).or_default();
        let sources: BTreeSet<_> = sources.into_iter().collect();
        match what {
            kind::CHANGE_TO_INCLUDE | kind::MODE_IS_INCLUDE => (*exclude, *list) = (false, sources),
            kind::CHANGE_TO_EXCLUDE | kind::MODE_IS_EXCLUDE => (*exclude, *list) = (true, sources),
            kind::ALLOW_NEW if !*exclude => list.extend(sources),
            kind::BLOCK_OLD if *exclude => list.extend(sources),
            _ => list.retain(|source| !sources.contains(source)),
        }
        self.0.retain(|_, (exclude, list)| *exclude || !list.is_empty());
    }
}

proptest! {
    /// For any joins, leaves and times of messages, the router ends up knowing it, even if it hears
    /// only every other message.
    #[test]
    fn the_router_knows_what_is_listened_to(
        script in proptest::collection::vec(
            (0u64..3, 1u8..4, any::<bool>(), proptest::collection::vec(0u8..5, 0..4), 0u64..400), 1..60,
        ),
        lossy: bool,
    ) {
        let (mut host, mut now, mut router, mut count) = (host(), 0, Router::default(), 0);
        for (user, n, include, sources, wait) in script {
            let sources: Vec<_> = sources.into_iter().map(source).collect();
            let mode = if include { Mode::Include } else { Mode::Exclude };
            host.set(user, group(n), Filter::new(mode, &sources), now).unwrap();
            let until = now + wait * MILLIS;
            while let Some(at) = host.poll_at().filter(|at| *at <= until) {
                now = now.max(at);
                for record in records(&mut host, now) {
                    count += 1;
                    // Mode changes repeat all; source changes repeat themselves.
                    if !lossy || count % 2 == 0 { router.hear(record) }
                }
            }
            now = until;
        }
        let mut turns = 0;
        while host.poll_at().is_some() {
            let _ = next(&mut host, &mut now).into_iter().map(|record| router.hear(record)).count();
            turns += 1;
            prop_assert!(turns < 10, "it comes to rest");
        }
        if !lossy {
            let known: Vec<_> = router.0.iter().map(|(group, (exclude, list))| (*group, *exclude, list.iter().copied().collect::<Vec<_>>())).collect();
            let true_: Vec<_> = host.groups().map(|(group, f)| (group, f.mode() == Mode::Exclude, f.sources().to_vec())).collect();
            prop_assert_eq!(known, true_);
        }
        // The reports after a general query are complete in any case.
        ask(&mut host, query(Version::Newest, None), &[], now);
        let mut fresh = Router::default();
        while host.poll_at().is_some() {
            next(&mut host, &mut now).into_iter().for_each(|record| fresh.hear(record));
        }
        prop_assert_eq!(fresh.0.len(), host.groups().count());
    }

    #[test]
    fn any_queries_are_bounded(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 8..60), 0..60)) {
        let (mut host, mut now) = (host(), 0);
        host.set_all(1, &[group(1), group(2)], now).unwrap();
        for mut message in messages {
            message[0] = igmp::kind::QUERY;
            if message[1] & 1 == 0 { message[4..8].copy_from_slice(&group(1).octets()); }
            if let Ok(query) = IgmpQuery::parse(&message) {
                host.query(query.into(), query.sources.iter(), now);
                host.receive_report(query.group, now);
            }
            now += u64::from(message[7]) * MILLIS * 50;
            prop_assert!(self::messages(&mut host, now).len() < 8);
        }
    }
}
