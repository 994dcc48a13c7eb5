//! Connections that go to the next program, in whichever way it is started, and processes that restrict themselves.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::process::Command;

use weever_testbed::require_net_admin;

use super::lab::{BOTH, KERNELS, Lab, has};

const PYTHON: &str = "/usr/bin/python3";

/// Each connection goes to `cat`, as its standard input and output: the first octet says by which call.
const STARTS: &str = r#"
import ctypes, os, socket
LIBC = ctypes.CDLL(None, use_errno=True)
# Without a word of weever: an environment of the program's own.
PLAIN = {'PATH': '/usr/bin:/bin'}
plain = (ctypes.c_char_p * 2)(b'PATH=/usr/bin:/bin', None)
cat = (ctypes.c_char_p * 2)(b'cat', None)

def forked(run):
    def start(stream):
        if os.fork() == 0:
            os.dup2(stream.fileno(), 0)
            os.dup2(0, 1)
            stream.close()
            run()
            os._exit(9)
    return start

def spawned(spawn, path):
    def start(stream):
        fd = stream.fileno()
        # The descriptor itself is closed on exec, and another file gets its number.
        actions = [(os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_DUP2, fd, 1),
                   (os.POSIX_SPAWN_OPEN, fd, '/dev/null', os.O_RDONLY, 0)]
        spawn(path, ['cat'], PLAIN, file_actions=actions)
    return start

many = b'1 2 3 4 5 6 7 8'.split()
starts = {
    b'a': forked(lambda: LIBC.execl(b'/bin/cat', b'cat', None)),
    b'b': forked(lambda: LIBC.execl(b'/bin/sh', b'sh', b'-c', b'exec "$9"', b'x', *many, b'cat', None)),
    b'c': forked(lambda: LIBC.execlp(b'cat', b'cat', None)),
    b'd': forked(lambda: LIBC.execle(b'/bin/cat', b'cat', None, plain)),
    b'e': forked(lambda: LIBC.fexecve(os.open('/bin/cat', os.O_RDONLY), cat, plain)),
    b'f': forked(lambda: LIBC.execveat(-100, b'/bin/cat', cat, plain, 0)),
    b'g': spawned(os.posix_spawn, '/bin/cat'),
    b'h': spawned(os.posix_spawnp, 'cat'),
    b'i': forked(lambda: os.execve('/bin/cat', ['cat'], PLAIN)),
}
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
print('ready', flush=True)
while True:
    stream = listener.accept()[0]
    starts[stream.recv(1)](stream)
    stream.close()
"#;

#[test]
fn the_next_program_has_the_connection_however_it_is_started() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", STARTS]);
    for to in BOTH {
        for way in b'a'..=b'i' {
            let mut stream = lab.connect(&mut server, to, 9100);
            let told = format!("{to}, {}", char::from(way));
            // The program reads one octet; the next one gets the others.
            let text: Vec<u8> = (0..30_000u32).map(|at| at as u8).collect();
            stream.write_all(&[way]).unwrap();
            stream.write_all(&text).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            let read = stream.read_to_end(&mut all);
            read.unwrap_or_else(|e| panic!("{told}: {e} after {}; {}", all.len(), server.told()));
            assert!(all == text, "{told}: {} octets; {}", all.len(), server.told());
        }
    }
}

#[test]
fn io_uring_is_refused_with_the_reason() {
    require_net_admin!();
    if !has("python3") || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let lab = Lab::new();
    let script = "
import ctypes, errno
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
parameters, ring = ctypes.create_string_buffer(120), ctypes.create_string_buffer(1000)
print(LIBC.syscall(425, 8, parameters), errno.errorcode[ctypes.get_errno()])
# As liburing's, which a program is linked with: the first library in the order of the linker has them.
LIBC.io_uring_get_probe.restype = ctypes.c_void_p
done = [
    LIBC.io_uring_queue_init(8, ring, 0),
    LIBC.io_uring_queue_init_params(8, ring, parameters),
    LIBC.io_uring_queue_init_mem(8, ring, parameters, ring, 1000),
    LIBC.io_uring_setup(8, parameters),
]
print({errno.errorcode[-result] for result in done}, LIBC.io_uring_get_probe())
";
    let mut command = lab.command(&["--require", "--log", "--", PYTHON, "-c", script]);
    let output = lab.net.left.run(|| command.output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, "-1 EPERM\n{'EPERM'} None\n", "{errors}");
    assert_eq!(errors.matches("io_uring is refused").count(), 6, "{errors}");
}

/// Echoes a datagram by an io_uring, and by the ordinary calls if there is none; says so.
const RINGS: &str = "
#include <liburing.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
int main(void) {
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(9100) }, peer;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) != 0) return 1;
    struct io_uring ring;
    int made = io_uring_queue_init(8, &ring, 0);
    printf(made == 0 ? \"ring\\n\" : \"none\\n\");
    fflush(stdout);
    for (;;) {
        char octets[64];
        struct iovec part = { octets, sizeof octets };
        struct msghdr message = { .msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &part, .msg_iovlen = 1 };
        ssize_t got;
        if (made == 0) {
            struct io_uring_cqe *done;
            io_uring_prep_recvmsg(io_uring_get_sqe(&ring), fd, &message, 0);
            io_uring_submit(&ring);
            io_uring_wait_cqe(&ring, &done);
            got = done->res;
            io_uring_cqe_seen(&ring, done);
        } else {
            got = recvmsg(fd, &message, 0);
        }
        if (got < 0) return 2;
        sendto(fd, octets, (size_t)got, 0, (struct sockaddr *)&peer, sizeof peer);
    }
}
";

/// Compiles [`RINGS`] with more arguments; `None` without a compiler or liburing.
fn rings(lab: &Lab, name: &str, more: &[&str]) -> Option<String> {
    let (source, program) = (lab.folder.join("rings.c"), lab.folder.join(name));
    std::fs::write(&source, RINGS).unwrap();
    let there = Path::new("/usr/include/liburing.h").exists();
    if !has("cc") || !there {
        eprintln!("skipped: needs liburing-dev");
        return None;
    }
    let compiled =
        Command::new("cc").arg("-o").arg(&program).arg(&source).args(more).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program.to_str().unwrap().to_owned())
}

#[test]
fn programs_with_io_urings_of_their_own_are_refused_or_have_the_kernels_sockets() {
    require_net_admin!();
    let lab = Lab::new();
    let Some(fixed) = rings(&lab, "fixed", &["-l:liburing.a"]) else { return };
    let mut command = lab.command(&["--", &fixed]);
    let output = lab.net.left.run(|| command.output().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("makes io_urings by itself"), "{errors}");
    // By another program: in this process, sockets are the kernel's, and work.
    let mut server = lab.start(&["/bin/sh", "-c", &format!("exec {fixed}")]);
    assert_eq!(lab.ask(&mut server, (KERNELS[0], 9100), b"by a ring"), b"by a ring");
    let told = server.told();
    assert!(told.contains("ring\n"), "{told}");
    assert!(told.contains("sockets are the kernel's") && told.contains("fixed makes"), "{told}");
    drop(server);
    // A user knows better.
    let mut command = lab.command(&["--require", "--log", "--rings", "--", &fixed]);
    let log = std::fs::File::create(lab.folder.join("told")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let mut knows = lab.net.left.run(|| command.spawn().unwrap());
    lab.await_listed(":9100 ", 1);
    knows.kill().unwrap();
    knows.wait().unwrap();
    // The shared library's functions are refused: the program goes on without a ring.
    let shared = rings(&lab, "shared", &["-luring"]).unwrap();
    let mut server = lab.start(&[&shared]);
    for to in BOTH {
        assert_eq!(lab.ask(&mut server, (to, 9100), b"without"), b"without");
    }
    assert!(server.told().contains("none\n"), "{}", server.told());
    drop(server);
    if has("python3") {
        let script = "
import ctypes
made = ctypes.CDLL('liburing.so.2').io_uring_queue_init(8, ctypes.create_string_buffer(1000), 0)
print(made, ctypes.CDLL(None).getppid() > 0)
";
        assert_eq!(lab.output(&[PYTHON, "-c", script]), "-1 True\n");
    }
}

/// A child takes a connection over after it has restricted itself by a system call that has no function: it may make no
/// socket, connection or eventfd.
const SANDBOXED: &str = r#"
import ctypes, os, socket, struct
LIBC = ctypes.CDLL(None, use_errno=True)
SOCKET, CONNECT, EVENTFD, SECCOMP = 41, 42, 290, 317
def sandbox():
    denied = [SOCKET, CONNECT, EVENTFD]
    code = [(0x20, 0, 0, 0)]
    code += [(0x15, len(denied) - at, 0, number) for at, number in enumerate(denied)]
    code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050001)]
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack('H6xP', len(denied) + 3, ctypes.addressof(code)))
    assert LIBC.prctl(38, 1, 0, 0, 0) == 0
    LIBC.syscall.restype = ctypes.c_long
    assert LIBC.syscall(SECCOMP, 1, 0, program) == 0, ctypes.get_errno()
    try:
        socket.socket()
    except PermissionError:
        return
    assert False, 'the filter is not there'
listener = socket.create_server(('::', 9100), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    stream = listener.accept()[0]
    if os.fork() == 0:
        sandbox()
        while data := stream.recv(100000):
            stream.sendall(data.upper())
        os._exit(0)
    stream.close()
    os.wait()
"#;

#[test]
fn a_connection_survives_a_sandbox_that_the_child_enters_by_a_bare_system_call() {
    require_net_admin!();
    if !has("python3") || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", SANDBOXED]);
    for to in BOTH {
        let mut stream = lab.connect(&mut server, to, 9100);
        // Twice: the child waits in between.
        for _ in 0..2 {
            stream.write_all(b"abc").unwrap();
            let mut answer = [0; 3];
            let read = stream.read_exact(&mut answer);
            read.unwrap_or_else(|error| panic!("{to}: {error}; {}", server.told()));
            assert_eq!(&answer, b"ABC");
        }
    }
}
