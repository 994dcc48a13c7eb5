//! Servers of several processes.

use std::io::{Read, Write};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, Program, has};

/// nginx with two workers.
fn nginx(lab: &Lab) -> Program {
    let folder = lab.folder.display();
    let text = format!(
        "worker_processes 2; daemon off; user root; pid {folder}/pid; error_log {folder}/errors info;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; server {{
           listen 80; listen [::]:80; root {folder};
           location /hello {{ return 200 hello; }} }} }}"
    );
    std::fs::write(lab.folder.join("nginx.conf"), text).unwrap();
    let config = lab.folder.join("nginx.conf");
    lab.start(&["nginx", "-c", config.to_str().unwrap()])
}

#[test]
fn nginx_serves_files_and_keeps_connections() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let content = lab.file("big", 20 << 20);
    let mut server = nginx(&lab);
    for to in BOTH {
        let (head, body) = lab.get(&mut server, to, 80, "/big");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(body == content, "{to}: {} of {} octets", body.len(), content.len());
        let mut kept = lab.connect(&mut server, to, 80);
        for _ in 0..50 {
            kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"hello") {
                let mut more = [0; 1024];
                let len = kept.read(&mut more).unwrap();
                assert!(len > 0, "{to}: closed after {answer:?}; {}", server.told());
                answer.extend(&more[..len]);
            }
        }
    }
    // A listener for each family in each of two workers; the master, which accepts nothing, has none.
    lab.await_listed(" *:80 ", 4);
}

#[test]
fn a_reload_of_nginx_refuses_nobody() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let mut server = nginx(&lab);
    lab.connect(&mut server, BOTH[0], 80);
    lab.await_listed(" *:80 ", 4);
    let workers = |lab: &Lab| -> Vec<String> {
        let listed = lab.up.ask(&["sockets"]);
        let lines = listed.lines().filter(|line| line.contains(" *:80 "));
        lines.map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
    };
    let before = workers(&lab);
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGHUP).unwrap();
    // Until the queues are others, and for a while after.
    let mut left = 50;
    while left > 0 {
        let (_, body) = lab.get(&mut server, BOTH[left % 2], 80, "/hello");
        assert_eq!(body, b"hello");
        let now = workers(&lab);
        if now.len() == 4 && now.iter().all(|queue| !before.contains(queue)) {
            left -= 1;
        }
    }
}
