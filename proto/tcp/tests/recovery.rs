//! The repair of losses, and the window meanwhile.

mod sim;

use sim::{Faults, Job, MILLIS, SECOND, World};
use weever_tcp::congestion::Algorithm;
use weever_tcp::{EcnMode, ListenerConfig, TcpConfig};

const MSS: u64 = 1448;

/// A transfer of `size` octets with these packets of the sender's lost: the world behind it, and the
/// virtual time it took.
fn transfer(config: TcpConfig, faults: Faults, size: u64, lose: &[u64]) -> (World, u64) {
    let mut world = World::new(5, faults, config);
    world.nets[0].lose = lose.to_vec();
    world.open(Job::new(size, 0), Job::new(0, size));
    let (began, limit) = (world.now, world.now + 1000 * SECOND);
    let received = |world: &World| world.hosts[1].streams.first().is_some_and(|it| it.read == size);
    assert!(world.run(limit, received), "all arrives");
    let took = world.now - began;
    (world, took)
}

fn sent_again(world: &World, size: u64) -> u64 {
    world.nets[0].payload - size
}

#[test]
fn a_single_loss_costs_one_segment_and_a_few_round_trips() {
    let size = 100 * MSS;
    let (_, clean) = transfer(TcpConfig::default(), Faults::NONE, size, &[]);
    let (world, took) = transfer(TcpConfig::default(), Faults::NONE, size, &[20]);
    assert_eq!(sent_again(&world, size), MSS);
    // Besides, the window is smaller from then on.
    assert!(took <= clean + 85 * MILLIS, "{clean} {took}");
}

#[test]
fn many_losses_in_one_window_cost_no_timeout() {
    let size = 200 * MSS;
    // All of one window, with as many runs between them as one acknowledgement reports.
    let (world, took) =
        transfer(TcpConfig::default(), Faults::NONE, size, &[30, 32, 33, 40, 41, 42, 43]);
    assert_eq!(sent_again(&world, size), 7 * MSS);
    assert!(took < 400 * MILLIS, "{took}");
    // Without SACK one segment a round trip is repaired (RFC 6582), which takes longer.
    let config = TcpConfig { sack: false, ..TcpConfig::default() };
    let (world, slower) = transfer(config, Faults::NONE, size, &[30, 32, 33, 40, 41, 42, 43]);
    assert!((7 * MSS..20 * MSS).contains(&sent_again(&world, size)));
    assert!(slower > took, "{slower}");
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    // The 21st packet is lost, and so is the next with the same octets, found by its number.
    let size = 300 * MSS;
    let (world, _) = transfer(TcpConfig::default(), Faults::NONE, size, &[20]);
    let again = world.nets[0].sent;
    let mut found = false;
    for second in 35..60 {
        let (world, took) = transfer(TcpConfig::default(), Faults::NONE, size, &[20, second]);
        assert!(world.nets[0].sent >= again);
        assert_eq!(sent_again(&world, size), 2 * MSS, "whichever is lost besides");
        assert!(took < 600 * MILLIS, "{second}: {took}");
        found = true;
    }
    assert!(found);
}

#[test]
fn a_lost_tail_is_probed() {
    let size = 10 * MSS;
    // SYN, then ten segments, of which the last three are lost.
    let (world, took) = transfer(TcpConfig::default(), Faults::NONE, size, &[8, 9, 10]);
    assert!(sent_again(&world, size) >= 3 * MSS);
    // Two round trips of 20 ms until the probe, one until it is answered; the timeout would be 200 ms.
    assert!(took < 190 * MILLIS, "{took}");
}

#[test]
fn a_timeout_that_came_too_early_is_undone() {
    let config = TcpConfig { congestion: Algorithm::Reno, ..TcpConfig::default() };
    let mut world = World::new(5, Faults::NONE, config);
    let size = 3000 * MSS;
    world.open(Job::new(size, 0), Job::new(0, size));
    let until = world.now + 150 * MILLIS;
    world.run(until, |_| false);
    let window = |world: &World| {
        let host = &world.hosts[0];
        host.endpoint.get(host.streams[0].id).unwrap().window()
    };
    let before = window(&world).cwnd;
    // The path is suddenly longer by half a second.
    world.set_faults(Faults { delay: 500 * MILLIS, ..Faults::NONE });
    let until = world.now + 2 * SECOND;
    world.run(until, |_| false);
    assert!(window(&world).cwnd >= before, "{before} {:?}", window(&world));
    world.set_faults(Faults::NONE);
    let limit = world.now + 100 * SECOND;
    assert!(world.run(limit, |world| world.hosts[1].streams[0].read == size));
    assert_eq!(world.nets[0].lost, 0);
    assert!(sent_again(&world, size) < 20 * MSS, "{}", sent_again(&world, size) / MSS);
}

#[test]
fn reordering_is_not_loss() {
    let faults = Faults { jitter: 4 * MILLIS, delay: 20 * MILLIS, ..Faults::NONE };
    let size = 2000 * MSS;
    let (world, _) = transfer(TcpConfig::default(), faults, size, &[]);
    let share = sent_again(&world, size) * 100 / size;
    assert!(share < 10, "{share} of a hundred were sent twice");
}

#[test]
fn marks_keep_the_queue_short_and_nothing_is_lost() {
    let path = Faults {
        rate: 1_250_000,
        queue: 200 << 10,
        mark: 30 << 10,
        delay: 5 * MILLIS,
        ..Faults::NONE
    };
    for (congestion, ecn) in [
        (Algorithm::Dctcp, EcnMode::Dctcp),
        (Algorithm::Cubic, EcnMode::Request),
        (Algorithm::Reno, EcnMode::Request),
    ] {
        let config = TcpConfig { congestion, ecn, ..TcpConfig::default() };
        let size = 3_000_000;
        let (world, took) = transfer(config, path, size, &[]);
        assert_eq!(world.nets[0].lost, 0, "{congestion:?}");
        assert!(world.nets[0].marked > 0);
        // 3 MB at 1.25 MB/s and headers: the link is used well.
        assert!(took < 3200 * MILLIS, "{congestion:?}: {took}");
    }
}

#[test]
fn a_bottleneck_is_filled_and_shared() {
    let path = Faults { rate: 1_250_000, queue: 60 << 10, delay: 10 * MILLIS, ..Faults::NONE };
    for congestion in [Algorithm::Reno, Algorithm::Cubic] {
        let config = TcpConfig { congestion, ..TcpConfig::default() };
        let mut world = World::new(9, path, config);
        let size = 100_000_000;
        world.hosts[1].listen_with(ListenerConfig::new(sim::PORT), Job::new(0, size));
        let to = world.hosts[1].address;
        for _ in 0..2 {
            world.hosts[0].connect(to, Job::new(size, 0), world.now);
        }
        let until = world.now + 60 * SECOND;
        world.run(until, |_| false);
        let read: Vec<u64> = world.hosts[1].streams.iter().map(|stream| stream.read).collect();
        let (sum, most) = (read.iter().sum::<u64>(), *read.iter().max().unwrap());
        // 75 MB passed at most, with headers.
        assert!(sum > 64_000_000, "{congestion:?} {read:?}");
        assert!(most * 100 < sum * 70, "{congestion:?} {read:?}");
    }
}
