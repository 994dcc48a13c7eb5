//! Two of weever's endpoints with a network between them.

mod sim;

use proptest::prelude::*;
use sim::{Faults, Job, MILLIS, SECOND, World};
use weever_tcp::congestion::Algorithm;
use weever_tcp::{EcnMode, Failure, State, TcpConfig};

/// Both ends and the state of both streams, after at most `limit`.
fn exchange(world: &mut World, client: Job, server: Job, limit: u64) -> bool {
    world.open(client, server);
    let limit = world.now + limit;
    world.run(limit, World::all_done)
}

#[test]
fn a_stream_arrives_whole_both_ways() {
    let mut world = World::new(1, Faults::NONE, TcpConfig::default());
    let done =
        exchange(&mut world, Job::new(300_000, 200_000), Job::new(200_000, 300_000), 60 * SECOND);
    assert!(done);
    assert_eq!(world.nets[0].lost + world.nets[1].lost, 0);
    // Nothing was sent twice.
    assert_eq!((world.nets[0].payload, world.nets[1].payload), (300_000, 200_000));
    // Both sides forget the connection in the end: the one that closed first after TIME-WAIT.
    let limit = world.now + 200 * SECOND;
    let over = |world: &World| {
        let states = world
            .hosts
            .iter()
            .flat_map(|host| host.endpoint.ids().map(|id| host.endpoint.get(id).unwrap().state()));
        states.into_iter().all(|state| state == State::Closed)
    };
    assert!(world.run(limit, over));
    for host in &mut world.hosts {
        let ids: Vec<_> = host.endpoint.ids().collect();
        ids.into_iter().for_each(|id| host.endpoint.close(id, world.now));
        assert_eq!((host.endpoint.len(), host.endpoint.memory()), (0, 0));
    }
}

#[test]
fn a_stream_arrives_over_ipv6() {
    let config = TcpConfig::default();
    let mut world = World::with(2, [Faults::NONE; 2], [config.clone(), config], true);
    assert!(exchange(&mut world, Job::new(100_000, 0), Job::new(0, 100_000), 60 * SECOND));
}

#[test]
fn super_segments_are_cut_and_joined() {
    let config = TcpConfig { super_segment: 65_535, ..TcpConfig::default() };
    let mut world = World::new(3, Faults::NONE, config);
    let size = 4_000_000;
    assert!(exchange(&mut world, Job::new(size, 0), Job::new(0, size), 100 * SECOND));
    let (cut, packets, joined) = (world.hosts[0].cut, world.hosts[0].sent, world.hosts[1].joined);
    // 2,763 full segments; windows of ten and more leave in one piece.
    assert!(cut > 0 && cut < packets / 8, "{cut} of {packets}");
    assert!(joined > packets / 2, "{joined} of {packets}");
    assert_eq!(world.nets[0].payload, size, "nothing was sent twice");
}

#[test]
fn a_region_that_limits_its_peer_grows_and_one_that_does_not_stays() {
    let took = |most: u32| {
        let small = TcpConfig {
            receive_capacity: 20_000,
            max_receive_capacity: most,
            ..TcpConfig::default()
        };
        let path = Faults { delay: 50 * MILLIS, ..Faults::NONE };
        let mut world = World::new(4, path, small);
        let (size, began) = (3_000_000, world.now);
        assert!(exchange(&mut world, Job::new(size, 0), Job::new(0, size), 1000 * SECOND));
        world.now - began
    };
    // 150 round trips of 100 ms with 20 kB each; with a region that doubles each round trip, some ten.
    assert!(took(20_000) > 14 * SECOND && took(4 << 20) < 5 * SECOND);
}

fn faults() -> impl Strategy<Value = Faults> {
    let losses = (0u64..150, 0u64..20, 1u64..10);
    let others = (0u64..100, 0u64..50);
    let times = (0u64..100, 0u64..60);
    let rates = prop_oneof![Just(0u64), 20_000u64..2_000_000];
    (losses, others, times, rates).prop_map(
        |((loss, burst, burst_len), (duplicate, corrupt), (delay, jitter), rate)| Faults {
            loss,
            burst,
            burst_len,
            duplicate,
            corrupt,
            delay: delay * MILLIS + 1000,
            jitter: jitter * MILLIS,
            rate,
            queue: 64 << 10,
            mark: 20 << 10,
            ..Faults::NONE
        },
    )
}

fn config() -> impl Strategy<Value = TcpConfig> {
    let algorithm =
        prop_oneof![Just(Algorithm::Reno), Just(Algorithm::Cubic), Just(Algorithm::Dctcp)];
    let ecn = prop_oneof![
        Just(EcnMode::Off),
        Just(EcnMode::Accept),
        Just(EcnMode::Request),
        Just(EcnMode::Dctcp)
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let supers = prop_oneof![Just(0u32), 1000u32..70_000];
    (algorithm, ecn, flags, 200u16..9000, 600u32..500_000, supers).prop_map(
        |(congestion, ecn, (timestamps, sack, scaling, pacing), mtu, capacity, supers)| TcpConfig {
            congestion,
            ecn,
            timestamps,
            sack,
            window_scaling: scaling,
            pacing,
            mtu,
            receive_capacity: capacity,
            super_segment: supers,
            user_timeout: 100_000 * SECOND,
            connect_timeout: 100_000 * SECOND,
            ..TcpConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 100, ..ProptestConfig::default() })]

    /// The received octets are a prefix of the sent ones (the application checks each octet), and
    /// all of it once the faults have ended.
    #[test]
    fn the_stream_survives_any_network(
        seed: u64,
        there in faults(),
        back in faults(),
        client in config(),
        server in config(),
        sizes in (0u64..150_000, 0u64..150_000),
        write in 1u64..20_000,
        read in 500u64..50_000,
        pause in prop_oneof![Just(0), 1u64..300],
        no_delay: bool,
        faulty in 1u64..60,
    ) {
        let mut world = World::with(seed, [there, back], [client, server], false);
        let (out, back) = sizes;
        let job = |send, expect| Job {
            write, read, pause: pause * MILLIS, no_delay, ..Job::new(send, expect)
        };
        world.open(job(out, back), job(back, out));
        let until = world.now + faulty * SECOND;
        world.run(until, World::all_done);
        world.set_faults(Faults::NONE);
        let limit = world.now + 4000 * SECOND;
        let done = world.run(limit, World::all_done);
        prop_assert!(done, "all arrives once the faults end");
        for stream in world.hosts.iter().flat_map(|host| &host.streams) {
            prop_assert_eq!(stream.failure, None);
        }
    }
}

#[test]
fn nobody_there_is_refused_and_silence_times_out() {
    let mut world = World::new(3, Faults::NONE, TcpConfig::default());
    let to = world.hosts[1].address;
    world.hosts[0].connect(to, Job::new(10, 0), world.now);
    world.run(10 * SECOND, |_| false);
    assert_eq!(world.hosts[0].streams[0].failure, Some(Failure::Refused));

    let mut world = World::new(3, Faults { loss: 1000, ..Faults::NONE }, TcpConfig::default());
    let to = world.hosts[1].address;
    world.hosts[0].connect(to, Job::new(10, 0), world.now);
    world.run(170 * SECOND, |_| false);
    assert_eq!(world.hosts[0].streams[0].failure, None);
    world.run(400 * SECOND, |_| false);
    assert_eq!(world.hosts[0].streams[0].failure, Some(Failure::TimedOut));
    // SYNs were sent after 0, 1, 3, 7, 15, ... seconds.
    assert!((7..=8).contains(&world.nets[0].sent), "{}", world.nets[0].sent);
}
