//! A policy and the flows that are known beforehand, with a plan for them.

use weever_plan::embed::Host;
use weever_plan::flow::Conj;
use weever_plan::nic::Nic;
use weever_plan::search::{FlowId, Options, OthersRule, Search};
use weever_plan::watch::FiveTuple;
use weever_policy::Problems;
use weever_policy::flows::FlowSpec;
use weever_policy::policy::CheckedPolicy;

use crate::applications::AppPackets;

/// The origin of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The file of flows.
    File,
    /// A service of the process that steers, with its port.
    Service(&'static str, u16),
    /// A socket of an application that the steering process serves, or a flow that was registered at
    /// it.
    Application {
        /// The number of the socket.
        socket: u32,
        /// The number of the flow; 0 for everything to the socket.
        flow: u32,
    },
    /// Observed packets of the five-tuple.
    Traffic(FiveTuple),
}

/// A search with a plan for the flows that are known beforehand.
pub struct InitialPlan {
    pub(crate) search: Search,
    pub(crate) policy: CheckedPolicy,
    /// The registered flows, with the five-tuples of flows that are one.
    pub(crate) flows: Vec<(FlowId, Origin, Option<FiveTuple>)>,
    /// The packets of the registered flows.
    pub(crate) packets: Vec<Conj>,
    /// Those of them that belong to applications.
    pub(crate) app_packets: AppPackets,
}

impl InitialPlan {
    /// Classifies the flows and plans for them on `nic`. `host` has the graph that counts if the policy
    /// has a section `[paths]`. [`InitialPlan::complaints`] tells whether the plan is good enough. The
    /// problems are flows that name an unknown class; they were planned for by the class of their
    /// packets.
    pub fn new(
        mut policy: CheckedPolicy,
        specs: impl IntoIterator<Item = (Origin, FlowSpec)>,
        nic: Nic,
        options: Options,
        host: Option<&Host<'_>>,
    ) -> (InitialPlan, Problems) {
        let (origins, specs): (Vec<_>, Vec<_>) = specs.into_iter().unzip();
        let tuples: Vec<_> = specs.iter().map(|spec| five_tuple(&spec.parts)).collect();
        let packets = specs.iter().flat_map(|spec| spec.parts.iter().cloned()).collect();
        let of_apps: Vec<_> =
            specs.iter().map(|spec| Some((spec.parts.clone(), spec.app.clone()?))).collect();
        let (mut flows, problems) = policy.classify(specs);
        // Flows that the policy itself needs come last, and are not counted.
        flows.extend(policy.standing_flows());
        let mut search = Search::new(nic, policy.cost_function(host), options);
        let ids = search.run(flows);
        let mut app_packets = AppPackets::default();
        for (id, (parts, app)) in
            ids.iter().zip(&of_apps).filter_map(|(id, of)| Some((id, of.as_ref()?)))
        {
            app_packets.insert(*id, parts, app);
        }
        let ids = ids.into_iter().zip(origins).zip(tuples);
        let flows = ids.map(|((id, origin), tuple)| (id, origin, tuple)).collect();
        (InitialPlan { search, policy, flows, packets, app_packets }, problems)
    }

    /// The policy.
    pub fn policy(&self) -> &CheckedPolicy {
        &self.policy
    }

    /// The packets of the registered flows.
    pub fn packets(&self) -> &[Conj] {
        &self.packets
    }

    /// The search, for looking at its plan.
    pub fn search(&mut self) -> &mut Search {
        &mut self.search
    }

    /// Plans around rules that others made on the device.
    pub fn plan_around(&mut self, others: Vec<OthersRule>) {
        self.search.plan_around(others);
    }

    /// Why the plan does not satisfy the policy, a line each; none if it does.
    pub fn complaints(&mut self) -> Vec<String> {
        complaints(&mut self.search, &self.policy)
    }
}

/// Why the present plan does not satisfy the policy, a line each; none if it does.
pub(crate) fn complaints(search: &mut Search, policy: &CheckedPolicy) -> Vec<String> {
    if search.cost().is_acceptable() {
        return Vec::new();
    }
    let plan = search.plan();
    let mut lines = plan.complaints.clone();
    lines.extend(plan.shortages.iter().map(|shortage| {
        let flows = if shortage.flows == 1 { "flow" } else { "flows" };
        let class = policy.document.class_name(shortage.class);
        let (count, table, reason) = (shortage.flows, &shortage.table, &shortage.reason);
        format!("{count} {flows} of class `{class}`: {table}: {reason}")
    }));
    if search.nic().tables.is_empty() {
        lines.push(format!("{} has no filters that could steer flows", plan.nic));
    }
    lines
}

/// The five-tuple that a flow is, if it is one.
pub(crate) fn five_tuple(parts: &[Conj]) -> Option<FiveTuple> {
    match parts {
        [part] => FiveTuple::of(part),
        _ => None,
    }
}
