//! Attaching to a veth, and traffic over it, in namespaces of our own. Without the rights for it
//! each test says so and returns.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use weever_ebpf::sys::{AttachMode, BpfError, LiveFrames, LiveOutcome, XdpLink};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_ebpf::xdp::{Generator, GeneratorSettings, Order, Share, Span, Steer, drop_all, pass};
use weever_testbed::{Fixture, require_net_admin};

const PAYLOAD: &[u8] = b"eighteen bytes now";
const PORT: u16 = 7000;

fn settings(net: &Fixture) -> GeneratorSettings {
    GeneratorSettings {
        out_ifindex: net.veth.left.index,
        source_mac: net.veth.left.mac,
        destination_mac: net.veth.right.mac,
        sources: Span { first: Ipv4Addr::new(10, 77, 0, 100), count: 4 },
        destination: Fixture::RIGHT,
        source_ports: Span { first: 1000, count: 5 },
        destination_ports: Span::one(PORT),
        payload: PAYLOAD.to_vec(),
        udp_checksum: true,
        order: Order::RoundRobin,
    }
}

fn send(net: &Fixture, settings: &GeneratorSettings, repeat: u32) {
    let settings = settings.clone();
    let outcome = net.left.run(move || {
        let generator = Generator::load(&settings).unwrap();
        assert_eq!(generator.frame_len(), 42 + settings.payload.len());
        generator.run(LiveFrames { repeat, batch: 16 })
    });
    assert!(matches!(outcome, Ok(LiveOutcome::Finished(_))), "{outcome:?}");
}

#[test]
fn a_program_that_is_detached_is_noticed_and_attached_again() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.left.run(|| {
        let index = net.veth.left.index;
        let fallback = Fallback::To(Target::Pass);
        let mut classifier = Classifier::load(Sink::Count, fallback, 4).unwrap();
        assert!(!classifier.is_detached().unwrap(), "it never was attached");
        classifier.attach(index).unwrap();
        assert!(!classifier.is_detached().unwrap());
        classifier.link().unwrap().detach().unwrap();
        assert!(classifier.is_detached().unwrap());
        classifier.attach_again().unwrap();
        assert!(!classifier.is_detached().unwrap());
        net.veth.clone().delete().unwrap();
        assert!(classifier.is_detached().unwrap(), "the interface is gone");
    });
}

/// The kernel's own stack receives the generated frames: every flow, with checksums it accepts.
#[test]
fn generated_datagrams_reach_a_socket() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let program = pass().unwrap();
    let _link = net.right.run(|| XdpLink::attach(&program, net.veth.right.index)).unwrap();
    for (order, udp_checksum) in [(Order::RoundRobin, true), (Order::Random, false)] {
        let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, PORT))).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        send(&net, &GeneratorSettings { order, udp_checksum, ..settings(&net) }, 40);
        let senders: Vec<SocketAddr> = (0..40).map(|_| receive(&socket)).collect();
        let distinct: HashSet<_> = senders.iter().collect();
        if order == Order::RoundRobin {
            assert_eq!(distinct.len(), 20, "each flow twice");
        }
        assert!(senders.iter().all(|s| (1000..1005).contains(&s.port())), "{senders:?}");
        assert!(distinct.len() > 1);
    }
}

fn receive(socket: &UdpSocket) -> SocketAddr {
    let mut buffer = [0; 64];
    let (n, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], PAYLOAD);
    from
}

/// Frames for other hosts, or for us without a socket, are counted and left to the kernel.
#[test]
fn an_attached_steering_program_counts() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    let steer = Steer::load(Share::Address, 2).unwrap();
    steer.add_address(Fixture::RIGHT).unwrap();
    let link = net.right.run(|| steer.attach(net.veth.right.index)).unwrap();
    assert_eq!((link.mode(), link.ifindex()), (AttachMode::Native, net.veth.right.index));
    send(&net, &settings(&net), 100);
    let elsewhere =
        GeneratorSettings { destination: Ipv4Addr::new(10, 77, 0, 9), ..settings(&net) };
    send(&net, &elsewhere, 50);
    let counters = steer.counters().unwrap();
    assert_eq!(counters.redirected, 0);
    // The kernel sends a few frames of its own.
    assert!(counters.passed >= 150, "{counters:?}");
}

#[test]
fn a_link_holds_the_interface_until_it_is_dropped() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let index = net.veth.left.index;
    let (first, second) = (pass().unwrap(), drop_all().unwrap());
    net.left.run(|| {
        let link = XdpLink::attach(&first, index).unwrap();
        let busy = XdpLink::attach(&second, index).unwrap_err();
        assert!(matches!(busy, BpfError::Attach { mode: AttachMode::Native, .. }), "{busy}");
        assert!(busy.to_string().contains("another XDP program"), "{busy}");
        link.replace(&second).unwrap();
        drop(link);
        let link = XdpLink::attach_in(&second, index, AttachMode::Generic).unwrap();
        assert_eq!(link.mode(), AttachMode::Generic);
    });
}

#[test]
fn a_link_of_which_a_copy_lives_a_moment_longer_makes_way() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let program = pass().unwrap();
    net.left.run(|| {
        let link = XdpLink::attach(&program, net.veth.left.index).unwrap();
        // As a child has it between `fork` and `exec`.
        let copy = link.as_fd().try_clone_to_owned().unwrap();
        drop(link);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                drop(copy);
            });
            XdpLink::attach(&program, net.veth.left.index).unwrap();
        });
    });
}

#[test]
fn an_interface_that_does_not_exist_is_named() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let program = pass().unwrap();
    let error = net.left.run(|| XdpLink::attach(&program, 4_242)).unwrap_err();
    assert!(error.to_string().contains("interface 4242"), "{error}");
    assert!(error.to_string().contains("is there such an interface"), "{error}");
}

#[test]
fn a_program_that_native_mode_refuses_runs_in_generic_mode() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.veth.set_mtu(9000).unwrap();
    let program = pass().unwrap();
    let refused = net
        .left
        .run(|| XdpLink::attach_in(&program, net.veth.left.index, AttachMode::Native))
        .unwrap_err();
    assert!(refused.to_string().contains("MTU"), "{refused}");
    let link = net.left.run(|| XdpLink::attach(&program, net.veth.left.index)).unwrap();
    assert_eq!(link.mode(), AttachMode::Generic);
}

#[test]
fn live_frames_of_a_wrong_size_are_refused() {
    require_net_admin!();
    let program = drop_all().unwrap();
    for size in [3, 5000] {
        let error = program.run_live(&vec![0; size], LiveFrames::default()).unwrap_err();
        assert!(error.to_string().starts_with("test-run XDP program `weever_drop`"), "{error}");
    }
    let batch = program.run_live(&[0; 64], LiveFrames { repeat: 1, batch: 257 });
    assert!(batch.is_err());
}

#[test]
fn settings_that_make_no_sense_are_explained() {
    let valid = GeneratorSettings {
        out_ifindex: 1,
        source_mac: [0; 6],
        destination_mac: [0; 6],
        sources: Span::one(Ipv4Addr::LOCALHOST),
        destination: Ipv4Addr::LOCALHOST,
        source_ports: Span::one(1),
        destination_ports: Span::one(2),
        payload: Vec::new(),
        udp_checksum: false,
        order: Order::Random,
    };
    let cases = [
        GeneratorSettings { source_ports: Span { first: 65_535, count: 2 }, ..valid.clone() },
        GeneratorSettings { destination_ports: Span { first: 1, count: 0 }, ..valid.clone() },
        GeneratorSettings {
            sources: Span { first: Ipv4Addr::LOCALHOST, count: 0 },
            ..valid.clone()
        },
        GeneratorSettings { payload: vec![0; 3001], ..valid.clone() },
        GeneratorSettings {
            source_ports: Span { first: 0, count: 65_536 },
            destination_ports: Span { first: 0, count: 65_536 },
            ..valid
        },
    ];
    for case in cases {
        let error = Generator::load(&case).unwrap_err();
        assert!(matches!(&error, BpfError::Setting { what } if what.starts_with("generator: ")));
    }
}
