//! Programs that have their stack inside.

use std::io::{Read, Write};

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, has};

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn redis_serves_with_its_own_stack_and_saves_in_a_child() {
    require_net_admin!();
    if !has("redis-server") {
        return;
    }
    let lab = Lab::inside();
    let bind = ["--bind", "0.0.0.0", "::", "--protected-mode", "no", "--port", "6379"];
    let mut server = lab.start(&[&["redis-server"], &bind[..]].concat());
    for to in BOTH {
        let mut client = lab.connect(&mut server, to, 6379);
        for round in 0..3 {
            let value = "v".repeat(100_000);
            write!(client, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len())
                .unwrap();
            client.write_all(b"GET k\r\n").unwrap();
            let mut answer = vec![0; 5 + 9 + value.len() + 2];
            client.read_exact(&mut answer).unwrap_or_else(|e| panic!("{e}; {}", server.told()));
            assert!(answer.starts_with(b"+OK\r\n$100000\r\nvvv"), "{to}, round {round}");
            if round == 1 && to == BOTH[0] {
                // The child shares nothing with the stack: both go on.
                client.write_all(b"BGSAVE\r\n").unwrap();
                let mut line = [0; 28];
                client.read_exact(&mut line).unwrap();
                assert_eq!(&line, b"+Background saving started\r\n");
            }
        }
    }
}

#[test]
fn the_stack_starts_in_the_worker_that_uses_it() {
    require_net_admin!();
    if !has("nginx") {
        return;
    }
    let lab = Lab::inside();
    let folder = lab.folder.display();
    let text = format!(
        "worker_processes 1; daemon off; user root; pid {folder}/pid; error_log {folder}/errors info;
         events {{ worker_connections 256; }}
         http {{ access_log off; sendfile on; server {{ listen 80; listen [::]:80; root {folder}; }} }}"
    );
    std::fs::write(lab.folder.join("nginx.conf"), text).unwrap();
    let content = lab.file("big", 5 << 20);
    let config = lab.folder.join("nginx.conf");
    let mut server = lab.start(&["nginx", "-c", config.to_str().unwrap()]);
    for to in BOTH {
        let (head, body) = lab.get(&mut server, to, 80, "/big");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(body == content, "{to}: {} of {} octets", body.len(), content.len());
    }
}

#[test]
fn a_child_is_told_that_the_stack_is_its_parents() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::inside();
    let script = "
import os, select, socket, sys
server = socket.create_server(('0.0.0.0', 8000))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9000))
print(select.select([server, udp], [], [], 0), flush=True)
if os.fork() == 0:
    select.select([udp], [], [], 0)
    os._exit(0)
print(os.wait()[1], flush=True)
data, peer = udp.recvfrom(100)
udp.sendto(data[::-1], peer)
udp.recvfrom(100)
";
    let mut server = lab.start(&[PYTHON, "-c", script]);
    let answer = lab.ask(&mut server, (BOTH[0], 9000), b"abc");
    assert_eq!(answer, b"cba", "{}", server.told());
    let told = server.told();
    assert!(
        told.contains("inside this process' parent") && told.contains("--stack daemon"),
        "{told}"
    );
}

/// Opens files while its stack starts, closes them, and everything else that it does not know.
const OPENS_MEANWHILE: &str = "
import os, select, socket, threading, time
files, started = [], threading.Event()
def open_files(*calls):
    while not started.wait(0.002):
        for call in calls:
            files.append(call())
# An eventfd may have to wait for the stack.
null, memory = lambda: os.open('/dev/null', os.O_RDONLY), lambda: os.memfd_create('its own')
openers = [threading.Thread(target=open_files, args=calls) for calls in ((null, memory), (lambda: os.eventfd(0),))]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9000))
[opener.start() for opener in openers]
time.sleep(0.02)
select.select([udp], [], [], 0)
started.set()
[opener.join() for opener in openers]
failed = 0
for file in files:
    try:
        os.close(file)
    except OSError:
        failed += 1
os.closerange(3, udp.fileno())
os.closerange(udp.fileno() + 1, 5000)
others = [null() for _ in range(100)]
print('not closed:', failed, flush=True)
while True:
    data, peer = udp.recvfrom(100)
    udp.sendto(data, peer)
";

#[test]
fn files_that_other_threads_open_while_the_stack_starts_are_the_programs() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::inside();
    let mut server = lab.start(&[PYTHON, "-c", OPENS_MEANWHILE]);
    for _ in 0..3 {
        let answer = lab.ask(&mut server, (BOTH[0], 9000), b"there");
        assert_eq!(answer, b"there", "{}", server.told());
    }
    let told = server.told();
    assert!(told.contains("not closed: 0\n"), "{told}");
}

#[test]
fn a_device_that_is_not_there_is_named_and_the_kernel_serves() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::inside();
    let script = "import socket, select; s = socket.create_server(('0.0.0.0', 8000)); \
                  select.select([s], [], [], 0); print('it goes on')";
    let mut command =
        lab.command(&["--dev", "nodevice", "--addr", "10.77.0.10/24", "--", PYTHON, "-c", script]);
    let output = lab.net.left.run(|| command.output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"it goes on\n", "{errors}");
    assert!(errors.contains("no stack inside") && errors.contains("nodevice"), "{errors}");
}
