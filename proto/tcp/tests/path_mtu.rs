//! The segment size on paths that take less than the first link (RFC 4821), and none that say so.

mod sim;

use sim::{Faults, Job, MILLIS, SECOND, World};
use weever_tcp::{TcpConfig, Tuple};

/// IPv4 and TCP headers, without options.
const HEADERS: u32 = 40;
/// Timestamps.
const OPTIONS: u32 = 12;
const SIZE: u64 = 1 << 32;
/// A path that takes a window of 32 KiB in a round trip of 100 ms.
const PATH: Faults = Faults { delay: 50 * MILLIS, ..Faults::NONE };
/// The same in a second, for hours of transfer in few packets.
const SLOW: Faults = Faults { delay: 500 * MILLIS, ..Faults::NONE };

/// A transfer without an end, after its first seconds.
fn world(config: TcpConfig) -> World {
    let capacity = 32 << 10;
    let config = TcpConfig { receive_capacity: capacity, max_receive_capacity: capacity, ..config };
    let mut world = World::new(7, PATH, config);
    world.open(Job::new(SIZE, 0), Job::new(0, SIZE));
    pass(&mut world, 4 * SECOND);
    assert_eq!(size(&world), 1460);
    world
}

fn tuple(world: &World) -> Tuple {
    let host = &world.hosts[0];
    *host.endpoint.get(host.streams[0].id).unwrap().tuple()
}

fn pass(world: &mut World, time: u64) {
    let until = world.now + time;
    world.run(until, |_| false);
}

/// Octets of a full segment, with options.
fn size(world: &World) -> u32 {
    let host = &world.hosts[0];
    host.endpoint.get(host.streams[0].id).unwrap().window().mss + OPTIONS
}

/// Whether the window was ever reduced.
fn is_reduced(world: &World) -> bool {
    let host = &world.hosts[0];
    host.endpoint.get(host.streams[0].id).unwrap().window().ssthresh != u32::MAX
}

fn configs() -> [TcpConfig; 2] {
    let supers = TcpConfig { super_segment: 16 << 10, ..TcpConfig::default() };
    [TcpConfig::default(), supers]
}

#[test]
fn the_longest_segments_that_pass_are_found() {
    for (config, mtu) in configs().into_iter().zip([1000, 1400]) {
        let mut world = world(config);
        world.set_faults(Faults { mtu, ..PATH });
        pass(&mut world, 4 * SECOND);
        let shrunk = world.nets[0].lost;
        assert!(size(&world) < mtu as u32 - HEADERS, "{}", size(&world));
        pass(&mut world, 20 * SECOND);
        let most = mtu as u32 - HEADERS;
        assert!((most - 16..=most).contains(&size(&world)), "{} of {most}", size(&world));
        // A probe for each halving, and none for ten minutes after that.
        assert!(
            (1..=8).contains(&(world.nets[0].lost - shrunk)),
            "{}",
            world.nets[0].lost - shrunk
        );
        let lost = world.nets[0].lost;
        pass(&mut world, 60 * SECOND);
        assert_eq!(world.nets[0].lost, lost);
    }
}

#[test]
fn after_another_disturbance_segments_are_soon_as_long_as_before() {
    for config in configs() {
        let mut world = world(config);
        world.set_faults(Faults { mtu: 300, ..PATH });
        pass(&mut world, 3 * SECOND);
        assert_eq!(size(&world), 536 + OPTIONS);
        world.set_faults(PATH);
        pass(&mut world, 10 * SECOND);
        assert_eq!(size(&world), 1460);
    }
}

#[test]
fn a_probe_that_is_lost_costs_no_window() {
    let mut world = world(TcpConfig::default());
    world.set_faults(SLOW);
    pass(&mut world, 10 * SECOND);
    let (now, tuple, seq) = (world.now, tuple(&world), world.nets[0].last_sent);
    assert!(world.hosts[0].endpoint.handle_mtu(&tuple, seq, 1000, now));
    assert_eq!(size(&world), 960);
    world.set_faults(Faults { mtu: 1000, ..SLOW });
    pass(&mut world, 10 * SECOND);
    let lost = world.nets[0].lost;
    // Only later are longer ones tried than a router has named.
    pass(&mut world, 600 * SECOND);
    assert_eq!((size(&world), world.nets[0].lost), (960, lost));
    pass(&mut world, 120 * SECOND);
    assert!(world.nets[0].lost > lost, "longer ones were tried");
    assert!(size(&world) == 960 && !is_reduced(&world));
    // The path takes all by now, which is found at the next time.
    world.set_faults(SLOW);
    pass(&mut world, 700 * SECOND);
    assert_eq!(size(&world), 1460);
}

#[test]
fn a_router_names_the_size_that_a_probe_exceeded() {
    let mut world = world(TcpConfig::default());
    world.set_faults(Faults { mtu: 300, ..PATH });
    pass(&mut world, 3 * SECOND);
    world.set_faults(Faults { mtu: 1300, ..PATH });
    let lost = world.nets[0].lost;
    let limit = world.now + 10 * SECOND;
    assert!(world.run(limit, |world| world.nets[0].lost > lost), "a probe is lost");
    let too_long = world.nets[0].last_lost.unwrap();
    let (now, tuple) = (world.now, tuple(&world));
    assert!(world.hosts[0].endpoint.handle_mtu(&tuple, too_long, 1300, now));
    pass(&mut world, SECOND);
    assert_eq!(size(&world), 1260, "in one step, and without another loss");
    assert_eq!(world.nets[0].lost, lost + 1);
}
