//! The program of a run, and what runs it: a tree laid out flat, one look after the other for each packet.

use std::sync::Arc;

use weever_block::{
    Buffer, BuildError, Burst, Cx, Env, Mask, NodeWay, RunProgram, Shortcut, Snapshot, Ways, bits,
};
use weever_net::state::NetState;

use super::plan::Tree;
use super::tiles::Look;
use crate::by_predicate::Choice;
use crate::host::Network;
use crate::kinds::NetworkState;

/// The most outcomes of a look.
const OUTCOMES: usize = 4;
/// Set in a place that is a way.
const WAY: u16 = 1 << 15;
/// Set in a place that is a choice of a node's own.
const CHOICE: u16 = 1 << 14;
/// No place: the packet goes from node to node.
const NOWHERE: u16 = u16::MAX;

/// A look, and by outcome where the program goes on.
#[derive(Clone, Copy, Debug)]
struct Step {
    look: Look,
    next: [u16; OUTCOMES],
}

/// The compiled form of a run, which its executors share.
#[derive(Clone, Debug)]
pub(super) struct Program {
    first: u16,
    steps: Arc<[Step]>,
    choices: Arc<[Branch]>,
}

/// Tests of a node, and by port where the program goes on.
type Branch = (Choice, Vec<u16>);

/// A program while it is laid out.
#[derive(Default)]
struct Draft {
    steps: Vec<Step>,
    choices: Vec<Branch>,
}

impl Draft {
    /// Lays out a tree; returns its place.
    fn add(&mut self, tree: Tree, ways: &mut Vec<NodeWay>) -> u16 {
        match tree {
            Tree::Way(way) if way.is_empty() => NOWHERE,
            Tree::Way(way) => {
                ways.push(way);
                WAY | (ways.len() - 1) as u16
            }
            Tree::Look(look, outcomes) => {
                let at = self.steps.len();
                self.steps.push(Step { look, next: [NOWHERE; OUTCOMES] });
                for (outcome, tree) in outcomes.into_iter().take(OUTCOMES).enumerate() {
                    self.steps[at].next[outcome] = self.add(tree, ways);
                }
                at as u16
            }
            Tree::Choose(choice, ports) => {
                let at = self.choices.len();
                self.choices.push((choice, Vec::new()));
                for tree in ports {
                    let next = self.add(tree, ways);
                    self.choices[at].1.push(next);
                }
                CHOICE | at as u16
            }
        }
    }
}

impl Program {
    /// The program of a tree, and the ways in its numbering.
    pub(super) fn of(tree: Tree) -> (Program, Vec<NodeWay>) {
        let (mut draft, mut ways) = (Draft::default(), Vec::new());
        let first = draft.add(tree, &mut ways);
        let Draft { steps, choices } = draft;
        (Program { first, steps: steps.into(), choices: choices.into() }, ways)
    }

    /// The way of a packet.
    #[inline(always)]
    fn way(&self, net: Option<&NetState>, packet: &mut Buffer) -> Option<usize> {
        let mut at = self.first;
        loop {
            if let Some(step) = self.steps.get(usize::from(at)) {
                at = *step.next.get(step.look.at(net, packet))?;
            } else if at & WAY != 0 {
                return (at != NOWHERE).then_some(usize::from(at & !WAY));
            } else {
                at = self.choice(at, net, packet)?;
            }
        }
    }

    #[inline(never)]
    fn choice(&self, at: u16, net: Option<&NetState>, packet: &Buffer) -> Option<u16> {
        let (choice, next) = self.choices.get(usize::from(at & !CHOICE))?;
        next.get(choice.port(packet, net)).copied()
    }
}

impl RunProgram for Program {
    fn executor(&self, env: &Env) -> Result<Box<dyn Shortcut>, BuildError> {
        let network = env.get::<Network>().map(|network| NetworkState::of(&network));
        Ok(Box::new(Executor { program: self.clone(), network }))
    }
}

/// Runs a program.
struct Executor {
    program: Program,
    /// Graphs without a host have none.
    network: Option<NetworkState>,
}

impl Shortcut for Executor {
    fn run(&mut self, _: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        let net = self.network.as_mut().map(|network| network.load());
        for task in bits(input) {
            let packet = burst.get_mut(task);
            if let Some(way) = packet.and_then(|packet| self.program.way(net, packet)) {
                ways.take(way, task);
            }
        }
    }
}
