//! What a stack inside a program tells and hears of a kernel at the other end of a cable, apart from plain
//! datagrams: groups, everybody, errors, and its own sockets.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use weever_app_library::{QueueConfig, Stack};
use weever_app_sockets::{AppQueue, Error, Event, Fragment, SendOptions};
use weever_testbed::{Fixture, require_net_admin};

const PATIENCE: Duration = Duration::from_secs(10);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const PORT: u16 = 5353;
const ECONNREFUSED: u16 = 111;
const EMSGSIZE: u16 = 90;

fn net() -> Fixture {
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    net
}

fn stack() -> Stack {
    let path = "library:dev=left0,addr=10.77.0.10/24,share=none".into();
    Stack::open(&QueueConfig { path, ..QueueConfig::default() }).unwrap()
}

fn any(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

/// A socket of the kernel's at the far end.
fn kernel(net: &Fixture, port: u16) -> UdpSocket {
    let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, port)).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn next(queue: &AppQueue) -> Event<'_> {
    loop {
        queue.commit().unwrap();
        if let Some(event) = queue.next().unwrap() {
            return event;
        }
        assert!(queue.wait(Some(PATIENCE)).unwrap(), "nothing came");
    }
}

fn datagram(queue: &AppQueue) -> (Vec<u8>, SocketAddr, bool) {
    match next(queue) {
        Event::Datagram(datagram) => {
            (datagram.to_vec(), datagram.remote(), datagram.info().is_group())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_goes_to_a_group_reaches_members_at_both_ends() {
    require_net_admin!();
    let net = net();
    let (sender, member) = (kernel(&net, 4000), {
        let socket = net.right.run(|| UdpSocket::bind(any(PORT)).unwrap());
        net.right.run(|| socket.join_multicast_v4(&GROUP, &Fixture::RIGHT).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    net.left.run(move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let ours = queue.bind_udp(any(PORT)).unwrap();
        // Nobody hears a group without having joined it: the datagram behind it comes first.
        sender.send_to(b"too early", (GROUP, PORT)).unwrap();
        sender.send_to(b"to one", (OURS, PORT)).unwrap();
        let (payload, remote, is_group) = datagram(&queue);
        assert_eq!((payload.as_slice(), remote.port(), is_group), (&b"to one"[..], 4000, false));
        queue.join(ours, GROUP.into(), Some("left0")).unwrap();
        sender.send_to(b"to the group", (GROUP, PORT)).unwrap();
        let (payload, remote, is_group) = datagram(&queue);
        assert_eq!(
            (payload.as_slice(), remote.port(), is_group),
            (&b"to the group"[..], 4000, true)
        );

        // The kernel's member has heard the first two by itself; then ours, which comes back here, too.
        let mut space = [0; 100];
        for heard in [&b"too early"[..], b"to the group"] {
            let (len, _) = member.recv_from(&mut space).unwrap();
            assert_eq!(&space[..len], heard);
        }
        let options = SendOptions { interface: 1, ..SendOptions::default() };
        queue.send_to(ours, b"from us", (GROUP, PORT).into(), options).unwrap();
        assert_eq!(datagram(&queue).0, b"from us");
        let (len, from) = member.recv_from(&mut space).unwrap();
        assert_eq!((&space[..len], from), (&b"from us"[..], (OURS, PORT).into()));
        queue
            .send_to(
                ours,
                b"not to us",
                (GROUP, PORT).into(),
                SendOptions { no_loop: true, ..options },
            )
            .unwrap();
        queue.commit().unwrap();
        let (len, _) = member.recv_from(&mut space).unwrap();
        assert_eq!(&space[..len], b"not to us");

        queue.leave(ours, GROUP.into(), Some("left0")).unwrap();
        sender.send_to(b"too late", (GROUP, PORT)).unwrap();
        sender.send_to(b"to one", (OURS, PORT)).unwrap();
        assert_eq!(datagram(&queue).0, b"to one");
    });
}

#[test]
fn errors_reach_the_socket_that_they_are_about() {
    require_net_admin!();
    let net = net();
    let client = kernel(&net, 0);
    net.left.run(move || {
        let stack = stack();
        let queue = stack.queue().unwrap();
        let other = queue.bind_udp(any(PORT)).unwrap();
        let ours = queue.connect_udp(any(0), (Fixture::RIGHT, 9).into()).unwrap();
        queue.send(ours, b"nobody is there").unwrap();
        assert!(matches!(next(&queue), Event::Error(socket, ECONNREFUSED, Some(cause)) if {
            let quoted = cause.message().ends_with(b"nobody is there");
            let ends = (cause.sender(), cause.remote());
            socket == ours && quoted && ends == (Some(Fixture::RIGHT.into()), (Fixture::RIGHT, 9).into())
        }));
        let whole = SendOptions { fragment: Fragment::Never, ..SendOptions::default() };
        queue.send_to(other, &[7; 3000], (Fixture::RIGHT, 9).into(), whole).unwrap();
        assert!(matches!(next(&queue), Event::Error(socket, EMSGSIZE, Some(cause)) if {
            socket == other && cause.sender().is_none() && cause.mtu() == 1500
        }));

        // The kernel's programs are told in the same way of ports that nobody here has.
        client.connect((OURS, 9)).unwrap();
        client.send(b"nobody is there").unwrap();
        let error = std::thread::spawn(move || client.recv(&mut [0; 8]).unwrap_err());
        // The stack answers while its thread waits.
        while !error.is_finished() {
            queue.wait(Some(Duration::from_millis(5))).unwrap();
        }
        assert_eq!(error.join().unwrap().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn sockets_of_one_stack_talk_beside_the_cable() {
    require_net_admin!();
    let net = net();
    net.left.run(move || {
        let stack = stack();
        let (one, two) = (stack.queue().unwrap(), stack.queue().unwrap());
        let (ours, _) = (one.bind_udp(any(0)).unwrap(), two.bind_udp(any(PORT)).unwrap());
        one.send_to(ours, b"question", (OURS, PORT).into(), SendOptions::default()).unwrap();
        one.commit().unwrap();
        let Event::Datagram(question) = next(&two) else { panic!("no datagram") };
        assert_eq!(question.to_vec(), b"question");
        assert_eq!(question.remote(), (OURS, one.local_port(ours).unwrap()).into());
        question.reply().unwrap();
        two.commit().unwrap();
        assert_eq!(datagram(&one).0, b"question");
        assert!(matches!(two.bind_udp(any(PORT)), Err(Error::Refused { .. })));
    });
}
