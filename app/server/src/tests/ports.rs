//! Ports of addresses that are the kernel's.

use std::thread;

use weever_app_ring::STREAMS;
use weever_net::demux::PortRange;
use weever_net::stream::{StreamEvent, StreamRequest};

use super::streams::{Streams, here, streams};
use super::*;
use crate::{PortKeeper, TransportPort};

/// A keeper of ports that records each request, and refuses one port.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<Vec<String>>>);

const REFUSED: u16 = 22;

impl Kernel {
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl PortKeeper for Kernel {
    fn reserve(&mut self, port: TransportPort, own: Option<u32>) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("reserve {port} {own:?}"));
        if port.port == REFUSED { Err("sshd has it".into()) } else { Ok(()) }
    }
    fn take(&mut self, port: TransportPort) {
        self.0.lock().unwrap().push(format!("take {port}"));
    }
    fn keep(&mut self, port: TransportPort) {
        self.0.lock().unwrap().push(format!("keep {port}"));
    }
    fn give_back(&mut self, port: TransportPort) {
        self.0.lock().unwrap().push(format!("give back {port}"));
    }
}

fn sharing() -> (Streams, Kernel) {
    let (mut s, kernel) = (streams(), Kernel::default());
    let range = PortRange { first: 6000, last: 6009 };
    s.bench.server.share_ports(Box::new(kernel.clone()), range).unwrap();
    s.bench.server.set_ephemeral(range);
    (s, kernel)
}

impl Streams {
    /// The server does something while the worker turns, which carries out its changes.
    fn with_worker<T: Send>(&mut self, act: impl FnOnce(&mut AppServer) -> T + Send) -> T {
        let Bench { server, queue, .. } = &mut self.bench;
        thread::scope(|scope| {
            let acting = scope.spawn(|| act(server));
            while !acting.is_finished() {
                queue.advance(0);
                thread::yield_now();
            }
            acting.join().unwrap()
        })
    }

    fn settle(&mut self) {
        self.with_worker(AppServer::settle).unwrap();
    }

    /// Settles as if it were time to look for connections.
    fn look(&mut self) {
        self.with_worker(AppServer::look_at_ports).unwrap();
    }

    fn open_on(&mut self, port: Option<u16>, listens: bool) -> Result<u32, ServerError> {
        let backlog = listens.then_some(16);
        let request = SocketRequest { local_port: port, backlog, ..SocketRequest::default() };
        Ok(self.bench.server.open_socket(self.queue, &request)?.id)
    }

    /// The errno with which a connection from this port fails at once; `None` if the transport is asked for it.
    fn connect_from(&mut self, port: u16, number: u32) -> Option<u16> {
        let ends = PacketInfo { local: here(port), remote: peer(), ..PacketInfo::default() };
        let frame = self.app.alloc().unwrap().unwrap();
        self.app.submit_connect(frame, number, &ends).unwrap();
        self.turn();
        let asked = self.requests();
        if asked.iter().any(|asked| matches!(asked, StreamRequest::Connect { .. })) {
            return None;
        }
        loop {
            let received = self.app.receive().unwrap().expect("a word about it");
            if received.kind == Kind::Error && received.socket == number {
                return Some(received.offset);
            }
        }
    }
}

#[test]
fn a_port_is_reserved_first_and_taken_when_the_workers_know_it() {
    let (mut s, kernel) = sharing();
    let socket = s.open_on(Some(53), false).unwrap();
    assert_eq!(kernel.told(), ["reserve UDP port 53 None"]);
    s.settle();
    assert_eq!(kernel.told(), ["take UDP port 53"]);
    let refused = s.open_on(Some(REFUSED), true).unwrap_err().to_string();
    assert_eq!(refused, "TCP port 22: sshd has it");
    assert_eq!(kernel.told().len(), 1);
    assert_eq!(s.bench.server.socket_count(), 1, "nothing is left behind");
    assert!(s.open_on(Some(REFUSED), true).is_err(), "its binding is free, the kernel's is not");
    kernel.told();
    s.open_on(None, false).unwrap();
    s.settle();
    assert!(kernel.told().is_empty(), "ephemeral ports are the stack's from the beginning");
    s.bench.server.close_socket(s.queue, socket).unwrap();
    assert!(kernel.told().is_empty());
    s.settle();
    assert_eq!(kernel.told(), ["give back UDP port 53"]);
}

#[test]
fn a_port_outlives_its_listener_while_it_has_connections() {
    let (mut s, kernel) = sharing();
    let listener = s.open_on(Some(80), true).unwrap();
    s.settle();
    kernel.told();
    s.requests();
    let stream = s.port.accept(listener, here(80), peer()).unwrap();
    s.bench.server.close_socket(s.queue, listener).unwrap();
    s.settle();
    assert!(s.bench.server.awaits_connections() && kernel.told() == ["keep TCP port 80"]);
    let again = s.open_on(Some(80), true).unwrap();
    assert_eq!(kernel.told(), ["reserve TCP port 80 None"]);
    s.settle();
    s.bench.server.close_socket(s.queue, again).unwrap();
    s.port.tell(stream, StreamEvent::Closed);
    s.turn();
    s.settle();
    assert_eq!(kernel.told(), ["give back TCP port 80"]);
    assert!(!s.bench.server.awaits_connections());
}

#[test]
fn a_port_of_a_queue_is_held_until_its_connections_have_begun_and_were_closed() {
    let (mut s, kernel) = sharing();
    let port = 7000;
    s.bench.server.take_port(s.queue, port, true).unwrap();
    s.bench.server.take_port(s.queue, port, true).unwrap();
    s.settle();
    assert_eq!(s.connect_from(port, 1), None);
    let close = |s: &mut Streams, number| {
        assert!(s.app.request(Kind::Closed, number, 0).unwrap());
        s.turn();
        s.requests();
        s.look();
    };
    close(&mut s, 1);
    assert_eq!(kernel.told(), ["reserve TCP port 7000 Some(0)", "take TCP port 7000"]);
    assert_eq!(s.connect_from(port, 2), None, "it was asked for, and has not begun yet");
    s.look();
    assert!(kernel.told().is_empty(), "its application has it open");
    close(&mut s, 2);
    assert_eq!(kernel.told(), ["keep TCP port 7000"], "both connections are ending");
    assert_eq!(s.connect_from(port, 3), Some(99), "it has to be asked for anew");
    s.received();
    for stream in [STREAMS | 1, STREAMS | 2] {
        s.port.tell(stream, StreamEvent::Closed);
    }
    s.turn();
    s.look();
    assert_eq!(kernel.told(), ["give back TCP port 7000"]);
    assert!(!s.bench.server.awaits_connections());
}

#[test]
fn a_queue_with_all_its_ports_gets_others_once_it_has_closed_connections() {
    let (mut s, _) = sharing();
    let queue = s.queue;
    let take = |s: &mut Streams, port| s.with_worker(|server| server.take_port(queue, port, false));
    (0..1024).for_each(|i| take(&mut s, 10_000 + i).unwrap());
    assert!(matches!(take(&mut s, 20_000), Err(ServerError::Ports(1024))));
    assert_eq!(s.connect_from(10_000, 1), None);
    assert!(s.app.request(Kind::Closed, 1, 0).unwrap());
    s.turn();
    take(&mut s, 20_000).unwrap();
    assert!(take(&mut s, 20_001).is_err(), "one was closed");
}

#[test]
fn connections_begin_at_ports_of_the_stacks_only() {
    let (mut s, kernel) = sharing();
    s.settle();
    assert_eq!(s.connect_from(0, 1), None, "the transport chooses from the range");
    assert_eq!(s.connect_from(6009, 2), None);
    assert_eq!(s.connect_from(6010, 3), Some(99));
    let (queue, server) = (s.queue, &mut s.bench.server);
    assert!(server.take_port(queue, REFUSED, false).is_err());
    server.take_port(queue, 6010, true).unwrap();
    server.take_port(queue, 6010, true).unwrap();
    assert_eq!(kernel.told(), ["reserve TCP port 22 None", "reserve TCP port 6010 Some(0)"]);
    s.settle();
    assert_eq!(kernel.told(), ["take TCP port 6010"]);
    assert_eq!(s.connect_from(6010, 4), None);
    assert_eq!(s.connect_from(REFUSED, 5), Some(99));
}
