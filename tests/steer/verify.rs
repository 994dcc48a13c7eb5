//! `weever steer --verify` with a peer in another namespace: a sheet of where frames of each kind arrived.

use std::process::Output;

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
