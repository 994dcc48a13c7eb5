#![doc = include_str!("README.md")]
//!
//! ```text
//!  predicates of the ports ──compile──► Test per port, or one Switch ──► masks, test by test
//! ```

mod sets;
mod test;
#[cfg(test)]
mod tests;

use weever_block::{
    BY_PREDICATE, Block, BlockType, Buffer, Build, BuildError, Burst, Cx, Mask, Ports, Snapshot,
    bits,
};
use weever_graph::{Field, Node, Predicate};
use weever_net::state::NetState;

use crate::kinds::{NetworkState, network_state};
use crate::table::fields::{Recorded, field_values};
pub(crate) use sets::{is_forwarded6, is_ours6};
pub(crate) use test::Test;

/// The block type. It runs every node whose text says all.
pub static TYPE: BlockType = BlockType::new(
    BY_PREDICATE,
    "Sends packets by the port whose predicate holds of them.",
    &[],
    make,
);

fn make(build: &Build<'_>) -> Result<Box<dyn Block>, BuildError> {
    let ports = build.node.ports.iter();
    let stated: Vec<_> = ports.map(|port| (port.name.as_str(), &port.predicate)).collect();
    if let Some(switch) = Switch::of(&stated) {
        return Ok(Box::new(switch));
    }
    let choice = Choice::of(build.node)?;
    let network = choice.asks_network().then(|| network_state(build)).transpose()?;
    Ok(Box::new(InTurn { choice, network }))
}

/// The choice between the ports of a node that the text makes.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Tested one after the other, for packets that no earlier one took.
    tests: Vec<(usize, Test)>,
    /// The port of those that none took.
    rest: usize,
}

impl Choice {
    /// The choice of a node.
    ///
    /// # Errors
    /// A label, or a set that a field has nothing to do with.
    pub(crate) fn of(node: &Node) -> Result<Choice, BuildError> {
        // `false` comes first and is for the rest.
        let names = node.ports.iter().map(|port| port.name.as_str());
        let tested: Vec<usize> = match names.eq(["false", "true"]) {
            true => vec![1],
            false => (0..node.ports.len().saturating_sub(1)).collect(),
        };
        let rest = if tested == [1] { 0 } else { node.ports.len().saturating_sub(1) };
        let test =
            |port: &usize| Ok((*port, Test::compile(&node.ports[*port].predicate, &node.name)?));
        let tests = tested.iter().map(test).collect::<Result<_, BuildError>>()?;
        Ok(Choice { tests, rest })
    }

    fn asks_network(&self) -> bool {
        self.tests.iter().any(|(_, test)| test.asks_network())
    }

    /// The number of the port by which a packet leaves. Without a network no set has a member.
    pub(crate) fn port(&self, packet: &Buffer, network: Option<&NetState>) -> usize {
        let taken = self.tests.iter().find(|(_, test)| test.passes::<Recorded>(packet, network));
        taken.map_or(self.rest, |(port, _)| *port)
    }
}

/// Runs a choice.
struct InTurn {
    choice: Choice,
    /// If a test asks for a set.
    network: Option<NetworkState>,
}

impl Block for InTurn {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let network = self.network.as_mut().map(|network| network.load());
        let mut left = input;
        for (port, test) in &self.choice.tests {
            let taken = test.holds::<Recorded>(burst, left, network);
            ports.enable(*port, taken);
            left &= !taken;
            if left == 0 {
                return;
            }
        }
        ports.enable(self.choice.rest, left);
    }
}

/// Most values that a switch tells apart: more are quicker as tests of their own.
const MAX_VALUES: usize = 16;

/// Ports that each are for some values of one field, the last one for all others: the field is read once.
struct Switch {
    field: Field,
    values: Vec<(u128, usize)>,
    masks: Vec<Mask>,
}

impl Switch {
    /// The switch that these ports are, if they are one.
    fn of(ports: &[(&str, &Predicate)]) -> Option<Switch> {
        let (_, tested) = ports.split_last()?;
        let mut values = Vec::new();
        for (port, (name, predicate)) in tested.iter().enumerate() {
            // A boolean's `false` is for all that is not `true`.
            if *name == "false" || !equalities(predicate, port, &mut values) {
                return None;
            }
        }
        let field = values.first().map(|(field, ..)| *field)?;
        let one = values.len() <= MAX_VALUES && values.iter().all(|(other, ..)| *other == field);
        let values = values.into_iter().map(|(_, value, port)| (value, port)).collect();
        one.then(|| Switch { field, values, masks: vec![0; ports.len()] })
    }

    #[inline]
    fn port(&self, value: Option<u128>) -> usize {
        let rest = self.masks.len() - 1;
        let Some(value) = value else { return rest };
        self.values.iter().find(|(of, _)| *of == value).map_or(rest, |(_, port)| *port)
    }
}

/// Adds the values of a field for which a predicate holds; false if it is not about single values.
fn equalities(predicate: &Predicate, port: usize, values: &mut Vec<(Field, u128, usize)>) -> bool {
    match predicate {
        Predicate::Match { field, mask, value } if *mask == field.full_mask() => {
            values.push((*field, *value, port));
            true
        }
        Predicate::Or(any) => any.iter().all(|one| equalities(one, port, values)),
        _ => false,
    }
}

impl Block for Switch {
    fn run(&mut self, _: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        field_values!(Recorded, self.field, |value| {
            for task in bits(input) {
                let port = self.port(burst.get(task).and_then(value));
                self.masks[port] |= 1 << task;
            }
        });
        for (port, mask) in self.masks.iter_mut().enumerate() {
            ports.enable(port, std::mem::take(mask));
        }
    }
}
