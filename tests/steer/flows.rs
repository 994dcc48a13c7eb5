//! Flows of the kernel arrive where the policy names, while they come and go.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use socket2::SockRef;
use weever_testbed::{Fixture, allowed_cores, pin_to, require_net_admin};

use super::process::{DATAGRAM, Files, PATIENCE, POLICY, Steering, net, output};

fn receiver(net: &Fixture, port: u16) -> UdpSocket {
    let socket = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, port)).unwrap());
    socket.set_read_timeout(Some(DATAGRAM)).unwrap();
    socket
}

fn sender(net: &Fixture, port: u16) -> UdpSocket {
    net.left.run(|| UdpSocket::bind((Fixture::LEFT, port)).unwrap())
}

/// Sends until one arrives; the first may have to wait for ARP. Returns the CPU that delivered it.
fn exchange(from: &UdpSocket, to: &UdpSocket, core: usize) -> usize {
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            pin_to(core).unwrap();
            // The kernel notes the CPU for sockets that have a peer.
            to.connect(from.local_addr().unwrap()).unwrap();
            for _ in 0..20 {
                from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
                let mut buffer = [0; 16];
                if let Ok((5, peer)) = to.recv_from(&mut buffer) {
                    assert_eq!(peer, from.local_addr().unwrap());
                    return SockRef::from(to).cpu_affinity().unwrap();
                }
            }
            panic!("no datagram arrives");
        });
        sending.join().unwrap()
    })
}

/// A megabyte there and back.
fn tcp_works(net: &Fixture) {
    const SIZE: usize = 1 << 20;
    let listener = net.right.run(|| TcpListener::bind((Fixture::RIGHT, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut data = vec![0; SIZE];
        stream.read_exact(&mut data).unwrap();
        stream.write_all(&data).unwrap();
    });
    let mut stream = net.left.run(|| TcpStream::connect(address).unwrap());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let data: Vec<u8> = (0..SIZE).map(|i| (i % 251) as u8).collect();
    stream.write_all(&data).unwrap();
    let mut back = vec![0; SIZE];
    stream.read_exact(&mut back).unwrap();
    assert!(back == data, "the returned data differ");
    echo.join().unwrap();
}

#[test]
fn flows_of_the_kernel_arrive_on_the_cpus_that_the_policy_names() {
    require_net_admin!();
    let cores = allowed_cores().unwrap();
    let [first, second, ..] = cores[..] else {
        println!("skipped: needs two cores");
        return;
    };
    let (net, files) = (net(), Files::new());
    let policy = files.write("policy.toml", POLICY);
    let flows = files.write("flows", "udp 10.77.0.1:5001 -> 10.77.0.2:7001\n");
    let cpus = format!("{first},{second}");
    let (premium, other) = (receiver(&net, 7001), receiver(&net, 7000));
    let (from_premium, from_other) = (sender(&net, 5001), sender(&net, 5000));
    // A veth delivers on the core that sends, unless somebody steers.
    for core in [first, second] {
        assert_eq!(exchange(&from_premium, &premium, core), core);
    }
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--cpus", &cpus];
    let steering = Steering::start(&net, &[&args[..], &["--apply"]].concat());
    for core in [first, second] {
        for _ in 0..5 {
            assert_eq!(exchange(&from_premium, &premium, core), second, "its own CPU");
            assert_eq!(exchange(&from_other, &other, core), first, "the CPU of all others");
        }
    }
    tcp_works(&net);
    let told = steering.end();
    let hits = told.strip_prefix("filters took ").and_then(|rest| rest.split(' ').next());
    let hits: u32 = hits.unwrap_or_else(|| panic!("{told}")).parse().unwrap();
    assert!(hits >= 10, "{told}");
    for core in [first, second] {
        assert_eq!(exchange(&from_premium, &premium, core), core, "as before");
    }
    tcp_works(&net);
    // It could not be attached again if something were left.
    Steering::start(&net, &[&args[..], &["--apply"]].concat()).end();
}

#[test]
fn files_are_read_again_and_wrong_ones_change_nothing() {
    require_net_admin!();
    let cores = allowed_cores().unwrap();
    let [first, second, ..] = cores[..] else {
        println!("skipped: needs two cores");
        return;
    };
    let (net, files) = (net(), Files::new());
    let policy = files.write("policy.toml", POLICY);
    let (premium, other) = (receiver(&net, 7001), receiver(&net, 7000));
    let (from_premium, from_other) = (sender(&net, 5001), sender(&net, 5000));
    let cpus = format!("{first},{second}");
    let lines = "udp 10.77.0.1:5001 -> 10.77.0.2:7001\nudp 10.77.0.1:5000 -> 10.77.0.2:7000\n";
    let flows = files.write("flows", lines);
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--cpus", &cpus];
    let mut steering = Steering::start(&net, &[&args[..], &["--apply"]].concat());
    assert_eq!(exchange(&from_premium, &premium, first), second);
    assert_eq!(exchange(&from_other, &other, second), first);
    files.write("policy.toml", &POLICY.replace("7001", "7000"));
    steering.signal(Signal::SIGHUP);
    steering.wait_for("read again: flows 2");
    for _ in 0..5 {
        assert_eq!(exchange(&from_premium, &premium, second), first);
        assert_eq!(exchange(&from_other, &other, first), second);
    }
    files.write("policy.toml", "[[class]]\nname = 7\n");
    steering.signal(Signal::SIGHUP);
    steering.wait_for("not read again");
    assert_eq!(exchange(&from_other, &other, first), second);
    steering.end();
}

fn events(told: &[String]) -> Vec<(String, serde_json::Value)> {
    let event = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        (value["event"].as_str().unwrap().to_string(), value)
    };
    told.iter().map(event).collect()
}

#[test]
fn what_happens_can_be_read_as_json() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let policy = files.write("policy.toml", POLICY);
    let flows = files.write("flows", "udp 10.77.0.1:5001 -> 10.77.0.2:7001\n");
    let args = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--queues", "2"];
    let args = [&args[..], &["--json"]].concat();
    let (code, text) = output(&net, &args);
    assert_eq!(code, Some(0), "{text}");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let told = events(&lines);
    assert!(told[0].0 == "plan" && told[1].0 == "preview" && told.len() == 2, "{text}");
    let plan = &told[0].1;
    assert_eq!(plan["flows"][0]["class"], "premium");
    assert_eq!(plan["flows"][0]["queues"], serde_json::json!([1]));
    assert_eq!((&plan["filters"], &plan["acceptable"]), (&1.into(), &true.into()));
    assert_eq!(plan["queues"][0]["other"], true);
    let mut steering = Steering::start(&net, &[&args[..], &["--apply", "--watch"]].concat());
    files.write("policy.toml", "[[class]]\nname = 7\n");
    steering.signal(Signal::SIGHUP);
    steering.wait_for("not reloaded");
    files.write("policy.toml", POLICY);
    steering.signal(Signal::SIGHUP);
    steering.wait_for("\"reloaded\"");
    let (to, from) = (receiver(&net, 7000), sender(&net, 6000));
    let address = to.local_addr().unwrap();
    let sending = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while sending.load(Ordering::Relaxed) {
                drop(from.send_to(b"x", address));
                thread::sleep(Duration::from_millis(5));
            }
        });
        steering.wait_for("6000");
        sending.store(false, Ordering::Relaxed);
    });
    let told = events(&steering.told);
    let names: Vec<&str> = told.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(names[..3], ["plan", "applied", "steering"]);
    let of = |event: &str| &told.iter().rev().find(|(name, _)| name == event).unwrap().1;
    assert_eq!(of("reloaded")["flows"], 1);
    assert_eq!(of("flows")["came"][0]["src"], "10.77.0.1:6000");
    let last = events(&[steering.end()]).remove(0);
    assert_eq!(last.0, "finished");
}

#[test]
fn flows_are_found_by_their_traffic_and_forgotten_when_they_end() {
    require_net_admin!();
    let net = net();
    let args = ["--dev", "right0", "--apply", "--watch", "--rate", "5", "--stale", "1"];
    let mut steering = Steering::start(&net, &args);
    let to = receiver(&net, 7000);
    let from: Vec<UdpSocket> = (0..3).map(|n| sender(&net, 6000 + n)).collect();
    let address = to.local_addr().unwrap();
    let sending = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while sending.load(Ordering::Relaxed) {
                from.iter().for_each(|socket| drop(socket.send_to(b"x", address)));
                thread::sleep(Duration::from_millis(5));
            }
        });
        let mut came = 0;
        while came < 3 {
            let line = steering.wait_for(" came");
            let count = line.strip_prefix("flows: ").and_then(|rest| rest.split(' ').next());
            came += count.unwrap().parse::<u32>().unwrap();
            steering.wait_for(" added");
        }
        sending.store(false, Ordering::Relaxed);
    });
    let mut went = 0;
    while went < 3 {
        let line = steering.wait_for(" went");
        let count = line.split(", ").nth(1).and_then(|rest| rest.split(' ').next());
        went += count.unwrap().parse::<u32>().unwrap();
    }
    tcp_works(&net);
    steering.end();
}

#[test]
fn two_on_one_device_keep_out_of_each_other_and_a_killed_one_is_no_hindrance() {
    require_net_admin!();
    let net = net();
    let args = ["--dev", "right0", "--apply"];
    let mut first = Steering::start(&net, &args);
    let holder = format!("process {} (`weever steer`, with a program)", first.child.id());
    for more in [&["--apply"][..], &["--apply", "--model", "82599"], &["--undo"]] {
        let (code, text) = output(&net, &[&args[..2], more].concat());
        assert_eq!(code, Some(1), "{text}");
        let told = text.contains("right0 is steered already") && text.contains(&holder);
        assert!(told && text.contains("kill -INT"), "{more:?}: {text}");
    }
    let (code, text) = output(&net, &args[..2]);
    assert!(code == Some(0) && text.contains(&holder), "looking is free: {text}");
    // Another device, and one with the same number in another namespace.
    let other = self::net();
    Steering::start(&other, &args).end();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    Steering::start(&net, &args).end_by(Signal::SIGTERM);
}

/// Whether the device strips tags, and whether weever switched that.
fn strips(net: &Fixture) -> (bool, bool) {
    let (code, text) = output(net, &["--dev", "right0", "--show", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let name = "rx-vlan-hw-parse";
    (state["features"][name].as_bool().unwrap(), state["switched"][name].is_boolean())
}

#[test]
fn tags_stay_in_frames_while_filters_test_them_or_cpus_get_frames_from_the_driver() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let tagged = files.write("tagged", "vlan 7 and udp dst port 53 core=1\n");
    let plain = files.write("plain", "udp dst port 53 core=1\n");
    let near = files.write("near", "[locality]\ncores = [0, 1]\n");
    let device = ["--dev", "right0", "--policy", &near, "--queues", "2"];
    let off = "ethtool -K right0 rx-vlan-hw-parse off";
    for (flows, mode, switches) in [
        (&tagged, "generic", true),
        (&plain, "generic", false),
        (&plain, "native", true),
        (&tagged, "auto", true),
    ] {
        let args = [&device[..], &["--flows", flows, "--mode", mode]].concat();
        let (code, text) = output(&net, &args);
        assert!(code == Some(0) && text.contains(off) == switches, "{mode}: {text}");
        assert_eq!(strips(&net), (true, false), "a preview changes nothing");
        let steering = Steering::start(&net, &[&args[..], &["--apply"]].concat());
        assert_eq!(steering.told.iter().any(|line| line == off), switches, "{:?}", steering.told);
        assert_eq!(strips(&net), (!switches, switches), "{flows} {mode}");
        assert!(steering.end().contains("the program is gone"));
        assert_eq!(strips(&net), (true, false), "it is given back");
    }
    // A process that is killed leaves it switched, and the next one gives it back.
    let args = [&device[..], &["--flows", &tagged, "--apply"]].concat();
    let mut killed = Steering::start(&net, &args);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert_eq!(strips(&net), (false, true));
    let (code, text) = output(&net, &["--dev", "right0", "--undo"]);
    assert!(code == Some(0) && text.contains("rx-vlan-hw-parse on"), "{text}");
    assert_eq!(strips(&net), (true, false));
}

#[test]
fn unfinished_checksums_of_this_machine_survive_unless_the_driver_is_insisted_on() {
    require_net_admin!();
    let net = Fixture::pair(2).unwrap();
    net.assign_addresses().unwrap();
    let to = receiver(&net, 7000);
    let from = sender(&net, 5000);
    let core = allowed_cores().unwrap()[0];
    let args = ["--dev", "right0", "--apply"];
    let mut steering = Steering::start(&net, &args);
    assert!(steering.told.iter().any(|line| line.contains("in generic mode")));
    assert!(steering.told.iter().any(|line| line.contains("unfinished checksums")));
    exchange(&from, &to, core);
    tcp_works(&net);
    assert!(steering.child.try_wait().unwrap().is_none());
    steering.end();
    let steering = Steering::start(&net, &[&args[..], &["--mode", "native"]].concat());
    let told = steering.told.join("\n");
    assert!(told.contains("native mode") && told.contains("ethtool -K PEER tx off"), "{told}");
    steering.end();
}

#[test]
fn a_hundred_thousand_flows_at_once_get_their_filters() {
    require_net_admin!();
    let (net, files) = (net(), Files::new());
    let flow = |n: u32| {
        let (high, low) = (n >> 8, n & 255);
        format!("udp 10.{}.{}.{low}:5 -> 10.77.0.2:7\n", high >> 8, high & 255)
    };
    let flows = files.write("flows", &(0..100_000).map(flow).collect::<String>());
    let args = ["--dev", "right0", "--flows", &flows, "--apply", "--queues", "2"];
    let steering = Steering::start(&net, &args);
    let told = steering.told.join("\n");
    assert!(told.contains("filters: 100000 added") && told.contains("flows 100000"), "{told}");
    steering.end();
}
