//! Any order of ARP packets, look-ups and passing time: the cache stays within its capacity, asks no
//! more often than it may, and its timer is never late nor stuck.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use weever_net::MILLIS;
use weever_net::addr::{Cidr, Locals};
use weever_net::arp::{Action, ArpConfig, Cache, Discovery, Lookup};
use weever_wire::MacAddr;
use weever_wire::arp::ArpRepr;

const US: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CAPACITY: usize = 4;

fuzz_target!(|steps: &[u8]| {
    let cidr = Cidr::new(US, 24).expect("24 is a prefix length");
    let config = ArpConfig { capacity: CAPACITY, ..ArpConfig::default() };
    let mut now = 0;
    let mut cache = Cache::new(OUR_MAC, Locals::new(&[cidr]), config, now);
    for step in steps.chunks_exact(3) {
        take(&mut cache, step, &mut now);
        check(&cache, now);
    }
});

fn take(cache: &mut Cache, step: &[u8], now: &mut u64) {
    let (what, who, how) = (step[0], neighbour(step[1]), step[2]);
    match what % 6 {
        0 => match cache.lookup(who, *now) {
            Lookup::Hit(mac) => assert_ne!(mac, MacAddr::ZERO),
            Lookup::MissSendRequest(request) => assert_eq!(request.arp.tpa, who),
            Lookup::Incomplete | Lookup::Failed | Lookup::Full => {}
        },
        1 => hear(cache, who, how, *now),
        2 => *now += u64::from(how) * 500 * MILLIS,
        3 => poll(cache, *now),
        4 => cache.touch(who, *now),
        _ if how & 1 == 0 => drop(cache.neighbours_mut().insert_static(who, station(how), *now)),
        _ => drop(cache.neighbours_mut().remove(who)),
    }
}

fn neighbour(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number % 8)
}

fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, number])
}

fn hear(cache: &mut Cache, spa: Ipv4Addr, how: u8, now: u64) {
    let tpa = if how & 0x40 == 0 { US } else { neighbour(how) };
    let op = u16::from(how & 3);
    let arp = ArpRepr { op, sha: station(how >> 4), spa, tha: OUR_MAC, tpa };
    let outcome = cache.handle(&arp, now);
    if let Some(reply) = outcome.reply {
        assert_eq!((reply.arp.sha, reply.arp.tpa), (OUR_MAC, spa));
    }
    if let Some(learned) = outcome.learned {
        assert_eq!((learned.ip, learned.mac), (spa, arp.sha));
    }
}

fn poll(cache: &mut Cache, now: u64) {
    let mut actions = 0;
    cache.poll(now, |action| {
        actions += 1;
        if let Action::Send(transmit) = action {
            assert_eq!(transmit.arp.sha, OUR_MAC);
        }
    });
    assert!(actions <= CAPACITY + 1, "each neighbour once, and the claim to our own address");
    assert!(cache.poll_at().is_none_or(|at| at > now), "no deadline has passed");
}

fn check(cache: &Cache, now: u64) {
    let entries: Vec<_> = cache.neighbours().iter().collect();
    assert!(entries.len() <= CAPACITY);
    let distinct: std::collections::BTreeSet<_> = entries.iter().map(|entry| entry.ip).collect();
    assert_eq!(distinct.len(), entries.len());
    for entry in &entries {
        assert_eq!(entry.mac.is_some(), entry.state.is_resolved());
        assert!(entry.heard_at <= now && entry.used_at.is_none_or(|at| at <= now));
    }
}
