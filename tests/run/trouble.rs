//! Programs that die, stop, or treat descriptors badly: the stack and other programs go on.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, Program, has};

const PYTHON: &str = "/usr/bin/python3";
/// How long a program is stopped.
const STOPPED: Duration = Duration::from_secs(10);

/// Echoes datagrams and connections at a port.
const ECHOES: &str = "
import select, socket, sys
port = int(sys.argv[1])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', port))
listener = socket.create_server(('0.0.0.0', port))
streams = []
while True:
    for ready in select.select([udp, listener] + streams, [], [])[0]:
        if ready is udp:
            data, peer = udp.recvfrom(10000)
            udp.sendto(data, peer)
        elif ready is listener:
            streams.append(listener.accept()[0])
        elif data := ready.recv(100000):
            ready.sendall(data)
        else:
            streams.remove(ready)
            ready.close()
";

pub(crate) fn echoes(lab: &Lab, port: u16) -> Program {
    lab.start(&[PYTHON, "-c", ECHOES, &port.to_string()])
}

fn signal(program: &Program, signal: Signal) {
    kill(Pid::from_raw(program.child.id().cast_signed()), signal).unwrap();
}

#[test]
fn a_program_that_is_killed_at_any_time_leaves_nothing_behind() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    for round in 0..6u64 {
        let mut server = echoes(&lab, 9000);
        let mut stream = lab.connect(&mut server, BOTH[0], 9000);
        let socket = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        for number in 0..200u32 {
            // It dies with octets and datagrams of its own and of ours on their way.
            let _gone = stream.write(&[7; 3000]);
            let _gone = socket.send_to(&number.to_be_bytes(), (BOTH[0], 9000));
            if u64::from(number) == round * 31 {
                signal(&server, Signal::SIGKILL);
            }
        }
        server.child.wait().unwrap();
        // The peer hears of it, and the ports are free for the next one.
        stream.set_read_timeout(Some(super::lab::PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest);
        lab.await_listed(":9000 ", 0);
    }
    let mut server = echoes(&lab, 9000);
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"the next one"), b"the next one");
}

#[test]
fn a_program_that_is_stopped_with_full_rings_slows_nobody() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let (mut stopped, mut other) = (echoes(&lab, 9000), echoes(&lab, 9001));
    assert_eq!(lab.ask(&mut stopped, (BOTH[0], 9000), b"first"), b"first");
    let mut held = lab.connect(&mut stopped, BOTH[0], 9000);
    signal(&stopped, Signal::SIGSTOP);
    // More than its rings, frames and windows hold.
    held.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let written = std::iter::from_fn(|| held.write(&[9; 100_000]).ok()).sum::<usize>();
    let flood = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    for _ in 0..20_000 {
        let _lost = flood.send_to(&[1; 100], (BOTH[0], 9000));
    }
    let mut stream = lab.connect(&mut other, BOTH[0], 9001);
    let since = Instant::now();
    for number in (0..u32::MAX).take_while(|number| *number < 100 || since.elapsed() < STOPPED) {
        let question = number.to_be_bytes().repeat(500);
        stream.write_all(&question).unwrap();
        let mut answer = vec![0; question.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, question, "{}", other.told());
        assert_eq!(lab.ask(&mut other, (BOTH[0], 9001), &question), question);
    }
    signal(&stopped, Signal::SIGCONT);
    // Nothing of the connection is lost.
    let mut answer = vec![0; written];
    held.read_exact(&mut answer).unwrap_or_else(|error| panic!("{error}; {}", stopped.told()));
    assert!(answer.iter().all(|octet| *octet == 9));
    assert_eq!(lab.ask(&mut stopped, (BOTH[0], 9000), b"again"), b"again");
}

#[test]
fn a_child_that_dies_and_descriptors_that_are_closed_or_run_out_do_no_harm() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let script = "
import errno, os, resource, signal, socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9000))
for _ in range(5):
    child = os.fork()
    if child == 0:
        udp.sendto(b'from a child', ('10.77.0.2', 9))
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
# Everything that is not its own, as daemons do.
os.closerange(3, udp.fileno())
os.closerange(udp.fileno() + 1, 5000)
listener = socket.create_server(('0.0.0.0', 9000))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
spare = os.dup(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))
listener.settimeout(60)
try:
    listener.accept()
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
while True:
    data, peer = udp.recvfrom(1000)
    udp.sendto(data, peer)
";
    let mut server = lab.start(&[PYTHON, "-c", script]);
    let _waits = lab.connect(&mut server, BOTH[0], 9000);
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"still there"), b"still there");
    let told = server.told();
    assert!(told.contains("EMFILE"), "{told}");
}

/// Finds the descriptors that it has not made, and wants their numbers for another one.
const TAKES_NUMBERS: &str = "
import errno, os, resource, socket
def there():
    return {number for number in map(int, os.listdir('/proc/self/fd')) if os.path.exists(f'/proc/self/fd/{number}')}
before = there()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9000))
null = os.open('/dev/null', os.O_RDONLY)
others = there() - before - {udp.fileno(), null}
told = set()
for number in others:
    try:
        told.add(os.dup2(null, number))
    except OSError as error:
        told.add(errno.errorcode[error.errno])
high = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1024) // 4 * 3
print(len(others) > 2, min(others) >= high, told, flush=True)
while True:
    data, peer = udp.recvfrom(1000)
    udp.sendto(data, peer)
";

#[test]
fn descriptors_of_the_library_have_high_numbers_and_keep_them() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", TAKES_NUMBERS]);
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"still there"), b"still there");
    let told = server.told();
    assert!(told.contains("True True {'EBUSY'}"), "{told}");
}

#[test]
fn another_preloaded_library_goes_along() {
    require_net_admin!();
    let jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !has("python3") || !std::path::Path::new(jemalloc).exists() {
        return println!("skipped: needs libjemalloc2");
    }
    let lab = Lab::new();
    let mut server = echoes(&lab, 9001);
    let script = "
import socket
maps = open('/proc/self/maps').read()
print('jemalloc' in maps, 'weever' in maps)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9002))
udp.sendto(b'x', ('10.77.0.2', 9))
print(len(udp.getsockname()))
";
    let mut command = lab.command(&["--require", "--", PYTHON, "-c", script]);
    command.env("LD_PRELOAD", jemalloc).stdin(Stdio::null());
    let output = lab.net.left.run(|| command.output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"True True\n2\n", "{errors}");
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9001), b"others"), b"others");
}

#[test]
fn a_time_that_stands_still_ends_waits_all_the_same() {
    require_net_admin!();
    let faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if !has("python3") || !std::path::Path::new(faketime).exists() {
        return println!("skipped: needs libfaketime");
    }
    let lab = Lab::new();
    let mut server = echoes(&lab, 9001);
    let script = "
import select, socket, struct, time
print(time.gmtime().tm_year, 'weever' in open('/proc/self/maps').read())
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9002))
poll, epoll = select.poll(), select.epoll()
poll.register(udp, select.POLLIN)
epoll.register(udp, select.EPOLLIN)
print(poll.poll(50), epoll.poll(0.05), select.select([udp], [], [], 0.05)[0])
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 50_000))
try:
    udp.recv(1)
except BlockingIOError:
    print('in time')
";
    for (time, year) in [("@2001-09-09 01:46:40", "2001"), ("2002-09-09 01:46:40", "2002")] {
        let mut command = lab.command(&["--require", "--", PYTHON, "-c", script]);
        command.env("LD_PRELOAD", faketime).env("FAKETIME", time).stdin(Stdio::null());
        let output = lab.net.left.run(|| command.output().unwrap());
        let errors = String::from_utf8_lossy(&output.stderr);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told, format!("{year} True\n[] [] []\nin time\n"), "{errors}");
    }
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9001), b"others"), b"others");
}

/// Serves with the stack, and with the next ones.
fn serves_again(script: &str) {
    let mut lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", script, "9000"]);
    for round in 0..3 {
        let mut stream = lab.connect(&mut server, BOTH[0], 9000);
        stream.write_all(b"by a stream").unwrap();
        let mut answer = [0; 11];
        stream
            .read_exact(&mut answer)
            .unwrap_or_else(|e| panic!("{round}: {e}; {}", server.told()));
        assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"a datagram"), b"a datagram");
        lab.restart();
    }
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"a datagram"), b"a datagram");
}

#[test]
fn a_server_that_sleeps_in_epoll_comes_back_with_the_stack() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let script = ECHOES.replace("streams = []", "waits = select.epoll()\nstreams = {}");
    let script = script.replace(
        "while True:",
        "for it in udp, listener: waits.register(it, select.EPOLLIN)\nwhile True:",
    );
    let script = script.replace(
        "    for ready in select.select([udp, listener] + streams, [], [])[0]:",
        "    for number, _ in waits.poll():\n        ready = streams.get(number) or (udp if number == udp.fileno() else listener)",
    );
    let script = script.replace(
        "            streams.append(listener.accept()[0])",
        "            stream = listener.accept()[0]\n            streams[stream.fileno()] = stream\n            \
         waits.register(stream, select.EPOLLIN)",
    );
    let script = script
        .replace("data := ready.recv(100000)", "data := received(ready)")
        .replace("            streams.remove(ready)\n", "            del streams[number]\n")
        .replace("import select", "def received(it):\n    try: return it.recv(100000)\n    except OSError: return b''\nimport select");
    serves_again(&script);
}

#[test]
fn servers_that_sleep_in_select_or_in_calls_come_back_with_the_stack() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let received =
        "\ndef received(it):\n    try: return it.recv(100000)\n    except OSError: return b''\n";
    let selects = ECHOES.replace("port = int", &format!("{received}port = int"));
    serves_again(&selects.replace("data := ready.recv(100000)", "data := received(ready)"));
    serves_again(
        "
import socket, sys, threading
port = int(sys.argv[1])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', port))
listener = socket.create_server(('0.0.0.0', port))
def serve(stream):
    try:
        while data := stream.recv(100000):
            stream.sendall(data)
    except OSError:
        stream.close()
def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],)).start()
threading.Thread(target=accept).start()
while True:
    data, peer = udp.recvfrom(10000)
    udp.sendto(data, peer)
",
    );
}

#[test]
fn a_child_goes_on_when_its_parent_is_killed() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let orphan = ECHOES.replace(
        "streams = []",
        "import os, signal\nstreams = [listener.accept()[0]]\nif os.fork():\n    os.kill(os.getpid(), signal.SIGKILL)",
    );
    let mut server = lab.start(&[PYTHON, "-c", &orphan, "9000"]);
    // The first one is accepted by the parent, and served by the child.
    for _ in 0..2 {
        let mut stream = lab.connect(&mut server, BOTH[0], 9000);
        stream.write_all(b"by a stream").unwrap();
        let mut answer = [0; 11];
        stream.read_exact(&mut answer).unwrap_or_else(|e| panic!("{e}; {}", server.told()));
        assert_eq!(&answer, b"by a stream");
    }
    assert!(server.child.wait().unwrap().code().is_none(), "the parent was killed");
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9000), b"a datagram"), b"a datagram");
}
