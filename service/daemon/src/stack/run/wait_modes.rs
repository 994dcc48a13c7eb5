//! Workers wait for packets as the classes that arrive at them want.

use std::sync::{Arc, Mutex, PoisonError};

use weever_engine as engine;
use weever_host::WorkerHandle;
use weever_plan::policy::QueueMode;

use crate::config::Mode;

/// The workers' wait modes.
pub(in crate::stack) struct WaitModes {
    workers: Arc<[WorkerHandle]>,
    /// The mode where no class names one.
    usual: Mode,
    /// The wanted modes, by link and worker.
    wanted: Mutex<Vec<Vec<Option<QueueMode>>>>,
}

impl WaitModes {
    /// All wait as the configuration says.
    pub(in crate::stack) fn new(
        workers: Arc<[WorkerHandle]>,
        usual: Mode,
        links: usize,
    ) -> WaitModes {
        WaitModes { workers, usual, wanted: Mutex::new(vec![Vec::new(); links]) }
    }

    /// Sets the modes in which the flows of a link want workers to wait from now on. Of several
    /// links, the most impatient counts.
    pub(in crate::stack) fn want(&self, link: u16, by_worker: Vec<Option<QueueMode>>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted[usize::from(link)] = by_worker;
        for (number, worker) in self.workers.iter().enumerate() {
            let most = wanted.iter().filter_map(|link| link.get(number).copied().flatten()).max();
            let mode = most.map_or(wait_mode(self.usual), mode);
            if worker.pace.mode() != mode {
                tracing::info!(worker = number, ?mode, "worker wait mode changed");
                worker.pace.set(mode);
                worker.waker.wake();
            }
        }
    }
}

/// A wait mode in the engine's terms.
pub(in crate::stack) fn wait_mode(mode: Mode) -> engine::Mode {
    match mode {
        Mode::Busy => engine::Mode::Busy,
        Mode::Adaptive => engine::Mode::default(),
        Mode::Interrupt => engine::Mode::Interrupt,
    }
}

fn mode(wanted: QueueMode) -> engine::Mode {
    wait_mode(match wanted {
        QueueMode::Busy => Mode::Busy,
        QueueMode::Adaptive => Mode::Adaptive,
        QueueMode::Interrupt => Mode::Interrupt,
    })
}

/// A mode's name in settings.
pub(in crate::stack) fn name(mode: engine::Mode) -> String {
    match mode {
        engine::Mode::Busy => Mode::Busy,
        engine::Mode::Adaptive { .. } => Mode::Adaptive,
        engine::Mode::Interrupt => Mode::Interrupt,
    }
    .to_string()
}
