//! Policy and flows are read again while the stack runs.
//!
//! All plans are made before any of them is carried out: files that are wrong, or a policy that a device cannot satisfy,
//! change nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weever_app_server::AppServer;
use weever_engine::monotonic;
use weever_plan::nic::Nic;
use weever_steward::InitialPlan;

use super::applications::{ApplicationSockets, plan_limits};
use super::setup::PolicySetup;
use super::{Steward, Stewards};
use crate::stack::PolicyError;
use crate::stack::run::shared::Shared;

/// Has a running stack read its policy and its flows again, from any thread.
#[derive(Clone, Debug)]
pub struct PolicyReloader(Weak<Shared>);

impl PolicyReloader {
    pub(in crate::stack) fn new(shared: &Arc<Shared>) -> PolicyReloader {
        PolicyReloader(Arc::downgrade(shared))
    }

    /// Goes on with the files as they are now, and says so in the log: what both policies want stays as it is. Without a
    /// policy there is nothing to read. Blocks until devices have the new plans.
    ///
    /// # Errors
    /// [`PolicyError`]: nothing was changed. A device that does not take its new plan is no error: it is logged and tried
    /// again.
    pub fn reload(&self) -> Result<(), PolicyError> {
        // A stack that has ended has no policy.
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        let services = shared.program().services();
        let Some(setup) = PolicySetup::from_files(&shared.config, services)? else {
            tracing::info!(
                "there is no policy to read again; other settings are changed by `weever set`"
            );
            return Ok(());
        };
        let server = shared.applications.get();
        if shared.stewards.lock().is_empty() {
            setup.plan_without_devices(&shared.config)?;
        }
        shared.stewards.reload(&setup, server)?;
        if let Some(server) = server {
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            server.set_plan_limits(plan_limits(setup.policy()));
        }
        tracing::info!(policy = %setup.path().display(), "policy and flows were read again");
        Ok(())
    }
}

impl Stewards {
    fn reload(
        &self,
        setup: &PolicySetup,
        server: Option<&Arc<Mutex<AppServer>>>,
    ) -> Result<(), PolicyError> {
        let sockets = ApplicationSockets::new(server.cloned()).flows();
        let nic = |steward: &Steward| {
            is_changeable(steward, setup)?;
            Ok(steward.search().nic().clone())
        };
        let nics: Vec<Nic> = self.lock().iter().map(nic).collect::<Result<_, PolicyError>>()?;
        // Without the lock: flows come and go while plans are made, which takes long for very many.
        let plan = |nic| setup.plan_with(nic, sockets.clone());
        let plans: Vec<InitialPlan> = nics.iter().map(plan).collect::<Result<_, _>>()?;
        for (steward, planned) in self.lock().iter_mut().zip(plans) {
            // It logs a failure, and tries again.
            drop(steward.reload(monotonic(), planned));
        }
        // Sockets may have come and gone since they were listed.
        self.reloads.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// Refuses changes of what is decided when the stack starts.
fn is_changeable(steward: &Steward, setup: &PolicySetup) -> Result<(), PolicyError> {
    let (present, next) = (steward.policy(), setup.policy());
    let fixed = [
        ("`simplify`", present.simplify != next.simplify),
        ("`[sharing]`", present.document.sharing != next.document.sharing),
    ];
    match fixed.into_iter().find(|(_, is_changed)| *is_changed) {
        Some((what, _)) => Err(PolicyError::Fixed { path: setup.path().into(), what }),
        None => Ok(()),
    }
}
