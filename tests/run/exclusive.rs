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

/// Two threads wait; the first one is interrupted at about the moment at which a datagram comes, and leaves if it has nothing
/// to read. The main thread takes what comes for both of them.
const INTERRUPTED: &str = "
import ctypes, random, select, signal, socket, sys, threading, time
LIBC = ctypes.CDLL(None, use_errno=True)
random.seed(1)
signal.signal(signal.SIGUSR1, lambda *_: None)
udp, other = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
udp.bind((ADDRESS, 9100))
other.bind((ADDRESS, 9101))
peer, read, left, done = ('10.77.0.2', PEER), [], 0, threading.Event()
def wait():
    epoll, event = select.epoll(), ctypes.create_string_buffer(12)
    epoll.register(udp, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    while LIBC.epoll_wait(epoll.fileno(), event, 1, -1) == 1:
        if done.is_set():
            return
        try:
            read.append(udp.recv(100, socket.MSG_DONTWAIT))
        except BlockingIOError:
            pass
first, second = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
first.start()
second.start()
for count in range(1, ROUNDS + 1):
    if not first.is_alive():
        left += 1
        # It is the first in the order of the sets again.
        done.set()
        # A signal that comes before it waits does not end its wait.
        while second.is_alive():
            signal.pthread_kill(second.ident, signal.SIGUSR1)
            second.join(0.01)
        done.clear()
        first, second = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
        first.start()
        second.start()
        time.sleep(0.001)
    udp.sendto(b'x', peer)
    at, since = time.monotonic() + random.random() * 0.0006, time.monotonic()
    while len(read) < count:
        try:
            other.recv(100, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        if at and time.monotonic() > at and first.is_alive():
            signal.pthread_kill(first.ident, signal.SIGUSR1)
            at = None
        assert time.monotonic() - since < 20, ('nobody was woken', count, left)
assert left > ROUNDS / 10, left
other.sendto(b'all were read', peer)
time.sleep(600)
";

#[test]
fn a_thread_that_leaves_for_a_signal_takes_no_datagram_from_the_others() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let echo = lab.net.right.run(|| UdpSocket::bind("10.77.0.2:0").unwrap());
    echo.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = echo.local_addr().unwrap().port();
    let head = format!("ADDRESS, PEER, ROUNDS = '{}', {port}, 400", BOTH[0]);
    let mut server = lab.start(&[PYTHON, "-c", &[&head, INTERRUPTED].concat()]);
    loop {
        let mut text = [0; 100];
        let got = echo.recv_from(&mut text);
        let (len, from) = got.unwrap_or_else(|e| panic!("{e}; {}", server.told()));
        if text[..len] == *b"all were read" {
            return;
        }
        echo.send_to(&text[..len], from).unwrap();
    }
}
