//! A stack with two workers that a policy steers, and clients in the other namespace.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Share};
use weever_service_api::{Client, FlowStatus, Flows, FlowsRequest, Queues, QueuesRequest};
use weever_testbed::Fixture;

use super::temporary_path;

pub(crate) const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
pub(crate) const ECHO: u16 = 7;

pub(crate) fn file(text: &str) -> PathBuf {
    let path = temporary_path();
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn config(policy: &str, flows: Option<&str>, share: Share) -> Config {
    let mut interface = Interface::new("left0", vec![format!("{STACK}/24").parse().unwrap()]);
    interface.share = share;
    let mut config = Config::of(vec![interface]);
    config.services.echo = Some(ECHO);
    config.control = Some(temporary_path());
    config.pool.frames = 8192;
    config.probe = false;
    // Two workers, wherever they run.
    config.cores = two_cores();
    config.policy = Some(file(policy));
    config.flows = flows.map(file);
    config
}

pub(crate) fn two_cores() -> Vec<usize> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    vec![0, 1.min(count - 1)]
}

pub(crate) struct Bench {
    pub(crate) stack: Stack,
    pub(crate) net: Fixture,
}

impl Bench {
    pub(crate) fn start(config: Config) -> Bench {
        let net = Fixture::pair(2).unwrap();
        net.assign_addresses().unwrap();
        let stack = net.left.run(|| Stack::start(config)).unwrap();
        Bench { stack, net }
    }

    pub(crate) fn client(&self, port: u16) -> UdpSocket {
        let socket = self.net.right.run(|| UdpSocket::bind((Fixture::RIGHT, port))).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.connect((STACK, ECHO)).unwrap();
        socket
    }

    /// A busy machine may take long to answer.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&mut Client) -> T) -> T {
        let path = self.stack.control_path().unwrap();
        question(&mut Client::connect_within(path, Duration::from_secs(60)).unwrap())
    }

    pub(crate) fn flows(&self) -> Flows {
        self.ask(|client| client.call(&FlowsRequest { most: 100 }).unwrap())
    }

    pub(crate) fn queues(&self) -> Queues {
        self.ask(|client| client.call(&QueuesRequest { filters: 10 }).unwrap())
    }

    /// The workers' counters, once no more packets come: workers publish them a few times a second.
    pub(crate) fn settled(&self) -> Queues {
        let mut last = self.queues();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let now = self.queues();
            let received = |queues: &Queues| -> Vec<u64> {
                queues.queues.iter().map(|queue| queue.received).collect()
            };
            if received(&now) == received(&last) {
                return now;
            }
            last = now;
        }
    }

    /// Sends echoes until the stack's report of the flow is as wanted.
    pub(crate) fn await_flow(
        &self,
        client: &UdpSocket,
        wanted: impl Fn(&FlowStatus) -> bool,
    ) -> FlowStatus {
        let port = client.local_addr().unwrap().port();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            echo(client, 50);
            let flows = self.flows();
            let from = format!(":{port} ->");
            let found = flows.flows.iter().find(|flow| flow.name.contains(&from) && wanted(flow));
            match found {
                Some(flow) => return flow.clone(),
                None => assert!(Instant::now() < end, "port {port}: {flows:?}"),
            }
        }
    }
}

/// So many echoes; one may be late or lost while the link settles.
pub(crate) fn echo(client: &UdpSocket, count: usize) -> usize {
    let mut buffer = [0; 100];
    let come_back =
        |i: &usize| client.send(&i.to_be_bytes()).is_ok() && client.recv(&mut buffer).is_ok();
    (0..count).filter(come_back).count()
}
