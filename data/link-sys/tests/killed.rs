//! A process that is killed while it owns a device leaves it usable.

mod common;

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{PATIENCE, config, open_left, pool, receive};
use weever_link::Link;
use weever_link_sys::af_xdp::AfXdp;
use weever_testbed::{Fixture, require_net_admin};

/// Set for the process that is to be killed.
const ROLE: &str = "WEEVER_TEST_HOLDS_DEVICE";
const READY: &str = "the device is mine";

/// Not a test of its own: the part of the process to be killed. Elsewhere it does nothing.
#[test]
fn holds_the_device_until_it_is_killed() {
    let Ok(interface) = std::env::var(ROLE) else { return };
    let pool = pool(1024);
    let mut link = AfXdp::open(&config(&interface, &pool)).unwrap();
    let (mut queue, mut cache) = (link.take_queues().remove(0), pool.cache());
    println!("{READY}");
    // Should it not be killed.
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        receive(&mut *queue, &mut cache).into_iter().for_each(|packet| cache.free(packet));
    }
}

/// This very program, in the left namespace, with the device in its hands.
fn holder(net: &Fixture) -> Child {
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "holds_the_device_until_it_is_killed", "--nocapture"]);
        command.env(ROLE, "left0").stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut child = net.left.run(start);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains(READY));
    assert!(ready, "the holder opened the device");
    child
}

#[test]
fn a_killed_process_leaves_the_device_to_the_kernel_and_to_the_next() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let receiver = net.left.run(|| UdpSocket::bind((Fixture::LEFT, 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let sender = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0))).unwrap();
    net.veth.right.add_neighbour(Fixture::LEFT, net.veth.left.mac).unwrap();
    let sent = Cell::new(0u8);
    let arrives = || {
        sent.set(sent.get().wrapping_add(1));
        sender.send_to(&[sent.get()], receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 10];
        // Earlier ones may be late.
        while receiver.recv_from(&mut buffer).is_ok() {
            if buffer[0] == sent.get() {
                return true;
            }
        }
        false
    };
    let await_arrival = |when: &str| {
        let end = Instant::now() + PATIENCE;
        while !arrives() {
            assert!(Instant::now() < end, "{when}");
        }
    };
    await_arrival("before");
    let mut child = holder(&net);
    assert!(!arrives(), "while the device is taken");
    child.kill().unwrap();
    child.wait().unwrap();
    await_arrival("the kernel has its device back");
    let pool = pool(1024);
    drop(open_left(&net, &config("left0", &pool)).unwrap());
}
