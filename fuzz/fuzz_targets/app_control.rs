//! Messages of a hostile application: each is answered or refused, never a panic; a parsed message
//! is the same after it has been written and read again; and its end takes along all that it opened.
#![no_main]

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use weever_app_ring::control::{Connection, Request, Response};
use weever_app_server::{AppLink, HostNetwork, Identity, Session};
use weever_link::Link;

struct OneInterface;

impl HostNetwork for OneInterface {
    fn interface(&self, name: &str) -> Option<u16> {
        (name == "eth0").then_some(0)
    }
    fn interface_name(&self, _: u16) -> Option<String> {
        Some("eth0".into())
    }
    fn interface_to(&self, _: IpAddr) -> Option<u16> {
        Some(0)
    }
    fn source_to(&self, address: IpAddr) -> Option<IpAddr> {
        address.is_ipv4().then_some(Ipv4Addr::LOCALHOST.into())
    }
    fn has_address(&self, address: IpAddr) -> bool {
        address.is_ipv4()
    }
    fn set_member(&self, _: u16, group: IpAddr, _: bool) -> Result<(), String> {
        if group.is_ipv6() { Err("no IPv6 here".into()) } else { Ok(()) }
    }
}

/// The request that the stack reads from a message.
fn understood(message: &[u8]) -> Option<Request> {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.write_all(message).expect("it fits into the socket");
    drop(ours);
    Connection::over(OwnedFd::from(theirs)).receive().ok().map(|(request, _)| request)
}

/// Memory for a queue takes longer to make than everything else here.
fn is_modest(request: &Request) -> bool {
    !matches!(request, Request::OpenQueue { ring_len, frames, frame_size, .. }
        if *ring_len > 64 || u64::from(*frames) * u64::from(*frame_size) > 1 << 16)
}

fuzz_target!(|data: &[u8]| {
    let (mut link, mut server) =
        AppLink::new(1, None, Box::new(OneInterface), [1, 2, 3, 4], 8).expect("descriptors");
    let mut queue = link.take_queues().remove(0);
    let identity = Identity { name: String::new(), pid: 1, uid: 1000 };
    let mut session = Session::new(identity);
    for line in data.split(|byte| *byte == b'\n').take(64).filter(|line| line.len() <= 16 << 10) {
        let Some(request) = understood(line) else { continue };
        let again = serde_json::to_vec(&request).expect("requests are JSON objects");
        assert_eq!(understood(&again).as_ref(), Some(&request));
        if !is_modest(&request) {
            continue;
        }
        let before = server.socket_count();
        let (response, descriptors) = session.answer(&mut server, request);
        queue.advance(0);
        if let Response::Refused { message, .. } = &response {
            assert!(!message.is_empty() && descriptors.is_empty());
            assert_eq!(server.socket_count(), before, "a refusal changes nothing");
        }
    }
    session.close(&mut server);
    queue.advance(0);
    assert_eq!((server.socket_count(), server.queues().count()), (0, 0));
    assert!(link.tables()[0].borrow().is_empty(), "no entry is left in the worker's table");
});
