//! A plan's rules as tests of the program, and the rules that are the program itself, asked in an order.

use weever_ebpf::sys::BpfError;
use weever_ebpf::xdp::classify::{Classifier, Field as Part, MOST_ORDERED, Rule, Target, Test};
use weever_graph::{Field, Key};
use weever_plan::config;
use weever_plan::nic::Table;
use weever_plan::search::RuleId;

use super::{ProgramReport, XdpError};

/// The cause is the limited range of the program's jumps.
const TOO_LONG: &str = "a program of so many ordered filters would be too long";

#[derive(Clone, Debug)]
struct Ordered {
    id: RuleId,
    /// Table and rank: the lowest wins, then the earlier rule.
    rank: (usize, i64),
    rule: Rule,
    before: u64,
}

/// The change of an ordered rule.
pub(super) enum Change {
    /// The rule is new, with its table and rank there.
    Insert(RuleId, (usize, i64), Rule),
    /// The rule is removed.
    Remove(RuleId),
    /// The rule sends its packets elsewhere.
    Retarget(RuleId, Target),
}

/// Rules with priorities. Every change exchanges the program, so changes come together.
#[derive(Debug, Default)]
pub(super) struct OrderedRules {
    all: Vec<Ordered>,
    /// Hits of rules that are gone.
    pub(super) retired: u64,
}

impl OrderedRules {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Nothing has changed if it fails.
    pub(super) fn change(
        &mut self,
        classifier: &mut Classifier,
        changes: Vec<Change>,
        outcome: &mut ProgramReport,
    ) -> Result<(), XdpError> {
        let mut next = OrderedRules { all: self.all.clone(), retired: self.retired };
        let mut done = ProgramReport::default();
        changes.into_iter().for_each(|change| next.note(change, &mut done));
        next.all.sort_by_key(|rule| (rule.rank, rule.id));
        let hits = next.hand_over(classifier, &mut done)?;
        // The exchange has set the counters back.
        for (rule, hits) in self.all.iter().zip(hits) {
            match next.all.iter_mut().find(|next| next.id == rule.id) {
                Some(next) => next.before += hits,
                None => next.retired += hits,
            }
        }
        *self = next;
        outcome.add(done);
        Ok(())
    }

    fn note(&mut self, change: Change, outcome: &mut ProgramReport) {
        match change {
            Change::Insert(id, rank, rule) => {
                self.all.push(Ordered { id, rank, rule, before: 0 });
                outcome.inserted += 1;
            }
            Change::Remove(id) => {
                if let Some(at) = self.all.iter().position(|rule| rule.id == id) {
                    self.retired += self.all.remove(at).before;
                    outcome.removed += 1;
                }
            }
            Change::Retarget(id, target) => {
                if let Some(present) = self.all.iter_mut().find(|rule| rule.id == id) {
                    present.rule.target = target;
                    outcome.retargeted += 1;
                }
            }
        }
    }

    /// Gives the rules to the program, and returns the hits of the earlier rules; the last rules are
    /// left out while the program is too long.
    fn hand_over(
        &mut self,
        classifier: &mut Classifier,
        outcome: &mut ProgramReport,
    ) -> Result<Vec<u64>, XdpError> {
        loop {
            let rules = self.all.iter().map(|rule| rule.rule.clone()).collect();
            let why = match classifier.set_ordered(rules) {
                Ok(hits) => {
                    outcome.exchanged = true;
                    return Ok(hits);
                }
                Err(BpfError::Setting { what }) if !self.all.is_empty() => what,
                Err(BpfError::Assemble(_)) if !self.all.is_empty() => TOO_LONG.to_string(),
                Err(error) => return Err(error.into()),
            };
            self.give_up_last(&why, outcome);
        }
    }

    fn give_up_last(&mut self, why: &str, outcome: &mut ProgramReport) {
        let most = MOST_ORDERED;
        let keep = if self.all.len() > most { most } else { self.all.len() * 7 / 8 };
        for gone in self.all.split_off(keep) {
            let error = BpfError::Setting { what: why.to_string() };
            outcome.failed.push((gone.id, error.into()));
        }
    }

    pub(super) fn hits(
        &self,
        classifier: &Classifier,
        to: &mut Vec<(RuleId, u64)>,
    ) -> Result<(), XdpError> {
        let hits = classifier.ordered_hits()?;
        to.extend(self.all.iter().zip(hits).map(|(rule, hits)| (rule.id, rule.before + hits)));
        Ok(())
    }
}

/// The tests that must hold for the rule to match, sorted.
pub(super) fn tests(table: &Table, rule: &config::Rule) -> Result<Vec<Test>, XdpError> {
    let mut tests = Vec::new();
    let said = rule.flow_type.into_iter().flat_map(|flow_type| flow_type.implies());
    for (field, value) in said {
        tests.push(test(field, Key { mask: field.full_mask(), value })?);
    }
    let keys = table.model.matches.iter().zip(&rule.keys).filter(|(_, key)| key.mask != 0);
    for (m, key) in keys {
        tests.push(test(m.field, *key)?);
    }
    tests.sort_unstable();
    tests.dedup();
    Ok(tests)
}

fn test(field: Field, key: Key) -> Result<Test, XdpError> {
    let part = part(field).ok_or(XdpError::Field { field })?;
    Ok(Test::Mask { field: part, mask: key.mask, value: key.value & key.mask })
}

fn part(field: Field) -> Option<Part> {
    Some(match field {
        Field::EthType => Part::EtherType,
        Field::VlanId => Part::Vlan,
        Field::Ip4Src => Part::Src4,
        Field::Ip4Dst => Part::Dst4,
        Field::Ip6Src => Part::Src6,
        Field::Ip6Dst => Part::Dst6,
        Field::Ip4Proto | Field::Ip6Next => Part::Protocol,
        Field::L4Src => Part::SrcPort,
        Field::L4Dst => Part::DstPort,
        Field::TcpFlags => Part::TcpFlags,
        _ => return None,
    })
}
