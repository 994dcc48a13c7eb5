//! A predicate compiled to tests of masks: which packets of a burst pass.

use weever_block::{Buffer, BuildError, Burst, Mask, tasks_where};
use weever_graph::{Field, Predicate, Relation};
use weever_net::state::NetState;

use super::sets::{Members, members};
use crate::table::fields::{Source, field_values};

/// A condition on packets. Of several, those that cost least come first: the outcome is the same.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// Always or never.
    Constant(bool),
    /// `field & mask == value`.
    Masked { field: Field, mask: u128, value: u128 },
    /// `lo <= field <= hi`.
    Within { field: Field, lo: u128, hi: u128 },
    /// Field with field.
    Compared { left: Field, relation: Relation, right: Field },
    /// In a set of the network's.
    In(Members),
    /// Not the other.
    Not(Box<Test>),
    /// All of them.
    All(Box<[Test]>),
    /// One of them.
    Any(Box<[Test]>),
}

impl Test {
    /// The test that a predicate of `node` describes.
    ///
    /// # Errors
    /// A label, or a set that the field has nothing to do with.
    pub(crate) fn compile(predicate: &Predicate, node: &str) -> Result<Test, BuildError> {
        let all = |parts: &[Predicate]| {
            let tests = parts.iter().map(|part| Test::compile(part, node));
            let mut tests = tests.collect::<Result<Vec<_>, _>>()?;
            tests.sort_by_key(Test::cost);
            Ok(tests.into_boxed_slice())
        };
        Ok(match predicate {
            Predicate::True => Test::Constant(true),
            Predicate::False => Test::Constant(false),
            Predicate::Match { field, mask, value } => {
                Test::Masked { field: *field, mask: *mask, value: *value }
            }
            Predicate::Range { field, lo, hi } => Test::Within { field: *field, lo: *lo, hi: *hi },
            Predicate::Compare { left, relation, right } => {
                Test::Compared { left: *left, relation: *relation, right: *right }
            }
            Predicate::Member { field, set } => match members(*field, *set) {
                Some(members) => Test::In(members),
                None => return Err(refused(node, format!("`{field} in {set}` has no meaning"))),
            },
            Predicate::Atom { label, value } => {
                return Err(refused(node, format!("no block knows `pred({label},{value})`")));
            }
            Predicate::Not(inner) => Test::Not(Box::new(Test::compile(inner, node)?)),
            Predicate::And(parts) => Test::All(all(parts)?),
            Predicate::Or(parts) => Test::Any(all(parts)?),
        })
    }

    /// Roughly how long a packet takes: fields at fixed places, those that are looked for, and lookups.
    fn cost(&self) -> u32 {
        match self {
            Test::Constant(_) => 0,
            Test::Masked { field, .. } | Test::Within { field, .. } => match field {
                Field::IpUpper | Field::Icmp6Type | Field::Icmp6Code | Field::UdpLen => 8,
                Field::Ip4Alert | Field::Ip6Alert => 8,
                _ => 1,
            },
            Test::Compared { .. } => 4,
            Test::In(_) => 32,
            Test::Not(inner) => inner.cost(),
            Test::All(tests) | Test::Any(tests) => tests.iter().map(Test::cost).sum(),
        }
    }

    /// Whether it looks into the network's state.
    pub(super) fn asks_network(&self) -> bool {
        match self {
            Test::In(_) => true,
            Test::Not(inner) => inner.asks_network(),
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::asks_network),
            _ => false,
        }
    }

    /// The tasks of `input` whose packets pass, by fields from `S`. Without a network no set has a member.
    pub(crate) fn holds<S: Source>(
        &self,
        burst: &Burst,
        input: Mask,
        network: Option<&NetState>,
    ) -> Mask {
        match self {
            Test::Constant(holds) => input * Mask::from(*holds),
            Test::Masked { field, mask, value } => {
                where_value::<S>(burst, input, *field, |v| v & mask == *value)
            }
            Test::Within { field, lo, hi } => {
                where_value::<S>(burst, input, *field, |v| *lo <= v && v <= *hi)
            }
            Test::Compared { left, relation, right } => tasks_where(burst, input, |packet| {
                let both = S::value(packet, *left).zip(S::value(packet, *right));
                both.is_some_and(|(left, right)| relation.holds(left, right))
            }),
            Test::In(members) => network
                .map_or(0, |network| tasks_where(burst, input, |packet| members(network, packet))),
            Test::Not(inner) => input & !inner.holds::<S>(burst, input, network),
            Test::All(tests) => tests.iter().fold(input, |left, test| match left {
                0 => 0,
                left => test.holds::<S>(burst, left, network),
            }),
            Test::Any(tests) => tests.iter().fold(0, |passed, test| match input & !passed {
                0 => passed,
                left => passed | test.holds::<S>(burst, left, network),
            }),
        }
    }
}

impl Test {
    /// Whether one packet passes: the same as [`Test::holds`], for a packet alone.
    pub(super) fn passes<S: Source>(&self, packet: &Buffer, network: Option<&NetState>) -> bool {
        match self {
            Test::Constant(holds) => *holds,
            Test::Masked { field, mask, value } => {
                S::value(packet, *field).is_some_and(|v| v & mask == *value)
            }
            Test::Within { field, lo, hi } => {
                S::value(packet, *field).is_some_and(|v| *lo <= v && v <= *hi)
            }
            Test::Compared { left, relation, right } => {
                let both = S::value(packet, *left).zip(S::value(packet, *right));
                both.is_some_and(|(left, right)| relation.holds(left, right))
            }
            Test::In(members) => network.is_some_and(|network| members(network, packet)),
            Test::Not(inner) => !inner.passes::<S>(packet, network),
            Test::All(tests) => tests.iter().all(|test| test.passes::<S>(packet, network)),
            Test::Any(tests) => tests.iter().any(|test| test.passes::<S>(packet, network)),
        }
    }
}

/// The tasks whose packets have the field, with a value that passes. The field is chosen outside the loop.
fn where_value<S: Source>(
    burst: &Burst,
    input: Mask,
    field: Field,
    test: impl Fn(u128) -> bool,
) -> Mask {
    field_values!(S, field, |value| tasks_where(burst, input, |packet| value(packet)
        .is_some_and(&test)))
}

fn refused(node: &str, problem: String) -> BuildError {
    BuildError::Predicate { node: node.into(), problem }
}
