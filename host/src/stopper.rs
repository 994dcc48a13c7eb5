//! Tells a host to stop, and waits until it is told.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Tells a host to stop, from any thread. Clones tell the same host.
#[derive(Clone, Debug, Default)]
pub struct Stopper {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Stopper {
    /// Has [`RunningHost::wait`](crate::RunningHost::wait) return. Does not block; a second call
    /// changes nothing.
    pub fn stop(&self) {
        let (told, waiting) = &*self.shared;
        *told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        waiting.notify_all();
    }

    /// Blocks until [`stop`](Self::stop) was called.
    pub fn wait(&self) {
        let (told, waiting) = &*self.shared;
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        drop(waiting.wait_while(told, |told| !*told).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Tells the host to stop when it is dropped.
#[derive(Debug)]
pub(crate) struct StopOnDrop(pub(crate) Stopper);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_whether_it_is_told_before_or_after() {
        let stopper = Stopper::default();
        let waiting = stopper.clone();
        let thread = std::thread::spawn(move || waiting.wait());
        stopper.stop();
        thread.join().unwrap();
        stopper.wait();
    }

    #[test]
    fn a_thread_that_panics_tells_it_too() {
        let stopper = Stopper::default();
        let guard = StopOnDrop(stopper.clone());
        let thread = std::thread::spawn(move || {
            let _guard = guard;
            panic!("meant to be");
        });
        stopper.wait();
        assert!(thread.join().is_err());
    }
}
