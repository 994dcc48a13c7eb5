//! Rules that are entries of the program's maps.

use std::collections::{BTreeMap, HashMap};

use weever_ebpf::xdp::classify::{Classifier, Rule, Test};
use weever_plan::search::RuleId;

use super::{ProgramReport, XdpError};

#[derive(Debug)]
struct Exact {
    rule: Rule,
    /// Hits that its entry no longer counts.
    before: u64,
}

/// Rules with precedence by the number of bits that they test.
#[derive(Debug, Default)]
pub(super) struct ExactRules {
    all: BTreeMap<RuleId, Exact>,
    by_tests: HashMap<Vec<Test>, RuleId>,
    /// Hits of rules that are gone.
    pub(super) retired: u64,
}

impl ExactRules {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn insert(
        &mut self,
        classifier: &mut Classifier,
        id: RuleId,
        (rule, rank): (Rule, i64),
        outcome: &mut ProgramReport,
    ) -> Result<(), XdpError> {
        if self.by_tests.contains_key(&rule.tests) {
            return Err(XdpError::Duplicate);
        }
        let has_a_map = classifier.has_a_map_for(&rule);
        let inserted =
            classifier.insert_ranked(&rule, Some(rank)).map_err(|error| match has_a_map {
                true => error.into(),
                false => XdpError::Masks(error),
            });
        outcome.exchanged |= inserted?;
        outcome.inserted += 1;
        self.by_tests.insert(rule.tests.clone(), id);
        self.all.insert(id, Exact { rule, before: 0 });
        Ok(())
    }

    /// A rule that could not be inserted is not present for removal.
    pub(super) fn remove(
        &mut self,
        classifier: &mut Classifier,
        id: RuleId,
        outcome: &mut ProgramReport,
    ) -> Result<(), XdpError> {
        let Some(gone) = self.all.remove(&id) else { return Ok(()) };
        self.by_tests.remove(&gone.rule.tests);
        let hits = classifier.hits(&gone.rule)?.unwrap_or_default();
        self.retired += gone.before + hits;
        classifier.remove(&gone.rule)?;
        outcome.removed += 1;
        Ok(())
    }

    pub(super) fn retarget(
        &mut self,
        classifier: &mut Classifier,
        id: RuleId,
        rule: Rule,
        outcome: &mut ProgramReport,
    ) -> Result<(), XdpError> {
        let Some(present) = self.all.get_mut(&id) else { return Ok(()) };
        // The entry's counter starts again with its new target.
        let hits = classifier.hits(&present.rule)?.unwrap_or_default();
        classifier.insert(&rule)?;
        *present = Exact { rule, before: present.before + hits };
        outcome.retargeted += 1;
        Ok(())
    }

    pub(super) fn hits(
        &self,
        classifier: &Classifier,
        to: &mut Vec<(RuleId, u64)>,
    ) -> Result<(), XdpError> {
        for (id, exact) in &self.all {
            let hits = classifier.hits(&exact.rule)?.unwrap_or_default();
            to.push((*id, exact.before + hits));
        }
        Ok(())
    }
}
