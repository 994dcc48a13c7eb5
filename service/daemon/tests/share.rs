//! Sharing a device with the kernel: its addresses with `share = ports`, and following changes of
//! the device in every mode.

mod common;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use common::temporary_path;
use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Share};
use weever_service_api::{Changed, Client, InterfaceStatus, SetRequest};
use weever_testbed::{Fixture, Namespace, require_net_admin};

const ECHO: u16 = 7;
const OTHER: u16 = 7777;
const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);

fn sharing(share: Share) -> Config {
    let addresses = match share {
        Share::Ports => Vec::new(),
        _ => vec![format!("{STACK}/24").parse().unwrap()],
    };
    let mut interface = Interface::new("left0", addresses);
    interface.share = share;
    let mut config = Config::of(vec![interface]);
    config.services.echo = Some(ECHO);
    config.control = Some(temporary_path());
    config.pool.frames = 4096;
    config.probe = false;
    config
}

fn start(net: &Fixture, share: Share) -> Stack {
    net.left.run(|| Stack::start(sharing(share))).unwrap()
}

fn socket(namespace: &Namespace, address: Ipv4Addr, port: u16) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((address, port))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// The outcome of a datagram of that length: an echo, a port unreachable, or nothing.
fn sent(from: &UdpSocket, to: (Ipv4Addr, u16), length: usize) -> Result<(), ErrorKind> {
    let payload: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
    from.connect(to).map_err(|error| error.kind())?;
    let mut buffer = vec![0; 10_000];
    // Late answers to earlier tries.
    from.set_nonblocking(true).unwrap();
    while from.recv(&mut buffer).is_ok() {}
    from.set_nonblocking(false).unwrap();
    from.send(&payload).map_err(|error| error.kind())?;
    let n = from.recv(&mut buffer).map_err(|error| error.kind())?;
    assert_eq!(&buffer[..n], payload);
    Ok(())
}

/// Tries until there is an echo.
fn await_echo(from: &UdpSocket, to: (Ipv4Addr, u16), length: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(kind) = sent(from, to, length) {
        assert!(Instant::now() < end, "no echo from {to:?}: {kind}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tries until the kernel says that nobody is there.
fn await_refusal(from: &UdpSocket, to: (Ipv4Addr, u16)) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match sent(from, to, 10) {
            Err(ErrorKind::ConnectionRefused) => return,
            other => assert!(Instant::now() < end, "not refused at {to:?}: {other:?}"),
        }
    }
}

/// Waits until the interface is seen as it has to be.
fn await_status(stack: &Stack, what: &str, seen: impl Fn(&InterfaceStatus) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !seen(&stack.status().interfaces[0]) {
        assert!(Instant::now() < end, "not {what}: {:?}", stack.status().interfaces);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A counter of a node's own.
fn own(stack: &Stack, node: &str, name: &str) -> u64 {
    let counters = stack.counters();
    let node = counters.nodes.iter().find(|n| n.name == node).expect("the node is there");
    node.own.iter().find(|c| c.name == name).expect("the counter is there").value
}

fn set(stack: &Stack, assignment: &str) -> Result<Changed, String> {
    let mut client = Client::connect(stack.control_path().unwrap()).unwrap();
    client.call(&assignment.parse::<SetRequest>().unwrap()).map_err(|error| error.to_string())
}

#[test]
fn ports_are_taken_from_the_kernels_address_and_the_rest_is_not_touched() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    // The kernel on the stack's side does not hear of the other end by being asked.
    net.veth.right.add_neighbour(Fixture::LEFT, net.veth.left.mac).unwrap();
    let stack = start(&net, Share::Ports);
    let client = socket(&net.right, Fixture::RIGHT, 0);
    await_echo(&client, (Fixture::LEFT, ECHO), 100);
    for length in [0, 1, 1000, 1472] {
        await_echo(&client, (Fixture::LEFT, ECHO), length);
    }
    let [asked, announced] =
        ["requests", "announcements"].map(|name| own(&stack, "TxL3ARPTimer", name));
    assert_eq!((asked, announced, own(&stack, "TxL3ARPLookup_", "requests")), (0, 0, 0));

    // Ports without a service are the kernel's: other ports, closed ones, and ping.
    let kernel = socket(&net.left, Fixture::LEFT, 9000);
    kernel.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket(&net.right, Fixture::RIGHT, 0).send_to(b"kernel", (Fixture::LEFT, 9000)).unwrap();
    assert_eq!(kernel.recv(&mut [0; 100]).unwrap(), 6);
    await_refusal(&client, (Fixture::LEFT, OTHER));
    let ping = |ns: &Namespace, to: Ipv4Addr| {
        let mut ping = Command::new("ping");
        ping.args(["-c", "2", "-i", "0.01", "-W", "10", &to.to_string()]);
        ns.run(|| ping.output())
    };
    match ping(&net.right, Fixture::LEFT) {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => println!("skipped: needs ping"),
    }
    // Services that come and go take their ports and give them back.
    set(&stack, &format!("services.echo={OTHER}")).unwrap();
    await_echo(&client, (Fixture::LEFT, OTHER), 10);
    await_refusal(&client, (Fixture::LEFT, ECHO));
    set(&stack, "services.echo=none").unwrap();
    await_refusal(&client, (Fixture::LEFT, OTHER));
    // A port of a kernel's socket is taken too, and the answer names its process.
    let notes = set(&stack, "services.discard=9000").unwrap().notes;
    let process = format!("(pid {})", std::process::id());
    assert!(notes[0].contains("UDP port 9000 is taken from") && notes[0].contains(&process));
    let error = set(&stack, "interface.left0.addr=10.77.0.9/24").unwrap_err();
    assert!(error.contains("the kernel's"), "{error}");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn what_becomes_of_the_kernels_addresses_and_routes_becomes_of_the_stacks() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let stack = start(&net, Share::Ports);
    net.assign_addresses().unwrap();
    let near = socket(&net.right, Fixture::RIGHT, 0);
    await_echo(&near, (Fixture::LEFT, ECHO), 100);
    // A network behind the other end, to which the kernel learns the way.
    let far = Ipv4Addr::new(10, 99, 0, 1);
    net.right.add_address("right0", far, 32).unwrap();
    net.left.add_route(Ipv4Addr::new(10, 99, 0, 0), 16, Fixture::RIGHT).unwrap();
    await_echo(&socket(&net.right, far, 0), (Fixture::LEFT, ECHO), 100);
    let (second, peer) = (Ipv4Addr::new(10, 78, 0, 1), Ipv4Addr::new(10, 78, 0, 2));
    net.left.add_address("left0", second, 24).unwrap();
    net.right.add_address("right0", peer, 24).unwrap();
    await_echo(&socket(&net.right, peer, 0), (second, ECHO), 100);
    let addresses = &stack.status().interfaces[0].addresses;
    assert_eq!(*addresses, ["10.77.0.1/24", "10.78.0.1/24"]);
    assert_eq!(stack.stop().failure, None);
}

/// The kernel speaks IPv6 on the device for the first time while the stack runs.
#[test]
fn ports_of_ipv6_addresses_are_taken_too() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let stack = start(&net, Share::Ports);
    for (namespace, device, address) in
        [(&net.left, "left0", "fd77::1/64"), (&net.right, "right0", "fd77::2/64")]
    {
        namespace.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
        let mut ip = Command::new("ip");
        ip.args(["-6", "addr", "add", address, "dev", device, "nodad"]);
        match namespace.run(|| ip.output()) {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(_) => return println!("skipped: needs ip"),
        }
    }
    let client = net.right.run(|| UdpSocket::bind(("fd77::2", 0))).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (end, mut buffer) = (Instant::now() + Duration::from_secs(10), [0; 100]);
    loop {
        client.send_to(b"six", ("fd77::1", ECHO)).unwrap();
        match client.recv(&mut buffer) {
            Ok(n) if buffer[..n] == *b"six" => break,
            other => {
                let (status, drops) = (stack.status(), stack.counters().drops);
                let seen = (status.interfaces, status.neighbours);
                assert!(Instant::now() < end, "{other:?}: {seen:?}, {drops:?}");
            }
        }
    }
    assert_eq!(own(&stack, "TxL3NDTimer", "solicitations"), 0, "the kernel asks");
    assert_eq!(stack.stop().failure, None);
}

#[test]
fn a_device_that_goes_down_and_comes_back_works_again() {
    require_net_admin!();
    for share in [Share::Address, Share::Ports] {
        let net = Fixture::pair(1).unwrap();
        net.assign_addresses().unwrap();
        let stack = start(&net, share);
        let to = (if share == Share::Ports { Fixture::LEFT } else { STACK }, ECHO);
        let client = socket(&net.right, Fixture::RIGHT, 0);
        await_echo(&client, to, 100);
        let announced = |stack: &Stack| own(stack, "TxL3ARPTimer", "announcements");
        let before = announced(&stack);
        for (namespace, device) in [(&net.right, "right0"), (&net.left, "left0")] {
            namespace.set_down(device).unwrap();
            await_status(&stack, "down", |interface| !interface.up);
            assert!(sent(&client, to, 100).is_err());
            namespace.set_up(device).unwrap();
            await_echo(&client, to, 100);
            await_status(&stack, "up", |interface| interface.up);
        }
        let again = if share == Share::Ports { 0 } else { 1 };
        assert!(announced(&stack) >= before + again, "announced on the link that came back");
        assert_eq!(announced(&stack) > 0, share == Share::Address);
        assert_eq!(stack.stop().failure, None);
    }
}

#[test]
fn a_renamed_device_has_its_new_name_in_the_status() {
    require_net_admin!();
    for share in [Share::None, Share::Address, Share::Ports] {
        let net = Fixture::pair(1).unwrap();
        net.assign_addresses().unwrap();
        let stack = start(&net, share);
        assert_eq!(stack.status().link, "left0");
        for name in ["wan0", "left0", "lan0"] {
            let before = stack.status().link;
            net.left.rename(&before, name).unwrap();
            await_status(&stack, "renamed", |interface| interface.link == name);
            let status = stack.status();
            assert_eq!(status.link, name);
            assert_eq!(status.interfaces[0].name, "left0", "that is the configuration's name");
        }
        let client = socket(&net.right, Fixture::RIGHT, 0);
        let to = if share == Share::Ports { Fixture::LEFT } else { STACK };
        await_echo(&client, (to, ECHO), 100);
        assert_eq!(stack.stop().failure, None);
    }
}

#[test]
fn the_mtu_of_the_device_is_the_stacks() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.assign_addresses().unwrap();
    let stack = start(&net, Share::Address);
    let client = socket(&net.right, Fixture::RIGHT, 0);
    await_echo(&client, (STACK, ECHO), 1400);
    let cut = |stack: &Stack| {
        let nodes = stack.counters().nodes;
        nodes.iter().find(|node| node.name == "TxL3IPv4Fragment").map_or(0, |node| node.packets)
    };
    assert_eq!(cut(&stack), 0);
    for (mtu, is_cut) in [(1280, true), (1500, false)] {
        net.veth.left.set_mtu(mtu).unwrap();
        net.veth.right.set_mtu(mtu).unwrap();
        await_status(&stack, "of that MTU", |interface| u32::from(interface.mtu) == mtu);
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let before = cut(&stack);
            let echoed = sent(&client, (STACK, ECHO), 1400).is_ok();
            if echoed && (cut(&stack) > before) == is_cut {
                break;
            }
            assert!(Instant::now() < end, "the stack's MTU is not {mtu}");
        }
    }
    assert_eq!(stack.stop().failure, None);
}
