//! A thread that a signal stops anywhere in its use of the ring, for seconds too: the others go on as far as the
//! kernel's protocol allows, and nothing is lost or handed out twice.
#![cfg(not(any(loom, miri)))]
#![allow(unsafe_code, reason = "rings are made of raw parts, and signals are the system's")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use weever_ring::MultiConsumer;
use weever_ring::simulated::SimulatedKernel;

const LEN: u32 = 32;
/// Signals. One of them keeps the thread for seconds.
const STOPS: usize = 300;
const LONG: Duration = Duration::from_secs(2);
/// What the others may take while the thread is stopped outside the ring: four times round it.
const LAPS: u64 = 4 * LEN as u64;
/// Room for what a thread takes, so that the stopped one is rarely within the allocator.
const MOST: usize = 1 << 20;

/// How often the thread has looked at the ring.
static LOOKS: AtomicUsize = AtomicUsize::new(0);
/// How often the handler has begun, and how often it may end.
static STOPPED: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn stop(_: libc::c_int) {
    let own = STOPPED.fetch_add(1, Ordering::SeqCst) + 1;
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    while RELEASED.load(Ordering::SeqCst) < own {
        // SAFETY: the pause is valid; `nanosleep` may be called by signal handlers.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

fn handle_signals() {
    // SAFETY: all zeros is a valid value of this type of C.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the action is valid, and its handler does nothing that a handler may not.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// The others: the kernel's part, and a consumer that sees each descriptor in the ring's order.
struct Others<'r> {
    kernel: &'r SimulatedKernel<u64>,
    ring: &'r MultiConsumer<u64>,
    given: u64,
    taken: Vec<u64>,
}

impl Others<'_> {
    fn give(&mut self) -> usize {
        let next: [u64; 4] = std::array::from_fn(|i| self.given + i as u64);
        // SAFETY: only this thread gives.
        let fits = unsafe { self.kernel.give(&next) };
        self.given += fits as u64;
        fits
    }

    fn take(&mut self) -> usize {
        self.ring.drain(3, |item| self.taken.push(item))
    }

    /// Gives and takes until it was so many, or neither can be done: then the stopped thread holds a slot.
    fn go_on(&mut self, most: u64) -> bool {
        let before = self.taken.len() as u64;
        while self.taken.len() as u64 - before < most {
            if self.give() + self.take() == 0 {
                assert_eq!(self.ring.unreleased(), LEN, "all but what it holds was taken");
                return true;
            }
        }
        false
    }
}

/// Takes descriptors in batches of several sizes; says first which thread it is.
fn consume(ring: &MultiConsumer<u64>, over: &AtomicBool, me: &Sender<libc::pthread_t>) -> Vec<u64> {
    // SAFETY: it has no conditions.
    me.send(unsafe { libc::pthread_self() }).unwrap();
    let (mut seen, mut size) = (Vec::with_capacity(MOST), 1);
    while !over.load(Ordering::Relaxed) {
        if let Some(claim) = ring.claim(size) {
            // A signal often finds the claim open, also if both threads are on one core.
            thread::yield_now();
            (0..200).for_each(|_| std::hint::spin_loop());
            seen.extend(claim.iter());
        }
        size = size % 5 + 1;
        LOOKS.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

#[test]
fn a_thread_stopped_by_a_signal_stops_nobody_and_loses_nothing() {
    handle_signals();
    let kernel = SimulatedKernel::new(LEN, u32::MAX - 100, 0u64).unwrap();
    // SAFETY: `kernel` lives until the end of the function, the scope ends before.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    let (over, (me, thread)) = (AtomicBool::new(false), channel());
    let taken = Vec::with_capacity(MOST);
    let mut others = Others { kernel: &kernel, ring: &ring, given: 0, taken };
    let stopped = thread::scope(|scope| {
        let stopped = scope.spawn(|| consume(&ring, &over, &me));
        let thread = thread.recv().unwrap();
        let mut held = 0;
        for number in 1..=STOPS {
            // It has returned from the last signal, and there is something to have in hand.
            let looks = LOOKS.load(Ordering::Relaxed);
            while LOOKS.load(Ordering::Relaxed) < looks + 2 + number % 7 {
                others.give();
                thread::yield_now();
            }
            // SAFETY: the thread runs until `over` is set.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
            while STOPPED.load(Ordering::SeqCst) < number {
                others.give();
                thread::yield_now();
            }
            let is_held = others.go_on(LAPS);
            if number == 1 {
                thread::sleep(LONG);
                assert_eq!(others.go_on(LAPS), is_held, "it is where it was");
            }
            held += usize::from(is_held);
            RELEASED.store(number, Ordering::SeqCst);
        }
        over.store(true, Ordering::Relaxed);
        println!("it held a claim {held} of {STOPS} times");
        assert!(held > 0, "no signal found it with a claim");
        stopped.join().unwrap()
    });
    others.go_on(u64::from(LEN));
    others.ring.drain(LEN, |item| others.taken.push(item));
    assert!(stopped.is_sorted() && others.taken.is_sorted(), "each sees the ring's order");
    let mut all = [stopped, others.taken].concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..others.given), "each descriptor once");
    assert_eq!(ring.unreleased(), 0);
}
