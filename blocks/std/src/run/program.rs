//! The program of a run, and what runs it: a tree laid out flat, one look after the other for each packet.

use std::sync::Arc;

use weever_block::{
    Buffer, BuildError, Burst, Cx, Env, Mask, NodeWay, RunProgram, Shortcut, Snapshot, Ways, bits,
};
use weever_net::state::NetState;

use super::acts::{Around, Host, Run};
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
/// Set in a place that is an act.
const ACT: u16 = 1 << 13;
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
    /// Whether its first looks are the usual ones, each behind the first outcome of the one before.
    is_usual: bool,
    steps: Arc<[Step]>,
    choices: Arc<[Branch]>,
    acts: Arc<[Deed]>,
}

/// Tests of a node, and by port where the program goes on.
type Branch = (Choice, Vec<u16>);

/// An act, and where the program goes on when it is done or has declined.
#[derive(Clone, Copy)]
struct Deed {
    run: Run,
    next: [u16; 2],
}

impl std::fmt::Debug for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deed({:?})", self.next)
    }
}

/// A program while it is laid out.
#[derive(Default)]
struct Draft {
    steps: Vec<Step>,
    choices: Vec<Branch>,
    acts: Vec<Deed>,
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
            Tree::Act(run, parts) => {
                let at = self.acts.len();
                self.acts.push(Deed { run, next: [NOWHERE; 2] });
                let [done, declined] = *parts;
                self.acts[at].next = [self.add(done, ways), self.add(declined, ways)];
                ACT | at as u16
            }
        }
    }
}

/// The looks at a datagram over IPv4, which is what most packets are.
const USUAL: [Look; 5] = [Look::Link, Look::Ip4, Look::Ends4, Look::Whole4, Look::Udp];

fn is_usual(first: u16, steps: &[Step]) -> bool {
    let mut behind = steps.windows(2).take(USUAL.len() - 1).zip(1..);
    first == 0
        && steps.len() >= USUAL.len()
        && steps.iter().zip(USUAL).all(|(step, look)| step.look == look)
        && behind.all(|(pair, next)| pair[0].next[0] == next)
}

impl Program {
    /// The program of a tree, and the ways in its numbering.
    pub(super) fn of(tree: Tree) -> (Program, Vec<NodeWay>) {
        let (mut draft, mut ways) = (Draft::default(), Vec::new());
        let first = draft.add(tree, &mut ways);
        let Draft { steps, choices, acts } = draft;
        let (steps, choices, acts): (Arc<[Step]>, _, _) =
            (steps.into(), choices.into(), acts.into());
        let is_usual = is_usual(first, &steps);
        (Program { first, is_usual, steps, choices, acts }, ways)
    }

    /// Where the program goes on after its first looks, if they are the usual ones: one function, in which no
    /// look has to be found, and what one reads the next one knows.
    #[inline(always)]
    fn usual(&self, net: Option<&NetState>, packet: &mut Buffer) -> Option<u16> {
        macro_rules! looks {
            ($($look:ident)*) => {{
                let mut at = 0;
                $(
                    let outcome = Look::$look.at(net, packet);
                    let next = *self.steps.get(at)?.next.get(outcome)?;
                    at += 1;
                    if usize::from(next) != at {
                        return Some(next);
                    }
                )*
                Some(at as u16)
            }};
        }
        looks!(Link Ip4 Ends4 Whole4 Udp)
    }

    /// The way of a packet.
    #[inline(always)]
    fn way(
        &self,
        net: Option<&NetState>,
        around: Option<&Around<'_>>,
        packet: &mut Buffer,
    ) -> Option<usize> {
        let mut at = if self.is_usual { self.usual(net, packet)? } else { self.first };
        loop {
            if at & WAY != 0 {
                return (at != NOWHERE).then_some(usize::from(at & !WAY));
            } else if let Some(step) = self.steps.get(usize::from(at)) {
                at = *step.next.get(step.look.at(net, packet))?;
            } else if at & ACT != 0 {
                at = self.act(at, around, packet);
            } else {
                at = self.choice(at, net, packet)?;
            }
        }
    }

    /// Acts one after the other: behind one come only acts and ways.
    #[inline(always)]
    fn act(&self, mut at: u16, around: Option<&Around<'_>>, packet: &mut Buffer) -> u16 {
        while at & WAY == 0
            && let Some(deed) = self.acts.get(usize::from(at ^ ACT))
        {
            let declined = !around.is_some_and(|around| (deed.run)(around, packet));
            at = deed.next[usize::from(declined)];
        }
        at
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
        let host = if self.acts.is_empty() { None } else { Host::of(env) };
        Ok(Box::new(Executor { program: self.clone(), network, host }))
    }
}

/// Runs a program.
struct Executor {
    program: Program,
    /// Graphs without a host have none.
    network: Option<NetworkState>,
    /// The same, for programs with acts.
    host: Option<Host>,
}

impl Shortcut for Executor {
    fn run(&mut self, cx: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        let net = self.network.as_mut().map(|network| network.load());
        let around = self.host.as_mut().map(|host| host.around(cx));
        for task in bits(input) {
            let packet = burst.get_mut(task);
            let way = |packet| self.program.way(net, around.as_ref(), packet);
            if let Some(way) = packet.and_then(way) {
                ways.take(way, task);
            }
        }
    }
}
