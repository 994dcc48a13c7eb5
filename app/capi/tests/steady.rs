//! Steady state with the stack in the application's thread: no allocation, and no system call but reads
//! and writes, which are the kicks of rings. It stands here because counting allocations and filtering
//! system calls are unsafe, which the rooms of the sockets and of the library forbid.
#![allow(unsafe_code, reason = "a counting allocator, and a filter of system calls")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weever_app_library::Library;
use weever_app_sockets::{AppQueue, Event, Geometry, QueueConfig};
use weever_blocks_std::testing::frames::{PEER, PEER_MAC, udp};
use weever_host::{HostBuilder, InterfaceConfig};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Buffer, Burst, HugePages, Pool, PoolCache, PoolConfig};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all work is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the caller's word.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by the caller's word.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Set in the process that does the work, since a filter of system calls stays until its end.
const CHILD: &str = "WEEVER_STEADY_CHILD";
/// With this value, nothing is copied at the border.
const ZERO_COPY: &str = "zero-copy";
const BURST: usize = 32;

/// An echo server, and the far end of its cable.
struct Echo {
    queue: AppQueue,
    frames: PoolCache,
    cable: Box<dyn LinkQueue>,
    question: Vec<u8>,
    on_cable: VecDeque<Buffer>,
    burst: Box<Burst>,
}

fn echo(zero_copy: bool) -> Echo {
    let config = PoolConfig { frames: 2048, huge_pages: HugePages::Never, ..PoolConfig::default() };
    let pool = if zero_copy { Pool::shareable(config) } else { Pool::new(config) }.unwrap();
    let (ours, mut theirs) = pair(&MemoryConfig::default()).unwrap();
    let mut builder = HostBuilder::new(pool.clone());
    let link = builder.link(Box::new(ours));
    let eth0 = InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse().unwrap());
    builder.interface(eth0).unwrap();
    builder.neighbour(PEER.into(), PEER_MAC);
    let library = Library::start(builder, Duration::from_secs(3600)).unwrap();
    let geometry = Geometry { ring_len: 256, frames: 256, frame_size: 2048 };
    let queue = library.queue(&QueueConfig { geometry, ..QueueConfig::default() }).unwrap();
    queue.bind_udp("0.0.0.0:7".parse().unwrap()).unwrap();
    assert_eq!(queue.is_zero_copy(), zero_copy);
    Echo {
        queue,
        frames: pool.cache(),
        cable: theirs.take_queues().remove(0),
        question: udp(4000, 7, b"steady"),
        on_cable: VecDeque::with_capacity(BURST),
        burst: Box::new(Burst::new()),
    }
}

impl Echo {
    /// Sends a burst of questions, answers them, and returns how many answers came back.
    fn round(&mut self) -> usize {
        for _ in 0..BURST {
            let mut packet = self.frames.alloc().unwrap();
            assert!(packet.append(&self.question));
            self.on_cable.push_back(packet);
        }
        self.cable.tx(&mut self.frames, &mut self.on_cable).unwrap();
        self.cable.flush(&mut self.frames).unwrap();
        let mut answers = 0;
        for _ in 0..8 {
            while let Some(event) = self.queue.next().unwrap() {
                let Event::Datagram(datagram) = event else { panic!("no datagram") };
                datagram.reply().unwrap();
            }
            self.queue.commit().unwrap();
            let count = self.cable.rx(&mut self.frames, &mut self.burst, 64).unwrap();
            answers += count;
            for packet in (0..count).filter_map(|slot| self.burst.take(slot)) {
                self.frames.free(packet);
            }
        }
        answers
    }
}

/// From now on, any system call of this thread but read, write and the end of the process kills it.
fn allow_kicks_only() {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let give = libc::BPF_RET | libc::BPF_K;
    let step = |code, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut steps = [
        // The number is the first word of `seccomp_data`.
        step(load, 0, 0),
        step(equal, 3, libc::SYS_read as u32),
        step(equal, 2, libc::SYS_write as u32),
        step(equal, 1, libc::SYS_exit_group as u32),
        step(give, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(give, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until both calls have returned.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// The work: exit code 0 when all was answered and nothing allocated.
fn child() -> ! {
    let mut echo = echo(std::env::var_os(CHILD).is_some_and(|how| how == ZERO_COPY));
    // Storage grows to its size.
    let warm: usize = (0..50).map(|_| echo.round()).sum();
    assert!(warm > 0, "nothing is answered");
    allow_kicks_only();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let answers: usize = (0..200).map(|_| echo.round()).sum();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let code = match (answers, allocations) {
        (6400, 0) => 0,
        (_, 0) => 3,
        _ => 4,
    };
    // SAFETY: ends the process without running anything more.
    unsafe { libc::_exit(code) }
}

#[test]
fn steady_state_allocates_nothing_and_calls_the_system_for_kicks_only() {
    if std::env::var_os(CHILD).is_some() {
        child();
    }
    let own = std::env::current_exe().unwrap();
    let test = "steady_state_allocates_nothing_and_calls_the_system_for_kicks_only";
    for how in ["copies", ZERO_COPY] {
        let mut command = Command::new(&own);
        let ended =
            command.args([test, "--exact", "--nocapture"]).env(CHILD, how).output().unwrap();
        check(how, &ended);
    }
}

/// Panics unless all went well.
fn check(how: &str, ended: &Output) {
    let said = String::from_utf8_lossy(&ended.stderr);
    let why = match ended.status.code() {
        Some(0) => return,
        Some(3) => "some packets were not answered".into(),
        Some(4) => "memory was allocated".into(),
        Some(code) => format!("exit code {code}: {said}"),
        None => format!("a system call other than read and write: {}: {said}", ended.status),
    };
    panic!("{how}: {why}");
}
