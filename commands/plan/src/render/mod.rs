//! A plan, shown.

mod commands;
mod graphs;
mod json;
mod picture;
mod table;
mod text;

use weever_plan::embed::Embedded;
use weever_plan::flow::Flow;
use weever_plan::search::{Explanation, FlowId, Plan};
use weever_policy::policy::CheckedPolicy;

use crate::load::Model;

pub(crate) use commands::ethtool;
pub(crate) use graphs::{embedded, host, of_queue, single_homed};
pub(crate) use json::json;
pub(crate) use picture::picture;
pub(crate) use table::count;
pub(crate) use text::text;

/// All that is known of a plan.
pub(crate) struct Result<'r> {
    pub(crate) model: &'r Model,
    pub(crate) page: &'r CheckedPolicy,
    /// The flows in the order of the file, which is that of the plan.
    pub(crate) flows: &'r [Flow],
    pub(crate) plan: &'r Plan,
    pub(crate) explanations: Vec<(FlowId, Explanation)>,
    /// The graphs behind the queues, if they are wanted.
    pub(crate) embedded: Vec<Embedded>,
}
