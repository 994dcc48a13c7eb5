//! A NIC that is as it was found once nobody needs it otherwise.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_device::nic::NicSteering;

/// A NIC that several keep as a policy wants it: whoever drops it last undoes that.
#[derive(Clone, Debug)]
pub(in super::super) struct Kept(Arc<Mutex<NicSteering>>);

impl Kept {
    pub(super) fn new(steering: NicSteering) -> Kept {
        Kept(Arc::new(Mutex::new(steering)))
    }

    /// A panic of somebody else does not spoil it: what was done is written down.
    pub(super) fn lock(&self) -> MutexGuard<'_, NicSteering> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
