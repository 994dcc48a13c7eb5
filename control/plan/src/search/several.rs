//! Exchanges of up to two flows against up to two: where no single move and no exchange of one against one
//! lowers the cost, these often do, since sums of two rates lie closer together than rates.
//!
//! What moves is a [`Bundle`]: a flow with rules, and the flows without rules of their own that they catch. The
//! policy is asked with all of its flows at the other queue; the flow map is changed only for the best exchange.

use super::Search;
use crate::config::Target;
use crate::map::Placement;
use crate::oracle;
use crate::policy::{Change, Policy, Subject};

/// Exchanges that one call looks at, at most.
const MOST_LOOKS: usize = 1 << 16;

/// Flows that go together: to where the first one's rules send them.
struct Bundle {
    leader: u32,
    at: u32,
    subjects: Vec<Subject>,
}

impl Bundle {
    fn shift(&self, policy: &mut dyn Policy, from: u32, to: u32) {
        for subject in &self.subjects {
            policy.apply(subject, &Placement::One(from), Change::Goes);
            policy.apply(subject, &Placement::One(to), Change::Comes);
        }
    }
}

/// Up to two bundles, by their positions.
type Few = [Option<usize>; 2];

/// Every choice of none, one or two.
fn choices(of: &[usize]) -> Vec<Few> {
    let mut all = vec![[None, None]];
    for (nth, one) in of.iter().enumerate() {
        all.push([Some(*one), None]);
        all.extend(of[..nth].iter().map(|other| [Some(*one), Some(*other)]));
    }
    all
}

impl Search {
    /// Takes the best exchange between each two queues, as long as there is one that lowers the cost.
    pub(super) fn exchange_several(&mut self, order: &[u32]) {
        if self.out_of_budget() || !self.may_improve() {
            return;
        }
        let mut bundles = self.bundles(order);
        let mut looks = MOST_LOOKS;
        let queues = self.nic.queues;
        loop {
            let mut changed = false;
            for a in queues.lo..=queues.hi {
                for b in a + 1..=queues.hi {
                    while self.may_improve()
                        && self.exchange_between(&mut bundles, (a, b), &mut looks)
                    {
                        changed = true;
                    }
                    if looks == 0 || self.out_of_budget() {
                        return;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// The flows that can be moved by their own rules, with those that go along.
    fn bundles(&mut self, order: &[u32]) -> Vec<Bundle> {
        order.iter().filter_map(|index| self.bundle(*index)).collect()
    }

    fn bundle(&mut self, leader: u32) -> Option<Bundle> {
        let at = self.single_queue(leader)?;
        let table = self.map.entries[*self.map.flows[leader].rules.first()?].rule.table;
        let queues = oracle::steerable(&self.nic, table)?;
        let away = (queues.lo..=queues.hi).find(|q| *q != at && self.can_reach(leader, *q))?;
        let (rules, targets) = (self.map.flows[leader].rules.clone(), self.rule_targets(leader));
        self.journal.clear();
        self.retarget(&rules, Target::Queue(away));
        let mut whole = true;
        let mut subjects = Vec::new();
        for (flow, before) in &self.journal.flows {
            let Some(member) = self.map.flows.get(*flow).filter(|m| m.applied) else { continue };
            whole &= before.queue() == Some(at) && member.placement.queue() == Some(away);
            subjects.push(Subject::of(&member.flow));
        }
        self.aim(&targets);
        self.end_trial();
        (whole && !subjects.is_empty()).then_some(Bundle { leader, at, subjects })
    }

    /// Takes the best exchange between two queues, if it lowers the cost.
    fn exchange_between(
        &mut self,
        bundles: &mut [Bundle],
        (a, b): (u32, u32),
        looks: &mut usize,
    ) -> bool {
        let at = |search: &Search, from: u32, to: u32| {
            let all = bundles.iter().enumerate().filter(|(_, bundle)| bundle.at == from);
            let all = all.filter(|(_, bundle)| search.can_reach(bundle.leader, to));
            choices(&all.map(|(nth, _)| nth).collect::<Vec<_>>())
        };
        let (here, there) = (at(self, a, b), at(self, b, a));
        let looked = here.len().saturating_mul(there.len());
        if here.len() + there.len() < 3 || looked > *looks {
            *looks = if looked > *looks { 0 } else { *looks };
            return false;
        }
        *looks -= looked;
        self.map.work.spend(looked);
        let policy = &mut *self.policy;
        let (mut least, mut best) = (policy.cost(), None);
        let shift = |policy: &mut dyn Policy, few: &Few, from: u32, to: u32| {
            few.iter().flatten().for_each(|nth| bundles[*nth].shift(policy, from, to));
        };
        for go in &here {
            shift(policy, go, a, b);
            for come in &there {
                shift(policy, come, b, a);
                let cost = policy.cost();
                if cost < least {
                    (least, best) = (cost, Some((*go, *come)));
                }
                shift(policy, come, a, b);
            }
            shift(policy, go, b, a);
        }
        best.is_some_and(|(go, come)| {
            let of = |few: Few, to: u32| few.into_iter().flatten().map(move |nth| (nth, to));
            let moves: Vec<(usize, u32)> = of(go, b).chain(of(come, a)).collect();
            self.take_moves(bundles, &moves)
        })
    }

    /// Moves bundles, unless that costs as much: packets of others may be concerned, and only the whole map
    /// decides.
    fn take_moves(&mut self, bundles: &mut [Bundle], moves: &[(usize, u32)]) -> bool {
        let before = self.cost();
        let mut targets = Vec::new();
        for (nth, to) in moves {
            targets.extend(self.rule_targets(bundles[*nth].leader));
            self.send(bundles[*nth].leader, *to);
        }
        if self.cost() >= before {
            self.journal.clear();
            self.aim(&targets);
            self.tell();
            return false;
        }
        for (nth, to) in moves {
            bundles[*nth].at = *to;
            for rule in self.map.flows[bundles[*nth].leader].rules.clone() {
                self.changes.moved(rule, &self.map.entries[rule]);
            }
        }
        true
    }
}
