//! Name servers, a time server, and one that measures.

use std::io::{Read, Write};
use std::process::Command;
use std::time::Instant;

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, has};

#[test]
fn unbound_answers_with_two_threads() {
    require_net_admin!();
    if !has("unbound") {
        return;
    }
    let lab = Lab::new();
    let config = format!(
        "server:\n directory: \"{}\"\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n use-syslog: no\n\
         interface: 0.0.0.0\n interface: ::0\n port: 5300\n num-threads: 2\n\
         access-control: 0.0.0.0/0 allow\n access-control: ::0/0 allow\n\
         local-zone: \"weever.test.\" static\n local-data: \"a.weever.test. A 192.0.2.7\"\n\
         remote-control:\n control-enable: no\n",
        lab.folder.display()
    );
    std::fs::write(lab.folder.join("unbound.conf"), config).unwrap();
    let mut server = lab.start(&["unbound", "-d", "-c", "unbound.conf"]);
    let question = b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0\x01a\x06weever\x04test\0\0\x01\0\x01";
    for to in BOTH {
        for _ in 0..20 {
            let answer = lab.ask(&mut server, (to, 5300), question);
            assert!(answer.ends_with(&[0, 4, 192, 0, 2, 7]), "{answer:?}");
            let mut stream = lab.connect(&mut server, to, 5300);
            stream.write_all(&[&[0, question.len() as u8], &question[..]].concat()).unwrap();
            let mut answer = [0; 100];
            let len = stream.read(&mut answer).unwrap();
            assert!(
                answer[..len].ends_with(&[0, 4, 192, 0, 2, 7]),
                "{answer:?}; {}",
                server.told()
            );
        }
    }
}

#[test]
fn iperf3_measures_both_directions_and_datagrams() {
    require_net_admin!();
    if !has("iperf3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&["iperf3", "-s", "-p", "5201"]);
    lab.await_listed(" *:5201 ", 1);
    for to in BOTH {
        for more in [&[][..], &["-R"], &["-u", "-b", "5M"]] {
            let address = to.to_string();
            let mut client = Command::new("iperf3");
            client.args(["-c", &address, "-p", "5201", "-n", "1M"]).args(more);
            let since = Instant::now();
            // Between two tests the server closes its listener and opens another.
            loop {
                let output = lab.net.right.run(|| client.output().unwrap());
                let told = String::from_utf8_lossy(&output.stdout);
                if told.contains("receiver") {
                    break;
                }
                assert!(since.elapsed() < PATIENCE, "{to} {more:?}: {told}; {}", server.told());
            }
        }
    }
}

#[test]
fn dnsmasq_answers_by_udp() {
    require_net_admin!();
    if !has("dnsmasq") {
        return;
    }
    let lab = Lab::new();
    let options = ["-k", "-p", "5301", "--no-resolv", "--no-hosts", "--user=root", "--pid-file="];
    let address = "--address=/a.weever.test/192.0.2.7";
    let mut server = lab.start(&[&["dnsmasq"], &options[..], &[address]].concat());
    let question = b"\xab\xcd\x01\0\0\x01\0\0\0\0\0\0\x01a\x06weever\x04test\0\0\x01\0\x01";
    for to in BOTH {
        let answer = lab.ask(&mut server, (to, 5301), question);
        assert!(answer.ends_with(&[0, 4, 192, 0, 2, 7]), "{answer:?}");
    }
}

#[test]
fn chrony_tells_the_time() {
    require_net_admin!();
    if !has("chronyd") {
        return;
    }
    let lab = Lab::new();
    let folder = lab.folder.display();
    let config = format!(
        "local stratum 8\nallow all\ncmdport 0\nport 1123\npidfile {folder}/pid\ndriftfile {folder}/drift\n"
    );
    let path = lab.folder.join("chrony.conf");
    std::fs::write(&path, config).unwrap();
    let options = ["-x", "-d", "-F", "0", "-u", "root", "-f", path.to_str().unwrap()];
    let mut server = lab.start(&[&["chronyd"], &options[..]].concat());
    let mut question = [0; 48];
    question[0] = 0x23;
    for to in BOTH {
        let answer = lab.ask(&mut server, (to, 1123), &question);
        // Mode 4 is a server's, and its stratum is 8 (RFC 5905 §7.3).
        assert_eq!((answer.len(), answer[0] & 7, answer[1]), (48, 4, 8));
    }
}
