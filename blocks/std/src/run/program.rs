//! The program of a run, and what runs it: a tree laid out flat, one look after the other for each packet.

use std::sync::Arc;

use weever_block::{
    Buffer, BuildError, Burst, Cx, Env, Mask, NodeWay, OwnCounter, RunProgram, Shortcut, Snapshot,
    Ways, bits,
};
use weever_graph::NodeId;
use weever_net::state::NetState;
use weever_net::udp::Checksum;
use weever_packet::Flags;

use super::acts::{Around, Host, Run};
use super::looks::{Look, Seen};
use super::plan::Tree;
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
    usual: Option<Usual>,
    steps: Arc<[Step]>,
    choices: Arc<[Branch]>,
    acts: Arc<[Deed]>,
    counts: CountsOfWays,
}

/// By way, the first of the run's counters for each node on it that counts [such](UNSUMMED) datagrams.
type CountsOfWays = Arc<[Box<[u8]>]>;

/// The kinds of datagrams that are right though nobody can sum them, in the order in which
/// [`VALID_CHECKSUM`](crate::udp::VALID_CHECKSUM) counts them.
const UNSUMMED: [Checksum; 2] = [Checksum::Absent, Checksum::Partial];

/// Where the looks at datagrams are, if a program begins with them: each family's one after the other, each behind the
/// first outcome of the one before. They are one function, in which no look has to be found, and what one has found the
/// next one knows. Graphs that were simplified may have one family only.
#[derive(Clone, Copy, Debug)]
struct Usual {
    four: Option<u16>,
    six: Option<u16>,
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

/// The looks at datagrams of each family, behind [`Look::Link`].
const FOUR: [Look; 4] = [Look::Ip4, Look::Ends4, Look::Whole4, Look::Udp];
const SIX: [Look; 4] = [Look::Ip6, Look::Ends6, Look::Upper6, Look::Udp];

impl Usual {
    fn of(first: u16, steps: &[Step]) -> Option<Usual> {
        let link = steps.get(usize::from(first)).filter(|step| step.look == Look::Link)?;
        let in_row = |at: u16, looks: [Look; 4]| {
            let row = steps.get(usize::from(at)..)?.get(..looks.len())?;
            let follows = |(nth, step): (usize, &Step)| {
                let next = at + nth as u16 + 1;
                step.look == looks[nth] && (nth + 1 == looks.len() || step.next[0] == next)
            };
            row.iter().enumerate().all(follows).then_some(at)
        };
        let [four, six, ..] = link.next;
        let usual = Usual { four: in_row(four, FOUR), six: in_row(six, SIX) };
        (usual.four.is_some() || usual.six.is_some()).then_some(usual)
    }
}

impl Program {
    /// The program of a tree, and in its numbering the ways, and the counters of those nodes on them that count
    /// datagrams [nobody can sum](UNSUMMED).
    pub(super) fn of(
        tree: Tree,
        counts: &dyn Fn(NodeId) -> bool,
    ) -> (Program, Vec<NodeWay>, Vec<OwnCounter>) {
        let (mut draft, mut ways) = (Draft::default(), Vec::new());
        let first = draft.add(tree, &mut ways);
        let Draft { steps, choices, acts } = draft;
        let usual = Usual::of(first, &steps);
        let (steps, choices, acts) = (steps.into(), choices.into(), acts.into());
        let (counts, counters) = counters(&ways, counts);
        (Program { first, usual, steps, choices, acts, counts }, ways, counters)
    }

    /// Counts a task on its way whose datagram is of one of the [kinds](UNSUMMED).
    #[inline(never)]
    fn count(&self, ways: &mut Ways, way: usize, task: usize, checksum: Checksum) {
        let Some(kind) = UNSUMMED.iter().position(|kind| *kind == checksum) else { return };
        for first in self.counts.get(way).into_iter().flatten() {
            ways.count(usize::from(*first) + kind, task);
        }
    }

    /// Where the program goes on with a packet after the usual looks.
    #[inline(always)]
    fn look_as_usual(
        &self,
        usual: Usual,
        net: Option<&NetState>,
        packet: &mut Buffer,
        checksum: &mut Checksum,
    ) -> Option<u16> {
        let mut seen = Seen::of(packet);
        macro_rules! leave {
            ($at:expr, $outcome:expr) => {{
                let (next, findings) = (self.next($at, $outcome)?, seen.findings());
                findings.record(packet);
                return Some(next);
            }};
        }
        // The looks in a row from a place on, as long as they have their first outcome.
        macro_rules! looks {
            ($from:expr, $($look:ident)*) => {{
                let mut at = $from;
                $(
                    let outcome = seen.look(Look::$look, net);
                    if outcome != 0 {
                        leave!(at, outcome);
                    }
                    at += 1;
                )*
                at
            }};
        }
        let at = match (seen.look(Look::Link, net), usual) {
            (0, Usual { four: Some(four), .. }) => looks!(four, Ip4 Ends4 Whole4),
            (1, Usual { six: Some(six), .. }) => looks!(six, Ip6 Ends6 Upper6),
            (outcome, _) => leave!(self.first, outcome),
        };
        seen.findings().record(packet);
        self.next(at, Look::Udp.at(packet, checksum))
    }

    /// The place behind an outcome of a look; `None`: it has none.
    #[inline(always)]
    fn next(&self, at: u16, outcome: usize) -> Option<u16> {
        self.steps.get(usize::from(at))?.next.get(outcome).copied()
    }

    /// Where the program goes on with a packet after the looks that begin here.
    #[inline(never)]
    fn look(
        &self,
        mut at: u16,
        net: Option<&NetState>,
        packet: &mut Buffer,
        checksum: &mut Checksum,
    ) -> Option<u16> {
        let mut seen = Seen::of(packet);
        while let Some(step) = self.steps.get(usize::from(at)) {
            if step.look.is_at_header() {
                at = *step.next.get(seen.look(step.look, net))?;
                continue;
            }
            seen.findings().record(packet);
            return step.next.get(step.look.at(packet, checksum)).copied();
        }
        seen.findings().record(packet);
        Some(at)
    }

    /// The way of a packet. Of a datagram, `checksum` becomes the kind.
    #[inline(always)]
    fn way(
        &self,
        net: Option<&NetState>,
        around: &mut Surroundings<'_>,
        packet: &mut Buffer,
        checksum: &mut Checksum,
    ) -> Option<usize> {
        let mut at = match self.usual {
            Some(usual) => self.look_as_usual(usual, net, packet, checksum)?,
            None => self.first,
        };
        loop {
            if at & WAY != 0 {
                return way_at(at);
            } else if usize::from(at) < self.steps.len() {
                at = self.look(at, net, packet, checksum)?;
            } else if at & ACT != 0 {
                at = self.act(at, around, packet);
            } else {
                at = self.choice(at, net, packet)?;
            }
        }
    }

    /// Acts one after the other: behind one come only acts and ways.
    #[inline(always)]
    fn act(&self, mut at: u16, around: &mut Surroundings<'_>, packet: &mut Buffer) -> u16 {
        let around = around.get();
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

/// The number of the way at a place where the program ends; `None`: the packet goes from node to node.
#[inline(always)]
fn way_at(at: u16) -> Option<usize> {
    (at != NOWHERE).then_some(usize::from(at & !WAY))
}

/// The counters of the nodes on ways that count, and by way the number of each node's first one.
fn counters(ways: &[NodeWay], counts: &dyn Fn(NodeId) -> bool) -> (CountsOfWays, Vec<OwnCounter>) {
    let mut counters: Vec<OwnCounter> = Vec::new();
    let mut first = |node: NodeId| {
        let known = counters.iter().position(|(of, _)| *of == node);
        let first = known.unwrap_or(counters.len());
        if known.is_none() {
            counters.extend((0..UNSUMMED.len() as u32).map(|counter| (node, counter)));
        }
        first as u8
    };
    let mut on_way = |way: &NodeWay| -> Box<[u8]> {
        way.iter().filter(|(node, _)| counts(*node)).map(|(node, _)| first(*node)).collect()
    };
    (ways.iter().map(&mut on_way).collect(), counters)
}

impl RunProgram for Program {
    fn executor(&self, env: &Env) -> Result<Box<dyn Shortcut>, BuildError> {
        let network = env.get::<Network>().map(|network| NetworkState::of(&network));
        let host = if self.acts.is_empty() { None } else { Host::of(env) };
        Ok(Box::new(Executor { program: self.clone(), network, host }))
    }
}

/// The state of the host that acts read, loaded when the first packet needs it: few of those that are received do.
struct Surroundings<'a> {
    host: Option<(&'a mut Host, &'a Cx<'a>)>,
    loaded: Option<Around<'a>>,
}

impl Surroundings<'_> {
    /// `None`: there is no host.
    #[inline(always)]
    fn get(&mut self) -> Option<&Around<'_>> {
        if self.loaded.is_none() {
            self.load();
        }
        self.loaded.as_ref()
    }

    #[inline(never)]
    fn load(&mut self) {
        self.loaded = self.host.take().map(|(host, cx)| host.around(cx));
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

/// Brings the packet of a task to the nearest cache, if it is to be summed.
#[inline]
fn fetch(burst: &Burst, task: Option<usize>) {
    if let Some(packet) = task.and_then(|task| burst.get(task))
        && !packet.meta().flags.has(Flags::CHECKSUM_VERIFIED)
    {
        packet.prefetch_rest();
    }
}

impl Shortcut for Executor {
    fn run(&mut self, cx: &Cx<'_>, burst: &mut Burst, input: Mask, ways: &mut Ways) {
        let net = self.network.as_mut().map(|network| network.load());
        let mut around =
            Surroundings { host: self.host.as_mut().map(|host| (host, cx)), loaded: None };
        // A program that looks at datagrams sums them.
        let mut ahead = bits(if self.program.usual.is_some() { input } else { 0 });
        fetch(burst, ahead.next());
        for task in bits(input) {
            fetch(burst, ahead.next());
            let mut checksum = Checksum::Valid;
            let way = |packet| self.program.way(net, &mut around, packet, &mut checksum);
            let Some(way) = burst.get_mut(task).and_then(way) else { continue };
            ways.take(way, task);
            if checksum != Checksum::Valid {
                self.program.count(ways, way, task, checksum);
            }
        }
    }

    fn run_alone(
        &mut self,
        cx: &Cx<'_>,
        burst: &mut Burst,
        task: usize,
        ways: &mut Ways,
    ) -> Option<usize> {
        let Executor { program, network, host } = self;
        let packet = burst.get_mut(task)?;
        let mut around = Surroundings { host: host.as_mut().map(|host| (host, cx)), loaded: None };
        // A way out begins with an act, and looks at nothing.
        if program.first & (WAY | ACT) == ACT {
            let at = program.act(program.first, &mut around, packet);
            return way_at(at);
        }
        let net = network.as_mut().map(|network| network.load());
        if program.usual.is_some() && !packet.meta().flags.has(Flags::CHECKSUM_VERIFIED) {
            packet.prefetch_rest();
        }
        let mut checksum = Checksum::Valid;
        let way = program.way(net, &mut around, packet, &mut checksum)?;
        if checksum != Checksum::Valid {
            program.count(ways, way, task, checksum);
        }
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of `row` behind each other, and behind the last one a way.
    fn in_row(row: [Look; 4]) -> Tree {
        row.into_iter()
            .rev()
            .fold(Tree::Way(NodeWay::default()), |behind, look| Tree::Look(look, vec![behind]))
    }

    #[test]
    fn looks_at_one_family_alone_are_one_function_too() {
        let none = || Tree::Way(NodeWay::default());
        let usual = |families| {
            let (program, ..) = Program::of(Tree::Look(Look::Link, families), &|_| false);
            program.usual.map(|usual| (usual.four, usual.six))
        };
        assert_eq!(usual(vec![in_row(FOUR), in_row(SIX)]), Some((Some(1), Some(5))));
        assert_eq!(usual(vec![in_row(FOUR), none()]), Some((Some(1), None)));
        assert_eq!(usual(vec![none(), in_row(SIX)]), Some((None, Some(1))));
        assert_eq!(usual(vec![none(), none()]), None);
    }
}
