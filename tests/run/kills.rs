//! Programs of several threads and processes that are killed at any moment, again and again, under traffic: nothing of
//! them is left at the stack, and another program is not disturbed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weever_testbed::{Fixture, require_net_admin};

use super::lab::{BOTH, Lab, PATIENCE, Program, has};
use super::trouble::echoes;

const PYTHON: &str = "/usr/bin/python3";
const KILLS: u32 = 200;
/// A program lives so long at the most, in microseconds: some die before they have a socket, most at work.
const LIFE: u64 = 40_000;
/// Frames that workers and rings may keep for what comes next.
const KEPT: i64 = 1024;

/// Random numbers of a seed (xorshift64*).
struct Random(u64);

impl Random {
    /// With the seed of `WEEVER_SEED`, or always the same.
    fn new() -> Random {
        let seed = std::env::var("WEEVER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(0x5eed_0013);
        eprintln!("repeat with WEEVER_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % most
    }
}

/// The maker of programs.
struct Maker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Maker {
    fn start(lab: &Lab) -> Maker {
        let mut command =
            lab.command(&["--require", "--", PYTHON, "-c", include_str!("mortal.py")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = lab.net.left.run(|| command.spawn().unwrap());
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Maker { child, to, from: BufReader::new(from) }
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.to, "{what}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim().into()
    }

    fn make(&mut self) -> Pid {
        Pid::from_raw(self.ask("new").parse().unwrap())
    }

    /// Waits for the last program's end.
    fn bury(&mut self) {
        assert_eq!(self.ask("end"), "ended");
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Traffic for a program that may not listen yet, or not live any more.
struct Traffic {
    udp: UdpSocket,
    streams: Vec<TcpStream>,
}

impl Traffic {
    fn new(lab: &Lab) -> Traffic {
        let udp = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        udp.set_nonblocking(true).unwrap();
        Traffic { udp, streams: Vec::new() }
    }

    /// Sends and receives for a while, whatever comes of it.
    fn run(&mut self, lab: &Lab, time: Duration, random: &mut Random) {
        let since = Instant::now();
        let mut octets = [7; 20_000];
        lab.net.right.run(|| {
            while since.elapsed() < time {
                let len = random.below(1400) as usize;
                let _lost = self.udp.send_to(&octets[..len], (BOTH[0], 9000));
                let _none = self.udp.recv(&mut octets);
                if self.streams.len() < 4 {
                    let left = time.saturating_sub(since.elapsed()).max(Duration::from_millis(1));
                    let at = SocketAddr::new(BOTH[0], 9000);
                    if let Ok(stream) = TcpStream::connect_timeout(&at, left) {
                        stream.set_nonblocking(true).unwrap();
                        self.streams.push(stream);
                    }
                }
                for stream in &mut self.streams {
                    let _full = stream.write(&octets);
                    // Some octets stay in the program's rings.
                    if random.below(2) == 0 {
                        let _none = stream.read(&mut octets);
                    }
                }
            }
        });
    }
}

/// Waits until a program has both kinds of sockets at work: every fourth one is killed after that.
fn await_service(lab: &Lab) {
    let since = Instant::now();
    let udp = lab.net.right.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (at, mut octets) = (SocketAddr::new(BOTH[0], 9000), [1; 100]);
    loop {
        assert!(since.elapsed() < PATIENCE, "a program does not serve");
        let _refused = udp.send_to(&octets, at);
        if udp.recv(&mut octets).is_err() {
            continue;
        }
        let stream = lab.net.right.run(|| TcpStream::connect_timeout(&at, PATIENCE));
        let Ok(mut stream) = stream else { continue };
        stream.write_all(&octets).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut octets).unwrap();
        return;
    }
}

/// A peer for connections that programs make.
fn peer(lab: &Lab) {
    let listener = lab.net.right.run(|| TcpListener::bind((Fixture::RIGHT, 9100)).unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut octets = [0; 10_000];
                while let Ok(1..) = stream.read(&mut octets) {
                    let _gone = stream.write(&octets[..100]);
                }
            });
        }
    });
}

fn listed(lab: &Lab, what: &str) -> Value {
    serde_json::from_str(&lab.up().ask(&[what, "--json"])).unwrap()
}

/// What the stack has for processes other than this one.
fn left(lab: &Lab, other: u32) -> Vec<Value> {
    let all = listed(lab, "sockets");
    let queues = all["queues"].as_array().unwrap();
    let own = queues.iter().find(|queue| queue["pid"] == other).unwrap()["queue"].clone();
    let of_another = |entry: &&Value| entry["queue"] != own;
    let sockets = all["sockets"].as_array().unwrap().iter().filter(of_another);
    let is_mortal = |entry: &&Value| {
        let end = |key: &str, ends: &str| entry[key].as_str().unwrap().ends_with(ends);
        let waits = entry["state"] == "time-wait";
        (end("local", ":9000") || end("peer", ":9100")) && !waits
    };
    let connections = all["connections"].as_array().unwrap().iter().filter(is_mortal);
    let queues = queues.iter().filter(of_another);
    queues.chain(sockets).chain(connections).cloned().collect()
}

/// Waits until nothing is left.
fn await_nothing(lab: &Lab, other: u32, round: u32) {
    let since = Instant::now();
    loop {
        let left = left(lab, other);
        if left.is_empty() {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "kill {round} leaves {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Frames that nobody has, in all pools.
fn free(lab: &Lab) -> i64 {
    let pools = listed(lab, "status");
    pools["pools"].as_array().unwrap().iter().map(|pool| pool["available"].as_i64().unwrap()).sum()
}

/// Another program answers, by the connection that it has had all the time.
fn is_well(lab: &Lab, other: &mut Program, stream: &mut TcpStream, round: u32) {
    let question = round.to_be_bytes().repeat(400);
    stream.write_all(&question).unwrap();
    let mut answer = vec![0; question.len()];
    stream.read_exact(&mut answer).unwrap_or_else(|e| panic!("{round}: {e}; {}", other.told()));
    assert_eq!(answer, question);
    assert_eq!(lab.ask(other, (BOTH[0], 9001), &question), question);
}

#[test]
fn two_hundred_kills_at_random_moments_leave_nothing_behind() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    peer(&lab);
    let mut random = Random::new();
    let mut other = echoes(&lab, 9001);
    let mut stream = lab.connect(&mut other, BOTH[0], 9001);
    is_well(&lab, &mut other, &mut stream, 0);
    let (pid, mut before) = (other.child.id(), None);
    let mut maker = Maker::start(&lab);
    for round in 1..=KILLS {
        let program = maker.make();
        if round.is_multiple_of(4) {
            await_service(&lab);
        }
        let mut traffic = Traffic::new(&lab);
        traffic.run(&lab, Duration::from_micros(random.below(LIFE)), &mut random);
        let all = Pid::from_raw(-program.as_raw());
        if random.below(3) == 0 {
            // Its child goes on for a while, with what it has inherited.
            kill(program, Signal::SIGKILL).unwrap();
            traffic.run(&lab, Duration::from_micros(random.below(LIFE / 4)), &mut random);
        }
        // A program that was killed before it had a group of its own is gone.
        let _gone = kill(all, Signal::SIGKILL);
        let _gone = kill(program, Signal::SIGKILL);
        maker.bury();
        // A connection whose program had read everything ends in order, and waits for its peer to close.
        drop(traffic);
        await_nothing(&lab, pid, round);
        is_well(&lab, &mut other, &mut stream, round);
        if round == KILLS / 4 {
            before = Some(free(&lab));
        }
    }
    let (before, after) = (before.unwrap(), free(&lab));
    eprintln!("frames free after {} kills: {before}, after {KILLS}: {after}", KILLS / 4);
    assert!(after >= before - KEPT, "{before} frames were free, now {after}");
}

/// A server that is killed once it has looked at a request, or has read it as well.
const DIES: &str = "
import os, signal, socket, sys
stream = socket.create_server(('0.0.0.0', int(sys.argv[1]))).accept()[0]
stream.recv(64, socket.MSG_PEEK)
if sys.argv[2] == 'reads':
    stream.recv(64)
os.kill(os.getpid(), signal.SIGKILL)
";

#[test]
fn a_killed_programs_connection_ends_in_order_if_it_has_read_everything() {
    require_net_admin!();
    if !has("python3") {
        return;
    }
    let lab = Lab::new();
    for (port, does, is_reset) in [(9003, "reads", false), (9004, "looks", true)] {
        let mut server = lab.start(&[PYTHON, "-c", DIES, &port.to_string(), does]);
        let mut stream = lab.connect(&mut server, BOTH[0], port);
        stream.write_all(b"request").unwrap();
        let ended = stream.read(&mut [0; 64]);
        match ended {
            Ok(octets) => assert!(octets == 0 && !is_reset, "{does}: {octets} octets"),
            Err(error) => assert!(is_reset, "{does}: {error}; {}", server.told()),
        }
    }
}
