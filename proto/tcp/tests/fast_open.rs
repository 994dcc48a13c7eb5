//! Fast Open (RFC 7413) between two hosts on a virtual clock.

mod sim;

use proptest::prelude::*;
use sim::{Faults, Job, MILLIS, PORT, SECOND, World};
use weever_tcp::{Ecn, Endpoint, ListenerConfig, Segment, TcpConfig, Transmit};
use weever_wire::tcp::{Seq, TcpOptions, flag};

/// Two hosts whose second one takes octets in SYNs.
fn world(faults: Faults, pending: u32) -> World {
    let mut world = World::new(7, faults, TcpConfig::default());
    let config = ListenerConfig { fast_open: pending, ..ListenerConfig::new(PORT) };
    world.hosts[1].listen_with(config, Job::new(2_000, 500));
    world
}

/// Asks for a connection with Fast Open and lets both ends exchange 500 octets for 2,000: the time until the
/// first end has them all.
fn exchange(world: &mut World) -> u64 {
    let (began, to) = (world.now, world.hosts[1].address);
    let id = world.hosts[0].connect(to, Job::new(500, 2_000), began);
    world.hosts[0].endpoint.set_fast_open(id, began);
    let last = world.hosts[0].streams.len() - 1;
    let read = |world: &World| world.hosts[0].streams[last].read == 2_000;
    assert!(world.run(began + 300 * SECOND, read), "all arrives");
    let took = world.now - began;
    world.run(world.now + 300 * SECOND, World::all_done);
    took
}

#[test]
fn the_second_exchange_takes_one_round_trip() {
    let mut world = world(Faults { delay: 10 * MILLIS, ..Faults::NONE }, 10);
    let (first, second) = (exchange(&mut world), exchange(&mut world));
    assert!((40 * MILLIS..42 * MILLIS).contains(&first), "{first}");
    assert!((20 * MILLIS..22 * MILLIS).contains(&second), "{second}");
    let info = |at: usize, nth: usize| {
        let host = &world.hosts[at];
        let there = host.endpoint.get(host.streams[nth].id).expect("it lingers");
        there.info(world.now).options & 32 != 0
    };
    assert!(info(0, 1) && !info(0, 0), "TCP_INFO tells");
    assert_eq!(world.hosts[1].endpoint.counters().fast_opened, 1);
    assert_eq!(world.hosts[1].endpoint.counters().accepted, 2);
}

#[test]
fn a_cookie_is_good_for_some_hours_and_renewed_meanwhile() {
    const HOUR: u64 = 3600 * SECOND;
    let mut world = world(Faults { delay: 10 * MILLIS, ..Faults::NONE }, 10);
    exchange(&mut world);
    // Keys change every four hours: with a connection in each of these times cookies are always good.
    for _ in 0..4 {
        world.now += 3 * HOUR + HOUR / 2;
        assert!(exchange(&mut world) < 22 * MILLIS);
    }
    world.now += 9 * HOUR;
    assert!(exchange(&mut world) > 38 * MILLIS, "the last one is too old");
    assert!(exchange(&mut world) < 22 * MILLIS, "but was renewed");
}

#[test]
fn a_listener_that_takes_none_or_has_enough_falls_back() {
    let mut world = world(Faults { delay: 10 * MILLIS, ..Faults::NONE }, 1);
    exchange(&mut world);
    let to = world.hosts[1].address;
    for _ in 0..3 {
        let id = world.hosts[0].connect(to, Job::new(500, 2_000), world.now);
        world.hosts[0].endpoint.set_fast_open(id, world.now);
    }
    assert!(world.run(world.now + SECOND, World::all_done), "each gets its answer");
    let counters = world.hosts[1].endpoint.counters();
    assert_eq!((counters.fast_opened, counters.fast_open_full), (1, 2));
    let listener = world.hosts[1].listener.unwrap();
    world.hosts[1].endpoint.set_listener_fast_open(listener, 0);
    assert!(exchange(&mut world) > 38 * MILLIS);
}

/// The answer of a server to a SYN: a SYN-ACK with a cookie, which acknowledges so many octets.
fn answer(endpoint: &mut Endpoint, syn: &Transmit, taken: u32, now: u64) {
    let options = TcpOptions { mss: Some(1460), fast_open: Some(&[9; 8]), ..TcpOptions::default() };
    let segment = Segment {
        seq: Seq(77),
        ack: Seq(syn.header.seq) + 1 + taken,
        flags: flag::SYN | flag::ACK,
        window: 0xffff,
        urgent: 0,
        options,
        payload: &[],
        joined: 0,
        ecn: Ecn::NotEct,
    };
    endpoint.handle(&syn.tuple, &segment, now).unwrap();
}

#[test]
fn a_syn_too_long_for_the_path_goes_again_at_once_without_octets() {
    let mut endpoint = Endpoint::new(TcpConfig::default(), [1, 2], 0);
    let [from, to] = ["192.0.2.1:0", "192.0.2.2:80"].map(|at| at.parse().unwrap());
    let connect = |endpoint: &mut Endpoint, knows| {
        let id = endpoint.connect(from, to, SECOND).unwrap();
        assert_eq!(endpoint.set_fast_open(id, SECOND), knows);
        endpoint.queue(id, 1000, SECOND);
        (id, endpoint.poll_transmit(SECOND).unwrap())
    };
    let (id, syn) = connect(&mut endpoint, false);
    assert!(syn.payload.is_empty());
    answer(&mut endpoint, &syn, 0, SECOND);
    endpoint.abort(id, SECOND);
    endpoint.close(id, SECOND);
    while endpoint.poll_transmit(SECOND).is_some() {}

    let (id, syn) = connect(&mut endpoint, true);
    assert_eq!(syn.payload, 0..1000);
    let seq = syn.header.seq;
    assert!(!endpoint.handle_mtu(&syn.tuple, seq.wrapping_add(5000), 800, SECOND), "not sent");
    assert!(endpoint.handle_mtu(&syn.tuple, seq, 800, SECOND));
    let again = endpoint.poll_transmit(SECOND).unwrap();
    assert!(again.payload.is_empty() && again.header.flags == flag::SYN);
    assert_eq!((again.header.seq, again.options.fast_open), (seq, None));
    assert_eq!(endpoint.poll_transmit(SECOND), None);
    answer(&mut endpoint, &again, 0, SECOND);
    let data = endpoint.poll_transmit(SECOND).unwrap();
    assert_eq!(data.payload, 0..1000);
    let window = endpoint.get(id).unwrap().window();
    assert_eq!(window.cwnd, 10 * window.mss, "nothing was lost by congestion");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 60, ..ProptestConfig::default() })]

    /// Each octet arrives once and in order, whatever is lost, SYNs with octets included.
    #[test]
    fn octets_in_syns_survive_any_network(
        seed: u64,
        loss in 0u64..300,
        duplicate in 0u64..100,
        jitter in 0u64..60,
        sizes in (0u64..5_000, 0u64..5_000),
        timestamps: bool,
        sack: bool,
    ) {
        let config = TcpConfig { timestamps, sack, ..TcpConfig::default() };
        let faults = Faults {
            loss, duplicate, delay: 5 * MILLIS, jitter: jitter * MILLIS, ..Faults::NONE
        };
        let mut world = World::new(seed, Faults::NONE, config);
        let listener = ListenerConfig { fast_open: 100, ..ListenerConfig::new(PORT) };
        world.hosts[1].listen_with(listener, Job::new(sizes.1, sizes.0));
        for nth in 0..4 {
            let to = world.hosts[1].address;
            let id = world.hosts[0].connect(to, Job::new(sizes.0, sizes.1), world.now);
            world.hosts[0].endpoint.set_fast_open(id, world.now);
            world.run(world.now + 20 * SECOND, World::all_done);
            // The first one learns the cookie.
            world.set_faults(if nth < 3 { faults } else { Faults::NONE });
        }
        world.set_faults(Faults::NONE);
        let limit = world.now + 4000 * SECOND;
        prop_assert!(world.run(limit, World::all_done), "all arrives once the faults end");
        let failed = |at: usize| world.hosts[at].streams.iter().any(|it| it.failure.is_some());
        prop_assert!(!failed(0));
    }
}
