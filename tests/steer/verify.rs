//! `weever steer --verify` with a peer in another namespace: a sheet of where frames of each kind arrived.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;

use weever_testbed::{Fixture, require_net_admin};

use super::process::{Files, POLICY, Steering, command, net, output};

const FLOWS: &str = "udp 10.77.0.1:5001 -> 10.77.0.2:7001\ntcp 10.77.0.1:5002 -> 10.77.0.2:80\n";

/// A steering that compares its plan with where frames arrive which its peer has sent by this device.
fn verified(net: &Fixture, from: &str, how: &[&str]) -> Steering {
    let files = Files::new();
    let policy = files.write("policy.toml", POLICY);
    let flows = files.write("flows", FLOWS);
    let device = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--queues", "2"];
    let steering = [&device[..], &["--verify", "10.77.0.2:0"], how].concat();
    let mut steering = Steering::spawn(net, &steering);
    let waiting = steering.wait_for("--probe-from");
    let at = waiting.split("--to ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let peer = ["--probe-from", from, "--to", at];
    let Output { status, stderr, .. } = net.left.run(|| command(&peer).output().unwrap());
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    steering
}

/// Passes the words of the peer on, and those of the other end after `change`, until both are done.
fn meddle(peer: TcpStream, other: TcpStream, change: impl Fn(String) -> String) {
    let copies = [peer.try_clone().unwrap(), other.try_clone().unwrap()];
    let [peer_reads, mut other_writes] = copies;
    let answers = thread::spawn(move || {
        drop(io::copy(&mut BufReader::new(peer_reads), &mut other_writes));
    });
    let mut to = peer;
    for line in BufReader::new(other).lines() {
        let Ok(line) = line else { break };
        if writeln!(to, "{}", change(line)).is_err() {
            break;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Both));
    answers.join().unwrap();
}

/// Somebody between the two ends has other frames sent than those that the plan is asked about, as if the device
/// matched them otherwise than its model says.
#[test]
fn a_plan_that_is_wrong_fails_and_the_exit_status_says_so() {
    require_net_admin!();
    let net = net();
    let files = Files::new();
    let policy = files.write("policy.toml", POLICY);
    let flows = files.write("flows", FLOWS);
    let device = ["--dev", "right0", "--policy", &policy, "--flows", &flows, "--queues", "2"];
    let steering = [&device[..], &["--verify", "10.77.0.2:0", "--patience", "10"]].concat();
    let mut steering = Steering::spawn(&net, &steering);
    let waiting = steering.wait_for("--probe-from");
    let at = waiting.split("--to ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let at = at.to_owned();
    drop(net.left.set_up("lo"));
    let listener = net.left.run(|| TcpListener::bind("10.77.0.1:0").unwrap());
    let between = listener.local_addr().unwrap().to_string();
    let meddler = net.left.spawn("meddler", move || {
        let (peer, _) = listener.accept().unwrap();
        // Port 7001, which has a queue for itself, becomes 7002.
        meddle(peer, TcpStream::connect(at).unwrap(), |line| line.replace("1b59", "1b5a"));
    });
    let peer = ["--probe-from", "left0", "--to", &between];
    let sent = net.left.run(|| command(&peer).output().unwrap());
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    steering.wait_for(
        "  fail: udp 10.77.0.1:5001 -> 10.77.0.2:7001: planned: queues 1; arrived: spread",
    );
    steering.wait_for("not passed:");
    steering.wait_for("the program is gone");
    let (status, errors) = steering.ended();
    assert_eq!(status.code(), Some(1), "{errors}");
    drop(meddler);
}

#[test]
fn a_plan_is_verified_by_probes_of_a_peer() {
    require_net_admin!();
    let net = net();
    for form in [&[][..], &["--json"]] {
        // It only ends a wait for frames that never come.
        let mut steering = verified(&net, "left0", &[&["--patience", "30"], form].concat());
        steering.wait_for("the program is gone");
        let told = steering.told.clone();
        let (status, errors) = steering.ended();
        assert!(status.success(), "{errors} {told:#?}");
        if form.is_empty() {
            println!("{}", told.join("\n"));
            assert!(
                told.iter().any(|line| line == "flow: 2 pass, 0 fail, 0 not told"),
                "{told:#?}"
            );
            assert!(told.iter().any(|line| line.starts_with("first fragment: ")), "{told:#?}");
            continue;
        }
        let sheet = told.iter().find(|line| line.contains("\"sheet\"")).unwrap();
        let sheet: serde_json::Value = serde_json::from_str(sheet).unwrap();
        assert_eq!((&sheet["passed"], &sheet["driver"]), (&true.into(), &"veth".into()));
        let probes = sheet["probes"].as_array().unwrap();
        let first = &probes[0];
        assert_eq!((&first["kind"], &first["arrived"]), (&"flow".into(), &1.into()), "{first}");
        assert_eq!(first["expected"]["queues"], serde_json::json!([1]));
        let other = probes.iter().find(|probe| probe["kind"] == "other destination port").unwrap();
        assert_ne!(other["arrived"], 1, "{other}");
    }
}

/// The peer's frames leave by a device that nobody cabled: the sheet shows nothing, which is no pass.
#[test]
fn a_plan_whose_probes_arrive_nowhere_has_not_passed() {
    require_net_admin!();
    let net = net();
    let mut steering = verified(&net, "lo", &["--patience", "0"]);
    steering.wait_for("not passed: 0 pass, 0 fail");
    steering.wait_for("the program is gone");
    let (status, errors) = steering.ended();
    assert_eq!(status.code(), Some(1), "{errors}");
}

#[test]
fn a_peer_without_a_counterpart_says_so() {
    require_net_admin!();
    let net = net();
    let (code, text) = output(&net, &["--probe-from", "right0", "--to", "10.77.0.2:9"]);
    assert!(code == Some(1) && text.contains("nobody verifies at 10.77.0.2:9"), "{text}");
    let (code, text) = output(&net, &["--probe-from", "nobody0", "--to", "10.77.0.2:9"]);
    assert!(code == Some(1) && text.contains("nobody0"), "{text}");
    let (code, text) = output(&net, &["--probe-from", "right0"]);
    assert!(code == Some(2) && text.contains("--to"), "{text}");
}
