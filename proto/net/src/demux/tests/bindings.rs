//! Conflicts and ephemeral ports.

use std::collections::BTreeSet;
use std::string::ToString;
use std::vec::Vec;

use super::*;

fn bindings() -> Bindings {
    Bindings::new(PortRange::default(), [7, 8])
}

fn holder(socket: u32, user: u32) -> Holder {
    Holder { socket, owner: 1, user }
}

fn on(port: u16) -> Binding {
    Binding { local_port: Some(port), ..Binding::default() }
}

#[test]
fn a_conflict_names_the_holder() {
    let mut bindings = bindings();
    let one = Binding { local_addr: Some(v4(1)), ..on(53) };
    bindings.bind(one, Sharing::Exclusive, holder(7, 0)).unwrap();
    let error = bindings.bind(on(53), Sharing::Exclusive, holder(8, 0)).unwrap_err();
    assert_eq!(error.to_string(), "*:53 is in use: socket 7 of owner 1 has 192.0.2.1:53");
    // Another address, another port, another interface's packets are free.
    bindings
        .bind(Binding { local_addr: Some(v4(2)), ..on(53) }, Sharing::Exclusive, holder(8, 0))
        .unwrap();
    bindings.bind(on(54), Sharing::Exclusive, holder(8, 0)).unwrap();
    let everything = Binding::default();
    assert!(bindings.bind(everything, Sharing::Exclusive, holder(9, 0)).is_err());
    assert!(bindings.release(&one, 7));
    assert!(!bindings.release(&one, 7));
    bindings.bind(one, Sharing::Exclusive, holder(9, 0)).unwrap();
    assert_eq!(bindings.len(), 3);
}

#[test]
fn whoever_wants_every_port_is_held_against_everybody_and_the_reverse() {
    let mut bindings = bindings();
    bindings.bind(Binding::default(), Sharing::Exclusive, holder(1, 0)).unwrap();
    assert!(bindings.bind(on(53), Sharing::Exclusive, holder(2, 0)).is_err());
    // A connected socket is more specific.
    let peer = Binding { remote_addr: Some(v4(9)), remote_port: Some(9), ..on(53) };
    bindings.bind(peer, Sharing::Exclusive, holder(2, 0)).unwrap();
    assert!(bindings.bind(peer, Sharing::Exclusive, holder(3, 0)).is_err());
}

#[test]
fn sharing_needs_the_same_kind_and_for_a_division_the_same_user() {
    for (a, b, users, shared) in [
        (Sharing::Latest, Sharing::Latest, [1, 2], true),
        (Sharing::ByFlow, Sharing::ByFlow, [1, 1], true),
        (Sharing::ByFlow, Sharing::ByFlow, [1, 2], false),
        (Sharing::ByWorker, Sharing::ByWorker, [1, 1], true),
        (Sharing::ByFlow, Sharing::ByWorker, [1, 1], false),
        (Sharing::Latest, Sharing::Exclusive, [1, 1], false),
        (Sharing::Exclusive, Sharing::Exclusive, [1, 1], false),
    ] {
        let mut bindings = bindings();
        bindings.bind(on(53), a, holder(1, users[0])).unwrap();
        assert_eq!(bindings.bind(on(53), b, holder(2, users[1])).is_ok(), shared, "{a:?} {b:?}");
    }
}

#[test]
fn ephemeral_ports_are_all_used_once_and_then_there_are_none() {
    let range = PortRange { first: 60000, last: 60099 };
    let mut bindings = Bindings::new(range, [7, 8]);
    let mut ports = BTreeSet::new();
    for socket in 0..50 {
        let even = |port: u16| port.is_multiple_of(2);
        let wanted = Binding::default();
        let port =
            bindings.bind_ephemeral(wanted, Sharing::Exclusive, holder(socket, 0), even).unwrap();
        assert!(even(port) && (60000..=60099).contains(&port));
        assert!(ports.insert(port), "{port} was given out already");
    }
    let even = |port: u16| port.is_multiple_of(2);
    let error = bindings
        .bind_ephemeral(Binding::default(), Sharing::Exclusive, holder(99, 0), even)
        .unwrap_err();
    assert!(matches!(error, BindError::NoPort { first: 60000, last: 60099, .. }));
    // The same ports are free towards a peer of one's own.
    let peer = Binding { remote_addr: Some(v4(9)), remote_port: Some(9), ..Binding::default() };
    bindings.bind_ephemeral(peer, Sharing::Exclusive, holder(100, 0), even).unwrap();
}

#[test]
fn ports_towards_one_peer_do_not_tell_those_towards_another() {
    let mut bindings = bindings();
    let mut towards = |last: u8| -> Vec<i32> {
        let peer =
            Binding { remote_addr: Some(v4(last)), remote_port: Some(53), ..Binding::default() };
        (0..8)
            .map(|i| {
                let socket = holder(u32::from(last) << 8 | i, 0);
                bindings.bind_ephemeral(peer, Sharing::Exclusive, socket, |_| true).unwrap().into()
            })
            .collect()
    };
    let (a, b) = (towards(1), towards(2));
    let steps = |ports: &[i32]| ports.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>();
    assert_ne!(steps(&a), steps(&b), "the steps are random");
    assert_ne!(a[0], b[0], "the start depends on the peer");
}
