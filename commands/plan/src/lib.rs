//! `weever plan` and `weever policy check`: the effect of a policy on a NIC that need not be there.
//!
//! [`PlanArgs`] and [`PolicyCommand`] are the command lines. The way of a plan: a model, flows and a
//! policy are read (`load`), the planner searches, and one of `render`'s formats shows the
//! result.
#![forbid(unsafe_code)]

mod args;
mod error;
mod format;
mod load;
mod plan;
mod policy;
mod render;

pub use args::{PlanArgs, PolicyCheck, PolicyCommand};
pub use error::PlanToolError;
pub use format::Format;
pub use load::{Model, load_flows, load_model, load_policy};
pub use plan::{PlannedOutput, make, run as run_plan};
pub use policy::{check as check_policy, run as run_policy};
