//! Datagrams that wait on the ring while the program does something else.

use std::net::UdpSocket;
use std::time::Duration;

use weever_testbed::require_net_admin;

use super::lab::{BOTH, Lab, has};

const PYTHON: &str = "/usr/bin/python3";

/// Reads datagrams round by round, and never all that are there.
const LATE: &str = "
import os, socket, sys, time
where, rounds, each, left = sys.argv[1], *map(int, sys.argv[2:])
udp = socket.socket(socket.AF_INET6 if ':' in where else socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((where, 9004))
open('bound', 'w').close()
got = []
for number in range(rounds):
    while not os.path.exists('sent %d' % number):
        time.sleep(0.02)
    while len(got) < (number + 1) * each - left:
        got.append(udp.recv(100))
    open('read %d' % number, 'w').close()
assert got == [b'%d' % number for number in range(len(got))], got
open('in order', 'w').close()
time.sleep(600)
";

/// A program's ring has 4,096 places, and as many frames are lent to the stack.
#[test]
fn a_ring_that_is_never_read_to_its_end_gives_places_and_frames_back() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let (rounds, each, left) = (6, 900, 50);
    // A socket of the stack alone, and one with the kernel's beside it.
    for (at, to) in [(BOTH[0].to_string(), BOTH[0]), ("::".into(), BOTH[1])] {
        let lab = Lab::new();
        let client = lab.net.right.run(|| UdpSocket::bind("[::]:0").unwrap());
        let counts = [rounds, each, left].map(|count: u64| count.to_string());
        let [rounds_told, each_told, left_told] = &counts;
        let mut program = lab.start(&[PYTHON, "-c", LATE, &at, rounds_told, each_told, left_told]);
        lab.await_file("bound", &mut program);
        for round in 0..rounds {
            for number in round * each..(round + 1) * each {
                client.send_to(number.to_string().as_bytes(), (to, 9004)).unwrap();
                // Not more than the queues on the way hold.
                if number % 64 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            lab.await_received((round + 1) * each);
            std::fs::write(lab.folder.join(format!("sent {round}")), "").unwrap();
            lab.await_file(&format!("read {round}"), &mut program);
        }
        lab.await_file("in order", &mut program);
    }
}

/// Says how many datagrams it has read before that of the kernel's socket.
const MIXED: &str = "
import os, socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(('', 9004))
open('bound', 'w').close()
while not os.path.exists('sent'):
    time.sleep(0.02)
before = 0
while udp.recv(100) != b'near':
    before += 1
open('%d before' % before, 'w').close()
";

#[test]
fn datagrams_of_the_kernel_do_not_wait_for_all_of_the_stack() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    let mut program = lab.start(&[PYTHON, "-c", MIXED]);
    lab.await_file("bound", &mut program);
    let far = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let near = lab.net.left.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    (0..100).for_each(|_| _ = far.send_to(b"far", (BOTH[0], 9004)).unwrap());
    near.send_to(b"near", "127.0.0.1:9004").unwrap();
    lab.await_received(100);
    std::fs::write(lab.folder.join("sent"), "").unwrap();
    // It looks at the kernel's socket first.
    lab.await_file("0 before", &mut program);
}
