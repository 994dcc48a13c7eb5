//! Flows that the NIC is to drop.

use super::Search;
use super::Thoroughness::Quick;
use crate::map::Placement;
use crate::oracle::Refusal;
use crate::policy::{Change, cost_with};

impl Search {
    /// Places a flow that is to be dropped: has no rules, and the policy does not count it. Flows that
    /// would lose packets to its rules are placed anew, so that rules of their own come before.
    pub(super) fn choose_drop(&mut self, index: u32) {
        let subject = self.subject(index);
        let left = self.map.flows[index].placement.clone();
        let leave = cost_with(&mut *self.policy, &[(subject, &left, Change::Comes)]);
        let (proposals, _) = self.proposals(index);
        // A rule in a late table leaves the earlier tables to other flows.
        for proposal in proposals.iter().rev() {
            let Ok(rules) = self.try_out(index, proposal) else { continue };
            let losers = self.losers(index);
            self.commit(index, rules, crate::config::Target::Drop);
            self.drop_in(index);
            self.place_anew(&losers);
            if self.cost() < leave {
                return;
            }
            self.lift(index);
            self.withdraw(index);
            self.place_anew(&losers);
        }
        self.map.flows[index].unplaced = self.drop_would_help(index);
        self.drop_in(index);
    }

    /// The flows that lose packets to the trial, and do not want to.
    fn losers(&self, index: u32) -> Vec<u32> {
        let noted = self.journal.flows.iter().map(|(flow, _)| *flow);
        let losing = |flow: &u32| {
            let member = self.map.flows.get(*flow);
            let loses = member.is_some_and(|m| m.applied && m.placement.dropped() > 0);
            loses && *flow != index && !self.policy.drops(&self.subject(*flow))
        };
        noted.filter(losing).collect()
    }

    fn place_anew(&mut self, flows: &[u32]) {
        for flow in flows {
            self.lift(*flow);
            self.withdraw(*flow);
            self.choose(*flow, Quick);
        }
    }

    fn drop_would_help(&mut self, index: u32) -> bool {
        let subject = self.subject(index);
        let (here, nowhere) = (self.map.flows[index].placement.clone(), Placement::nowhere());
        let left = cost_with(&mut *self.policy, &[(subject, &here, Change::Comes)]);
        cost_with(&mut *self.policy, &[(subject, &nowhere, Change::Comes)]) < left
    }

    /// The flows that would lose packets if the rules which were tried out stayed, as a refusal.
    pub(super) fn losses(&self, index: u32) -> Option<Refusal> {
        let loser = *self.losers(index).first()?;
        Some(Refusal::DropsFlow { flow: self.map.flows[loser].flow.name.clone() })
    }
}
