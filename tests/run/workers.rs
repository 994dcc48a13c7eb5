//! Servers of several processes.

use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, Program, has};

/// nginx with two workers, which listen: two listeners each. The master, which accepts nothing, has none.
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
    let server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    lab.await_listed(" *:80 ", 4);
    server
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
}

#[test]
fn a_reload_of_nginx_changes_its_workers_and_goes_on() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::new();
    let mut server = nginx(&lab);
    let workers = |lab: &Lab| -> Vec<String> {
        let listed = lab.up().ask(&["sockets"]);
        let lines = listed.lines().filter(|line| line.contains(" *:80 "));
        lines.map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
    };
    let before = workers(&lab);
    // One that is being served when the change begins is served to its end.
    let mut kept = lab.connect(&mut server, BOTH[0], 80);
    let mut answer = Vec::new();
    kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    while !answer.ends_with(b"hello") {
        let mut more = [0; 1024];
        let len = kept.read(&mut more).unwrap();
        answer.extend(&more[..len]);
    }
    kept.write_all(b"GET /hello HTTP/1.1\r\nHost: test\r\n").unwrap();
    kill(Pid::from_raw(server.child.id() as i32), Signal::SIGHUP).unwrap();
    let mut resets = 0;
    let mut left = 50;
    while left > 0 {
        let mut stream = lab
            .net
            .right
            .run(|| TcpStream::connect((BOTH[left % 2], 80)))
            .expect("there is always a worker that listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        let asked = stream.write_all(b"GET /hello HTTP/1.0\r\n\r\n");
        match asked.and_then(|()| stream.read_to_end(&mut answer)) {
            Ok(_) => assert!(answer.ends_with(b"hello"), "{}", server.told()),
            // It had come to an old worker's queue as that closed a listener, of which there are four.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => resets += 1,
            Err(error) => panic!("{error}; {}", server.told()),
        }
        let now = workers(&lab);
        if now.len() == 4 && now.iter().all(|queue| !before.contains(queue)) {
            left -= 1;
        }
    }
    assert!(resets <= 4, "{resets} connections were reset");
    kept.write_all(b"Connection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    kept.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(b"hello"), "{}", server.told());
}
