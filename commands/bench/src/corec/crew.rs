//! Threads that begin at the same moment, each on a core of its own as far as there are cores.

use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weever_testbed::{allowed_cores, pin_to};

use crate::BenchError;

/// From when the last thread is ready to the moment at which all begin.
const NOTICE: Duration = Duration::from_micros(100);

/// The threads of one measurement.
pub(super) struct Crew {
    waiting: AtomicUsize,
    start: OnceLock<Instant>,
}

/// One of the threads, while it runs.
pub(super) struct Member<'c> {
    crew: &'c Crew,
}

impl Crew {
    /// Runs each of these on a thread of its own and returns what they return, in their order. Each calls
    /// [`Member::begin`] once, when it is ready. Blocks until all have ended.
    pub(super) fn run<R: Send, W>(work: impl IntoIterator<Item = W>) -> Result<Vec<R>, BenchError>
    where
        W: FnOnce(&Member<'_>) -> Result<R, BenchError> + Send,
    {
        let work: Vec<W> = work.into_iter().collect();
        let cores = allowed_cores().map_err(BenchError::of("cores"))?;
        let crew = Crew { waiting: AtomicUsize::new(work.len()), start: OnceLock::new() };
        std::thread::scope(|scope| {
            let spawn = |(number, work): (usize, W)| {
                let (core, crew) = (cores[number % cores.len()], &crew);
                scope.spawn(move || {
                    let pinned = pin_to(core).map_err(BenchError::of("cores"));
                    let member = Member { crew };
                    let result = pinned.and_then(|()| work(&member));
                    // One that failed before must not keep the others waiting.
                    result.inspect_err(|_| crew.ready())
                })
            };
            let threads: Vec<_> = work.into_iter().enumerate().map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        })
    }

    fn ready(&self) {
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Set once: the last one to be ready is alone.
            let _set_before = self.start.set(Instant::now() + NOTICE);
        }
    }
}

impl Member<'_> {
    /// Waits until all are ready, and then for the common start.
    pub(super) fn begin(&self) {
        self.crew.ready();
        let mut spins = 0_u32;
        while self.crew.start.get().is_none_or(|start| Instant::now() < *start) {
            spins += 1;
            // More threads than cores: the others have to get ready too.
            if spins.is_multiple_of(64) && self.crew.start.get().is_none() {
                std::thread::yield_now();
            }
            spin_loop();
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(super) fn nanos(&self) -> u64 {
        let start = self.crew.start.get();
        start.map_or(0, |start| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_after_all_are_ready_and_results_keep_their_order() {
        let ready = AtomicUsize::new(0);
        let work = |number: usize| {
            let ready = &ready;
            move |member: &Member<'_>| {
                ready.fetch_add(1, Ordering::SeqCst);
                member.begin();
                Ok((number, ready.load(Ordering::SeqCst)))
            }
        };
        let results = Crew::run((0..5).map(work)).unwrap();
        assert_eq!(results, (0..5).map(|number| (number, 5)).collect::<Vec<_>>());
    }

    #[test]
    fn one_that_fails_before_the_start_fails_the_run() {
        let work = |number: usize| {
            move |member: &Member<'_>| {
                if number == 1 {
                    return Err(BenchError::of("crew")("on purpose"));
                }
                member.begin();
                Ok(())
            }
        };
        let error = Crew::run((0..3).map(work)).unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{error}");
    }
}
