//! Keeps a policy satisfied while flows come and go: one loop for every kind of target.
//!
//! ```text
//!  CheckedPolicy, flows of files          Receivers: workers' graphs and wait modes
//!           │                                  ▲ prepare, commit, modes
//!           ▼                                  │
//!        Planned ──► Steward: Search ── plan ──┴─► Target: XDP program, NIC
//!                         ▲                              │
//!                         └── came, gone ── Watch ◄──────┘ traffic, hits
//! ```
//! The path of data, in the order of one [`Steward::step`]:
//! 1. The [`Target`] reports the five-tuples seen since the last step, and once a second how often
//!    the filters of five-tuples were hit. The steward counts both per flow.
//! 2. The [`Watch`](weever_plan::watch::Watch) turns packets into rates, and reports which five-tuples have
//!    become worth a filter and which have ended.
//! 3. Those are classified by the [`CheckedPolicy`](weever_policy::policy::CheckedPolicy), and added to
//!    or removed from the [`Search`](weever_plan::search::Search). A flow that would break the policy is
//!    not added: it stays where unregistered traffic goes.
//! 4. The target brings the plan's changes onto the device, between two calls of the
//!    [`Receivers`]: before it, they get ready for packets that may arrive next, after it they forget
//!    those that can no longer arrive. Filters that the device refuses are reported to the search,
//!    which plans around them.
//!
//! Targets are [`ProgramTarget`] (a program sorts packets into the queues of weever's workers, or onto
//! CPUs for the kernel's stack) and [`NicTarget`] (the NIC's own filters, by `ethtool`'s calls). The
//! receivers are the daemon's workers, or [`NoReceivers`] where the kernel's stack receives. The
//! daemon, `weever steer` and `weever bench isolation` run the same steward, each in a thread of its own
//! ([`StewardThread`]) or in its main thread with [`pause_after`] between steps.
#![forbid(unsafe_code)]

mod applications;
mod attach;
mod features;
mod nic;
mod plan;
mod program;
mod steward;
mod target;
#[cfg(test)]
mod tests;
mod thread;

pub use attach::{Attachment, ProgramMode};
pub use nic::{NicTarget, SharedNicSteering};
pub use plan::{InitialPlan, Origin};
pub use program::ProgramTarget;
pub use steward::{FlowCount, Settings, Stats, Step, Steward};
pub use target::{Applied, Arrivals, NoReceivers, Receivers, Switch, Target, TargetError};
pub use thread::{StewardThread, pause_after};
