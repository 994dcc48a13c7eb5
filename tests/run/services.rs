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
fn knot_answers_from_two_sockets_of_one_port_and_by_tcp_where_an_answer_is_too_long() {
    require_net_admin!();
    if !has("knotd") || !has("dig") {
        return;
    }
    let lab = Lab::new();
    let folder = lab.folder.display();
    let config = format!(
        "server:\n rundir: {folder}\n user: root\n listen: [ 0.0.0.0@5300, ::@5300 ]\n udp-workers: 2\n \
         tcp-workers: 2\nlog:\n - target: stderr\n   any: info\ndatabase:\n storage: {folder}/db\n\
         zone:\n - domain: weever.test\n   storage: {folder}\n   file: zone\n   zonefile-sync: -1\n   \
         journal-content: none\n"
    );
    let mut zone =
        String::from("@ 3600 SOA ns admin 1 3600 600 86400 60\n@ NS ns\na A 192.0.2.7\n");
    for number in 0..400 {
        zone.push_str(&format!("many TXT \"{number:0100}\"\n"));
    }
    std::fs::write(lab.folder.join("knot.conf"), config).unwrap();
    std::fs::write(lab.folder.join("zone"), zone).unwrap();
    let mut server = lab.start(&["knotd", "-c", "knot.conf"]);
    let dig = |to: &str, args: &[&str]| {
        let mut dig = Command::new("dig");
        dig.args([&format!("@{to}"), "-p", "5300", "+short", "+time=2", "+tries=5"]).args(args);
        let output = lab.net.right.run(|| dig.output().unwrap());
        String::from_utf8(output.stdout).unwrap()
    };
    for to in BOTH {
        drop(lab.connect(&mut server, to, 5300));
        for args in [["+notcp", "a.weever.test"], ["+tcp", "a.weever.test"]] {
            for _ in 0..10 {
                assert_eq!(dig(&to.to_string(), &args), "192.0.2.7\n", "{}", server.told());
            }
        }
        // By UDP at first, then by TCP.
        let many = dig(&to.to_string(), &["many.weever.test", "TXT"]);
        assert_eq!(many.lines().count(), 400, "{many}; {}", server.told());
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
        for more in [&[][..], &["-R"], &["-u", "-b", "5M"], &["-u", "-R", "-b", "5M"]] {
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
    let mut question = [0; 48];
    question[0] = 0x23;
    // Without its filter of system calls, and with it, as Debian starts it.
    for filter in ["0", "1"] {
        let options = ["-x", "-d", "-F", filter, "-u", "root", "-f", path.to_str().unwrap()];
        let mut server = lab.start(&[&["chronyd"], &options[..]].concat());
        for to in BOTH {
            let answer = lab.ask(&mut server, (to, 1123), &question);
            // Mode 4 is a server's, and its stratum is 8 (RFC 5905 §7.3).
            assert_eq!((answer.len(), answer[0] & 7, answer[1]), (48, 4, 8), "{filter}");
        }
    }
}
