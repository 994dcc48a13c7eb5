//! What can be asked of a steward; nothing is changed by it.

use std::collections::HashMap;

use weever_plan::config::Configuration;
use weever_plan::search::{FlowId, Plan, RuleId, Search};
use weever_policy::policy::CheckedPolicy;

use super::{FlowCount, Stats, Steward};
use crate::plan::complaints;
use crate::target::{Arrivals, Switch, TargetError};

impl Steward {
    /// The device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy.
    pub fn policy(&self) -> &CheckedPolicy {
        &self.policy
    }

    /// The search, for looking at its NIC and its cost.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// The present plan. Takes time in proportion to flows and filters.
    pub fn plan(&mut self) -> Plan {
        self.search.plan()
    }

    /// The counts of a flow; `None` for one that the policy itself needs.
    pub fn flow(&self, id: FlowId) -> Option<&FlowCount> {
        self.flows.get(&id)
    }

    /// How often each filter was hit; `None` if the device does not count that.
    pub fn hits(&self) -> Option<HashMap<RuleId, u64>> {
        Some(self.target.hits()?.into_iter().collect())
    }

    /// The flows that are counted without filters.
    pub fn counted_flows(&self) -> Vec<FlowId> {
        match self.target.counts_flows() {
            true => self.tuples.values().copied().collect(),
            false => Vec::new(),
        }
    }

    /// How many frames arrived where, as far as the device counts them.
    ///
    /// # Errors
    /// [`TargetError`] if the counters cannot be read.
    pub fn arrivals(&mut self) -> Result<Arrivals, TargetError> {
        self.target.arrivals(&self.search)
    }

    /// The switches that the plan relies on, read back from the device.
    ///
    /// # Errors
    /// [`TargetError`] if the device cannot be read.
    pub fn switches(&mut self) -> Result<Vec<Switch>, TargetError> {
        self.target.switches(&self.search)
    }

    /// The configuration that was applied last.
    pub fn configuration(&self) -> Configuration {
        self.target.configuration(&self.search)
    }

    /// The number of filters on the device.
    pub fn filters(&self) -> usize {
        self.target.filters()
    }

    /// Why the device is not as the policy wants it.
    pub fn problem(&self) -> Option<String> {
        let failure = self.failure.as_ref().map(|failure| failure.message.clone());
        failure.or_else(|| self.target.shortfall()).or_else(|| self.shortfall.clone())
    }

    /// Whether the device has gone to another network namespace, with the filters that it had.
    pub fn has_moved(&mut self) -> bool {
        self.target.has_moved()
    }

    /// Why the present plan does not satisfy the policy, a line each; none if it does.
    pub fn complaints(&mut self) -> Vec<String> {
        complaints(&mut self.search, &self.policy)
    }

    /// The counts since the start.
    pub fn stats(&self) -> Stats {
        Stats { refused: self.watch.refused(), ..self.stats }
    }
}
