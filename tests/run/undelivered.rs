//! Datagrams that wait in a socket when another process gets it: by a fork, by `exec`, or in a message.

use std::net::{IpAddr, UdpSocket};

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, PATIENCE, Program, has};

const PYTHON: &str = "/usr/bin/python3";
const PORT: u16 = 9100;

/// A datagram socket, and children that are made while datagrams wait in it.
const HEAD: &str = "
import os, select, socket, sys, time
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
udp.bind(('::', 9100))
open('bound', 'w').close()
def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.02)
def in_a_child(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
";

/// Parent, children and a grandchild answer datagrams in turns; each says what it has read, who it is, and to which
/// address it came.
const TURNS: &str = "
def answer(name):
    assert select.select([udp], [], [], 30)[0]
    peeked = udp.recv(100, socket.MSG_PEEK)
    data, control, _, peer = udp.recvmsg(100, 100)
    assert peeked == data
    where = socket.inet_ntop(socket.AF_INET6, control[0][2][:16])
    udp.sendto(b'%s:%s:%s' % (data, name, where.encode()), peer)
def child():
    answer(b'child')
    answer(b'child')
    in_a_child(lambda: answer(b'grandchild'))
await_file('sent')
answer(b'parent')
udp.recv(100, socket.MSG_PEEK)
in_a_child(child)
answer(b'parent')
open('more', 'w').close()
await_file('again')
# Those of the fork before come first.
in_a_child(lambda: answer(b'child'))
answer(b'parent')
in_a_child(lambda: answer(b'child'))
udp.setblocking(False)
try:
    udp.recv(100)
except BlockingIOError:
    open('empty', 'w').close()
time.sleep(600)
";

fn client(lab: &Lab, to: IpAddr) -> UdpSocket {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = lab.net.right.run(|| UdpSocket::bind(any).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect((to, PORT)).unwrap();
    socket
}

#[test]
fn processes_read_what_waited_at_a_fork_once_and_in_order() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    for to in BOTH {
        let lab = Lab::new();
        let mut server = lab.start(&[PYTHON, "-c", &[HEAD, TURNS].concat()]);
        lab.await_file("bound", &mut server);
        let client = client(&lab, to);
        let send = |from: u8, count: u8| {
            (from..from + count).for_each(|number| _ = client.send(&[b'a' + number]).unwrap());
            lab.await_received(u64::from(from + count));
        };
        send(0, 6);
        std::fs::write(lab.folder.join("sent"), "").unwrap();
        lab.await_file("more", &mut server);
        // Those that have ended get no datagrams once the stack has taken their queues away.
        lab.await_listed(": 1 queues, 1 sockets", 1);
        send(6, 2);
        std::fs::write(lab.folder.join("again"), "").unwrap();
        let where_to = match to {
            IpAddr::V4(to) => to.to_ipv6_mapped().to_string(),
            IpAddr::V6(to) => to.to_string(),
        };
        let who = ["parent", "child", "child", "grandchild", "parent", "child", "parent", "child"];
        let asked: Vec<String> = who
            .into_iter()
            .zip('a'..)
            .map(|(who, what)| format!("{what}:{who}:{where_to}"))
            .collect();
        let mut answered: Vec<String> = Vec::new();
        while answered.len() < asked.len() {
            let mut answer = [0; 100];
            let len = client.recv(&mut answer);
            let len = len.unwrap_or_else(|e| panic!("{e} after {answered:?}; {}", server.told()));
            answered.push(String::from_utf8_lossy(&answer[..len]).into_owned());
        }
        // The stack may send what two processes have on their queues in either order.
        answered.sort();
        assert_eq!(answered, asked, "{}", server.told());
        lab.await_file("empty", &mut server);
    }
}

/// A child without a descriptor for a queue reads a part of what has come, its parent the rest.
const WITHOUT_A_QUEUE: &str = "
import resource
await_file('sent')
udp.setblocking(False)
def child():
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    assert select.select([udp], [], [], 30)[0]
    assert udp.recv(100, socket.MSG_PEEK) == b'a'
    assert udp.recv(100) == b'a'
    assert udp.recvmsg(100, 100)[0] == b'b'
in_a_child(child)
assert udp.recv(100) == b'c'
open('done', 'w').close()
time.sleep(600)
";

#[test]
fn a_process_that_can_open_no_queue_reads_what_waited_at_the_fork() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", &[HEAD, WITHOUT_A_QUEUE].concat()]);
    lab.await_file("bound", &mut server);
    let client = client(&lab, BOTH[0]);
    [b"a", b"b", b"c"].into_iter().for_each(|what| _ = client.send(what).unwrap());
    lab.await_received(3);
    std::fs::write(lab.folder.join("sent"), "").unwrap();
    lab.await_file("done", &mut server);
}

/// The parent reads a part of what has come, while four children read the rest.
const CROWD: &str = "
await_file('sent')
udp.setblocking(False)
def read(name, most):
    with open(name, 'w', buffering=1) as out:
        for _ in range(most):
            try:
                print(udp.recv(100).decode(), file=out)
            except BlockingIOError:
                return
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        await_file('start')
        read('child%d' % number, 600)
        os._exit(0)
    children.append(child)
open('start', 'w').close()
read('parent', 100)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
open('done', 'w').close()
time.sleep(600)
";

#[test]
fn processes_that_read_at_once_share_what_waited_at_the_forks() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    const COUNT: u64 = 600;
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", &[HEAD, CROWD].concat()]);
    lab.await_file("bound", &mut server);
    let client = client(&lab, BOTH[0]);
    for number in 0..COUNT {
        client.send(number.to_string().as_bytes()).unwrap();
        // No more at once than any ring has room for.
        if number % 20 == 19 {
            lab.await_received(number + 1);
        }
    }
    std::fs::write(lab.folder.join("sent"), "").unwrap();
    lab.await_file("done", &mut server);
    let mut all = Vec::new();
    for name in ["parent", "child0", "child1", "child2", "child3"] {
        let text = std::fs::read_to_string(lab.folder.join(name)).unwrap();
        let read: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(read.is_sorted(), "{name}: {read:?}; {}", server.told());
        all.extend(read);
    }
    all.sort_unstable();
    let sent: Vec<u64> = (0..COUNT).collect();
    assert_eq!(all, sent, "{}", server.told());
}

/// A program that reads one datagram, and is followed by another one in its process, which reads the rest; a helper that is
/// started in between inherits the socket as well, and reads one or none.
const FOLLOWED: &str = "
NEXT = '''
import os, select, socket, sys, time
udp = socket.socket(fileno=int(sys.argv[1]))
def answer(name):
    assert select.select([udp], [], [], 30)[0]
    peeked = udp.recv(100, socket.MSG_PEEK)
    data, _, _, peer = udp.recvmsg(100)
    assert peeked == data
    udp.sendto(data + name, peer)
'''
def helped_by(work):
    import subprocess
    helper = [sys.executable, '-c', NEXT + work, str(udp.fileno())]
    assert subprocess.run(helper, pass_fds=[udp.fileno()]).returncode == 0
await_file('sent')
data, peer = udp.recvfrom(100)
udp.sendto(data + b':first', peer)
udp.set_inheritable(True)
helped_by('')
helped_by('answer(b\":helper\")')
in_a_child(lambda: helped_by('answer(b\":childs helper\")'))
data, peer = udp.recvfrom(100)
udp.sendto(data + b':first', peer)
try:
    os.execv('/nowhere', ['nowhere'])
except FileNotFoundError:
    pass
data, peer = udp.recvfrom(100)
udp.sendto(data + b':first', peer)
WAIT = \"answer(b':next')\\nanswer(b':next')\\nopen('more', 'w').close()\\nanswer(b':next')\\ntime.sleep(600)\"
os.execv(sys.executable, [sys.executable, '-c', NEXT + WAIT, str(udp.fileno())])
";

/// Reads answers until those that are expected have come, in any order: the stack may send what several processes have on
/// their queues in either order.
fn expect(client: &UdpSocket, expected: &[&str], server: &mut Program) {
    let mut answered: Vec<String> = Vec::new();
    while answered.len() < expected.len() {
        let mut answer = [0; 100];
        let len = client.recv(&mut answer);
        let len = len.unwrap_or_else(|e| panic!("{e} after {answered:?}; {}", server.told()));
        answered.push(String::from_utf8_lossy(&answer[..len]).into_owned());
    }
    answered.sort();
    assert_eq!(answered, expected, "{}", server.told());
}

#[test]
fn the_next_program_reads_what_waited_in_its_socket() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    for to in BOTH {
        let lab = Lab::new();
        let mut server = lab.start(&[PYTHON, "-c", &[HEAD, FOLLOWED].concat()]);
        lab.await_file("bound", &mut server);
        let client = client(&lab, to);
        (b'a'..=b'g').for_each(|what| _ = client.send(&[what]).unwrap());
        lab.await_received(7);
        std::fs::write(lab.folder.join("sent"), "").unwrap();
        lab.await_file("more", &mut server);
        lab.await_listed(": 1 queues, 1 sockets", 1);
        client.send(b"h").unwrap();
        let who = ["first", "helper", "childs helper", "first", "first", "next", "next", "next"];
        let expected: Vec<String> =
            who.into_iter().zip('a'..).map(|(who, what)| format!("{what}:{who}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        expect(&client, &expected, &mut server);
    }
}

/// A parent that sends its socket to a process which it has had before; both read in turns.
const SENT: &str = "
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
udp.close()
def answer(udp, name):
    data, peer = udp.recvfrom(100)
    udp.sendto(data + name, peer)
if os.fork() == 0:
    ours.close()
    for _ in range(2):
        _, fds, flags, _ = socket.recv_fds(theirs, 100, 8)
        assert len(fds) == 2 and flags & socket.MSG_CTRUNC == 0, (fds, flags)
        os.close(fds[1])
        udp = socket.socket(fileno=fds[0])
        answer(udp, b':other')
        theirs.send(b'.')
        assert theirs.recv(1) == b'.'
        answer(udp, b':other')
        theirs.send(b'.')
        udp.close()
    time.sleep(600)
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(('::', 9100))
open('again', 'w').close()
await_file('sent')
plain = os.open('/dev/null', os.O_RDONLY)
for _ in range(2):
    answer(udp, b':parent')
    socket.send_fds(ours, [b'take it'], [udp.fileno(), plain])
    assert ours.recv(1) == b'.'
    answer(udp, b':parent')
    ours.send(b'.')
    assert ours.recv(1) == b'.'
answer(udp, b':parent')
time.sleep(600)
";

#[test]
fn a_process_that_is_sent_a_socket_reads_what_waited_in_it() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    for to in BOTH {
        let lab = Lab::new();
        let mut server = lab.start(&[PYTHON, "-c", &[HEAD, SENT].concat()]);
        lab.await_file("again", &mut server);
        let client = client(&lab, to);
        (b'a'..=b'i').for_each(|what| _ = client.send(&[what]).unwrap());
        lab.await_received(9);
        std::fs::write(lab.folder.join("sent"), "").unwrap();
        let who = ["parent", "other", "parent", "other"];
        let who = who.into_iter().chain(who).chain(["parent"]).zip('a'..);
        let expected: Vec<String> = who.map(|(who, what)| format!("{what}:{who}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        expect(&client, &expected, &mut server);
    }
}
