//! `EPOLLEXCLUSIVE`: threads that wait for one socket, each by an epoll set of its own.

use std::net::UdpSocket;

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, has};

const PYTHON: &str = "/usr/bin/python3";
const THREADS: usize = 4;

/// Each thread says that it has been woken, reads when it is told to, and answers.
const WAITERS: &str = "
import os, select, socket, threading, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((ADDRESS, 9100))
woken, start = [], threading.Event()
def wait():
    epoll = select.epoll()
    epoll.register(udp, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    assert epoll.poll() == [(udp.fileno(), select.EPOLLIN)]
    woken.append(threading.get_native_id())
    start.wait()
    data, peer = udp.recvfrom(100)
    udp.sendto(data, peer)
threads = [threading.Thread(target=wait) for _ in range(THREADS)]
for thread in threads:
    thread.start()
def sleeps(thread):
    # A set in which no thread waits yet would find what came for the others.
    with open('/proc/self/task/%d/syscall' % thread.native_id) as call:
        return call.read().split()[0] == EPOLL_PWAIT
while not all(sleeps(thread) for thread in threads):
    time.sleep(0.02)
peer = ('10.77.0.2', PEER)
for count in range(1, THREADS + 1):
    udp.sendto(b'ready for %d' % count, peer)
    while len(woken) < count:
        time.sleep(0.02)
    # The others would have been woken with this one.
    time.sleep(0.05)
    assert len(woken) == count, (count, woken)
start.set()
for thread in threads:
    thread.join()
udp.sendto(b'all have read', peer)
time.sleep(600)
";

#[test]
fn each_datagram_wakes_one_of_the_threads_that_wait_and_all_are_read() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let client = lab.net.right.run(|| UdpSocket::bind("10.77.0.2:0").unwrap());
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = client.local_addr().unwrap().port();
    let head = format!(
        "ADDRESS, PEER, THREADS, EPOLL_PWAIT = '{}', {port}, {THREADS}, '{}'",
        BOTH[0],
        nix::libc::SYS_epoll_pwait
    );
    let mut server = lab.start(&[PYTHON, "-c", &[&head, WAITERS].concat()]);
    let mut receive = || {
        let mut text = [0; 100];
        let len = client.recv(&mut text).unwrap_or_else(|e| panic!("{e}; {}", server.told()));
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    for count in 1..=THREADS {
        assert_eq!(receive(), format!("ready for {count}"));
        let number = [b'0' + u8::try_from(count).unwrap()];
        client.send_to(&number, (BOTH[0], 9100)).unwrap();
    }
    let mut answers: Vec<String> = (0..THREADS).map(|_| receive()).collect();
    answers.sort();
    assert_eq!(answers, ["1", "2", "3", "4"]);
    assert_eq!(receive(), "all have read");
}
