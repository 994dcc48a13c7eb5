//! Programs that have no descriptors for a queue, and have some later.

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, has};

const PYTHON: &str = "/usr/bin/python3";

/// Leaves so many descriptors free, and gives back what is taken away.
const HEAD: &str = "
import errno, os, resource, select, socket, time
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
def leave(count):
    spare = os.dup(0)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + count, hard))
def restore():
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
def answer(udp):
    while True:
        data, peer = udp.recvfrom(1000)
        udp.sendto(data, peer)
";

/// An address of the stack's cannot be bound on the kernel.
const BINDS_AGAIN: &str = "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def bind():
    try:
        udp.bind((ADDRESS, 9100))
        return True
    except OSError as error:
        assert error.errno == errno.EADDRNOTAVAIL, error
        return False
leave(FREE)
assert not bind()
restore()
while not bind():
    time.sleep(0.05)
answer(udp)
";

#[test]
fn sockets_are_on_the_stack_once_there_are_descriptors_for_a_queue() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    // None for the connection to the stack; one for that, and none for what the stack sends.
    for free in [0, 1] {
        let lab = Lab::new();
        let address = format!("ADDRESS, FREE = '{}', {free}", BOTH[0]);
        let script = [HEAD, &address, BINDS_AGAIN].concat();
        let mut server = lab.start(&[PYTHON, "-c", &script]);
        assert_eq!(lab.ask(&mut server, (BOTH[0], 9100), b"late"), b"late");
        let told = server.told();
        assert!(told.contains("no file descriptor is free for the application queue"), "{told}");
        assert!(told.contains("ulimit -n"), "{told}");
    }
}

/// A child waits for a socket of its parent's before it has descriptors for a queue.
const WAITS: &str = "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('0.0.0.0', 9100))
child = os.fork()
if child:
    udp.close()
    os.waitpid(child, 0)
    os._exit(1)
epoll = select.epoll()
# What wakes the set needs one.
leave(1)
epoll.register(udp, select.EPOLLIN)
restore()
assert epoll.poll()
answer(udp)
";

#[test]
fn a_child_that_waits_without_a_queue_opens_it_once_it_can() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut server = lab.start(&[PYTHON, "-c", &[HEAD, WAITS].concat()]);
    assert_eq!(lab.ask(&mut server, (BOTH[0], 9100), b"waited for"), b"waited for");
    let told = server.told();
    assert!(told.contains("no file descriptor is free for the application queue"), "{told}");
}
