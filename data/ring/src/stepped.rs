//! Atomics of unit tests: the standard library's, with a place before each operation at which a test can
//! have a thread stop. So every step of the algorithm is one of these places, also those of later versions.

use std::cell::RefCell;

pub(crate) use std::sync::atomic::Ordering;

thread_local! {
    static AT_STEP: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Has this thread call `stop` before each of its atomic operations from now on.
fn at_each_step(stop: impl FnMut() + 'static) {
    AT_STEP.with(|at_step| *at_step.borrow_mut() = Some(Box::new(stop)));
}

fn step() {
    AT_STEP.with(|at_step| {
        if let Some(stop) = at_step.borrow_mut().as_mut() {
            stop();
        }
    });
}

pub(crate) fn fence(order: Ordering) {
    step();
    std::sync::atomic::fence(order);
}

/// An atomic of this name and type, with steps.
macro_rules! stepped {
    ($name:ident, $value:ty) => {
        #[doc = concat!("[`", stringify!($name), "`](std::sync::atomic::", stringify!($name), ")")]
        #[repr(transparent)]
        #[allow(unreachable_pub, reason = "as public as what it stands for")]
        pub struct $name(std::sync::atomic::$name);

        #[allow(dead_code, reason = "not every width needs every operation")]
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                step();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(old, new, success, failure)
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, success, failure)
            }
        }
    };
}

stepped!(AtomicU32, u32);
stepped!(AtomicU64, u64);

mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread::{self, JoinHandle};

    use super::at_each_step;
    use crate::simulated::SimulatedKernel;
    use crate::{MultiConsumer, MultiProducer};

    const LEN: u32 = 8;
    /// Both sides of the index's wrap-around.
    const STARTS: [u32; 3] = [0, u32::MAX - 3, u32::MAX - 11];
    /// What a parked thread has in hand at most.
    const IN_HAND: usize = 3;

    struct Shared<R> {
        ring: R,
        kernel: SimulatedKernel<u64>,
    }

    fn consumers(len: u32, start: u32) -> Arc<Shared<MultiConsumer<u64>>> {
        let kernel = SimulatedKernel::new(len, start, u64::MAX).unwrap();
        // SAFETY: the memory of `kernel` lives as long as the ring beside it.
        let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
        Arc::new(Shared { ring, kernel })
    }

    fn producers(len: u32, start: u32) -> Arc<Shared<MultiProducer<u64>>> {
        let kernel = SimulatedKernel::new(len, start, u64::MAX).unwrap();
        // SAFETY: the memory of `kernel` lives as long as the ring beside it.
        let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
        Arc::new(Shared { ring, kernel })
    }

    /// A thread that stops at one of its steps until it is let go.
    struct Parked<T> {
        thread: JoinHandle<T>,
        stopped: Receiver<()>,
        go: Sender<()>,
    }

    impl<T: Send + 'static> Parked<T> {
        fn at(step: usize, work: impl FnOnce() -> T + Send + 'static) -> Parked<T> {
            let ((stopping, stopped), (go, going)) = (channel(), channel::<()>());
            let thread = thread::spawn(move || {
                let mut left = step;
                at_each_step(move || {
                    if left == 0 {
                        stopping.send(()).unwrap();
                        going.recv().unwrap();
                    }
                    left = left.wrapping_sub(1);
                });
                work()
            });
            Parked { thread, stopped, go }
        }

        /// Whether it has so many steps. Returns when it stands there, or has ended.
        fn is_there(&self) -> bool {
            while !self.thread.is_finished() {
                if self.stopped.try_recv().is_ok() {
                    return true;
                }
                thread::yield_now();
            }
            self.stopped.try_recv().is_ok()
        }

        fn goes_on(self) -> T {
            // It may have ended without a stop.
            let _ended = self.go.send(());
            self.thread.join().unwrap()
        }
    }

    /// COREC §3.4.4: whatever a thread was about to do, the others go once round the ring at least, and what
    /// the kernel gets back is never a slot that is still in somebody's hand.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of threads, minutes in an interpreter")]
    fn a_consumer_parked_at_any_step_loses_nothing_and_stops_nobody() {
        let mut steps = 0;
        for (start, taken_before) in STARTS.into_iter().flat_map(|start| [(start, 0), (start, 2)]) {
            for step in 0.. {
                let shared = consumers(LEN, start);
                // SAFETY: only this thread gives.
                let give = |items: &[u64]| unsafe { shared.kernel.give(items) } as u64;
                let mut given = give(&(0..LEN.into()).collect::<Vec<_>>());
                // An open claim in front makes the parked thread leave marks.
                let front = (taken_before > 0).then(|| shared.ring.claim(taken_before)).flatten();
                let mut all: Vec<u64> = front.iter().flat_map(|claim| claim.iter()).collect();
                let other = Arc::clone(&shared);
                let parked = Parked::at(step, move || {
                    let mut taken = Vec::new();
                    other.ring.drain(IN_HAND as u32, |item| taken.push(item));
                    taken
                });
                if !parked.is_there() {
                    parked.goes_on();
                    steps = steps.max(step);
                    break;
                }
                let mut others = 0;
                for lap in 0..40 {
                    others += shared.ring.drain(1 + lap % 5, |item| all.push(item));
                    given += give(&[given, given + 1]);
                }
                assert!(others >= LEN as usize - IN_HAND - taken_before as usize, "step {step}");
                drop(front);
                all.extend(parked.goes_on());
                shared.ring.drain(100, |item| all.push(item));
                shared.ring.drain(100, |item| all.push(item));
                all.sort_unstable();
                assert!(all.into_iter().eq(0..given), "step {step}: each descriptor once");
                let (producer, consumer) = shared.kernel.indices();
                assert_eq!((producer, shared.ring.unreleased()), (consumer, 0), "step {step}");
            }
        }
        assert!(steps > 10, "{steps}");
    }

    /// What the kernel takes. Only for the test's own thread.
    fn taken(shared: &Shared<MultiProducer<u64>>) -> Vec<u64> {
        // SAFETY: as above.
        unsafe { shared.kernel.take(LEN) }
    }

    /// Pushes numbers from 0 on, while another thread is parked and the kernel takes all it can. Returns how many
    /// there was room for, and what the kernel has taken.
    fn others_push(shared: &Shared<MultiProducer<u64>>) -> (u64, Vec<u64>) {
        let (mut own, mut seen) = (0, Vec::new());
        for _ in 0..20 {
            own += shared.ring.push(&[own, own + 1]) as u64;
            seen.extend(taken(shared));
        }
        (own, seen)
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of threads, minutes in an interpreter")]
    fn a_producer_parked_at_any_step_loses_nothing_and_stops_nobody() {
        let mut steps = 0;
        for (start, reserved) in STARTS.into_iter().flat_map(|start| [(start, 0), (start, 2)]) {
            for step in 0.. {
                let shared = producers(LEN, start);
                let front = shared.ring.reserve_exact(reserved);
                let other = Arc::clone(&shared);
                let parked = Parked::at(step, move || other.ring.push(&[100, 101, 102]) as u64);
                if !parked.is_there() {
                    parked.goes_on();
                    steps = steps.max(step);
                    break;
                }
                let (own, mut seen) = others_push(&shared);
                assert!(own as usize >= LEN as usize - IN_HAND - reserved as usize, "step {step}");
                if let Some(front) = front {
                    front.publish_with(|i| 200 + u64::from(i));
                }
                let pushed = parked.goes_on();
                seen.extend(taken(&shared));
                let part = |from: u64, to: u64| {
                    seen.iter().copied().filter(move |item| (from..to).contains(item))
                };
                assert!(part(0, 100).eq(0..own), "step {step}: {seen:?}");
                assert!(part(100, 200).eq(100..100 + pushed), "step {step}: {seen:?}");
                assert!(part(200, 300).eq(200..200 + u64::from(reserved)), "step {step}: {seen:?}");
                assert_eq!(shared.ring.unpublished(), 0, "step {step}");
            }
        }
        assert!(steps > 10, "{steps}");
    }

    /// The same where the thread gives a reservation up, and then pushes into gaps.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of threads, minutes in an interpreter")]
    fn a_producer_parked_at_any_step_with_gaps_loses_nothing_and_stops_nobody() {
        let mut steps = 0;
        for start in STARTS {
            for step in 0.. {
                let shared = producers(LEN, start);
                drop(shared.ring.reserve_exact(1));
                let other = Arc::clone(&shared);
                let parked = Parked::at(step, move || {
                    drop(other.ring.reserve(2));
                    other.ring.push(&[100, 101, 102]) as u64
                });
                if !parked.is_there() {
                    parked.goes_on();
                    steps = steps.max(step);
                    break;
                }
                let (own, mut seen) = others_push(&shared);
                assert!(own as usize >= LEN as usize - IN_HAND, "step {step}");
                let pushed = parked.goes_on();
                seen.extend(taken(&shared));
                // What is left of the gaps.
                while shared.ring.unpublished() > 0 {
                    assert_eq!(shared.ring.push(&[200]), 1, "step {step}");
                }
                seen.extend(taken(&shared));
                seen.retain(|item| *item != 200);
                seen.sort_unstable();
                assert!(seen.into_iter().eq((0..own).chain(100..100 + pushed)), "step {step}");
                assert_eq!(shared.ring.free(), LEN, "step {step}");
            }
        }
        assert!(steps > 20, "{steps}");
    }

    /// Lets one of several threads run at a time, and at each step another one that a seed picks.
    struct Baton {
        state: Mutex<State>,
        passed: Condvar,
    }

    struct State {
        running: Vec<usize>,
        holder: usize,
        random: u64,
    }

    impl Baton {
        fn new(threads: usize, seed: u64) -> Arc<Baton> {
            let running = (0..threads).collect();
            let state = State { running, holder: 0, random: seed.wrapping_mul(2) | 1 };
            Arc::new(Baton { state: Mutex::new(state), passed: Condvar::new() })
        }

        /// Gives it to any thread that still runs, perhaps this one, and waits for it.
        fn pass(&self, me: usize) {
            let mut state = self.state.lock().unwrap();
            state.pick();
            self.passed.notify_all();
            drop(self.passed.wait_while(state, |state| state.holder != me).unwrap());
        }

        fn wait(&self, me: usize) {
            let state = self.state.lock().unwrap();
            drop(self.passed.wait_while(state, |state| state.holder != me).unwrap());
        }

        fn leave(&self, me: usize) {
            let mut state = self.state.lock().unwrap();
            state.running.retain(|thread| *thread != me);
            state.pick();
            self.passed.notify_all();
        }
    }

    impl State {
        fn pick(&mut self) {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if !self.running.is_empty() {
                self.holder = self.running[(self.random >> 33) as usize % self.running.len()];
            }
        }
    }

    /// Thousands of schedules, each of which repeats: three consumers and the kernel.
    #[test]
    fn no_schedule_loses_or_doubles_a_descriptor() {
        const TOTAL: u64 = 24;
        for seed in 0..if cfg!(miri) { 3 } else { 400 } {
            let shared = consumers(4, u32::MAX - (seed % 16) as u32);
            let baton = Baton::new(4, seed);
            let consume = |me: usize| {
                let (shared, baton) = (Arc::clone(&shared), Arc::clone(&baton));
                thread::spawn(move || {
                    baton.wait(me);
                    let pass = Arc::clone(&baton);
                    at_each_step(move || pass.pass(me));
                    let mut seen = Vec::new();
                    for _ in 0..6 {
                        shared.ring.drain(1 + (seed % 3) as u32, |item| seen.push(item));
                    }
                    baton.leave(me);
                    assert!(seen.is_sorted(), "one consumer sees the ring's order");
                    seen
                })
            };
            let threads = [1, 2, 3].map(consume);
            baton.wait(0);
            let mut given = 0;
            for _ in 0..20 {
                let items: Vec<u64> = (given..TOTAL.min(given + 3)).collect();
                // SAFETY: only this thread gives.
                given += unsafe { shared.kernel.give(&items) } as u64;
                baton.pass(0);
            }
            baton.leave(0);
            let mut all: Vec<u64> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            assert_eq!(shared.ring.unreleased(), 0, "seed {seed}: all are released");
            shared.ring.drain(100, |item| all.push(item));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..given), "seed {seed}: each descriptor once");
        }
    }
}
