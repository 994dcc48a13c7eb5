//! From a graph to a tree of looks: which test comes next, and which nodes packets have passed by then.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use weever_block::{BY_PREDICATE, BlockType, MAX_WAYS, NodeWay, RunStart};
use weever_graph::{Field, NodeId, NodeKind, Op, Predicate};

use super::acts::{ACTS, Act, Run};
use super::facts::{Fact, Facts};
use super::looks::Look;
use super::rules::{family, is_plain, read, recorded};
use super::tiles::records::{END, UDP_END};
use super::tiles::{TILES, Tile};
use crate::by_predicate::Choice;

/// How a run goes on.
pub(super) enum Tree {
    /// It is over; these nodes were passed.
    Way(NodeWay),
    /// A tile looks at the packet.
    Look(Look, Vec<Tree>),
    /// A node's own tests choose one of its ports.
    Choose(Choice, Vec<Tree>),
    /// An act does the work of nodes, or declines the packet.
    Act(Run, Box<[Tree; 2]>),
}

impl Tree {
    /// Its ways, and the nodes passed in all of them together.
    fn size(&self) -> (usize, usize) {
        match self {
            Tree::Way(way) => (1, way.len()),
            Tree::Look(_, parts) | Tree::Choose(_, parts) => {
                let sizes = parts.iter().map(Tree::size);
                sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
            }
            Tree::Act(_, parts) => {
                let [done, declined] = [parts[0].size(), parts[1].size()];
                (done.0 + declined.0, done.1 + declined.1)
            }
        }
    }
}

impl Tree {
    fn all_ways(&self, test: &dyn Fn(&NodeWay) -> bool) -> bool {
        match self {
            Tree::Way(way) => test(way),
            Tree::Look(_, parts) | Tree::Choose(_, parts) => {
                parts.iter().all(|part| part.all_ways(test))
            }
            Tree::Act(_, parts) => parts.iter().all(|part| part.all_ways(test)),
        }
    }
}

/// Where packets are that have had the same outcomes.
#[derive(Clone, Default)]
struct Place {
    facts: Facts,
    /// The metadata recorded.
    records: u8,
    /// The nodes passed, each with its port's number.
    left_by: BTreeMap<NodeId, u32>,
    /// The nodes reached, by when they run.
    ahead: BTreeSet<usize>,
    /// The nodes at which the way ends.
    ends: BTreeSet<usize>,
    /// An observer was passed, which must see packets before acts change them.
    observed: bool,
    /// Acts have changed the packet: every test to come must leave it a way that ends there.
    acted: bool,
}

/// What keeps a place from going on.
enum Stop {
    /// Nothing is ahead.
    Over,
    /// A node, whose port the facts do not tell.
    Undecided(usize),
    /// The only node that packets are at, which is left to acts.
    Acts(usize),
}

fn has_act(block: &'static BlockType) -> bool {
    ACTS.iter().any(|act| std::ptr::eq(act.blocks[0].0, block))
}

pub(super) struct Planner<'a> {
    start: &'a RunStart<'a>,
    /// By node: when it runs.
    turns: Vec<usize>,
    /// The metadata that nodes before the first one record.
    recorded: u8,
    /// The metadata that tiles have recorded too early for a node at which a way ends.
    early: Cell<u8>,
}

impl<'a> Planner<'a> {
    /// `None` if no run begins there.
    pub(super) fn new(start: &'a RunStart<'a>) -> Option<Planner<'a>> {
        let (node, block) = (start.graph.node(start.node), (start.type_of)(start.node)?);
        if recorded(node, block).is_none() && !(has_act(block) && is_plain(node)) {
            return None;
        }
        let mut turns = vec![usize::MAX; start.graph.len()];
        start.order.iter().enumerate().for_each(|(turn, node)| turns[node.index()] = turn);
        let mut planner = Planner { start, turns, recorded: 0, early: Cell::new(0) };
        planner.recorded = planner.recorded_before();
        Some(planner)
    }

    /// The metadata that nodes before the first one record.
    fn recorded_before(&self) -> u8 {
        let mut seen = BTreeSet::from([self.start.node]);
        let mut ahead = vec![self.start.node];
        let mut records = 0;
        while let Some(node) = ahead.pop() {
            for source in self.start.incoming[node.index()].iter().map(|port| port.node) {
                if seen.insert(source) {
                    records |= self.records(source).unwrap_or(0);
                    ahead.push(source);
                }
            }
        }
        records
    }

    /// The metadata recorded before the first node.
    pub(super) fn recorded(&self) -> u8 {
        self.recorded
    }

    /// The metadata that a node records, if a run may pass it.
    fn records(&self, id: NodeId) -> Option<u8> {
        recorded(self.start.graph.node(id), (self.start.type_of)(id)?)
    }

    /// The tree of the run; `None` if it does not pass its first node.
    pub(super) fn plan(&self) -> Option<Tree> {
        let mut place = Place { records: self.recorded, ..Place::default() };
        place.facts.record(self.recorded);
        place.ahead.insert(self.turns[self.start.node.index()]);
        match self.grow(place, MAX_WAYS) {
            Tree::Way(_) => None,
            tree => Some(tree),
        }
    }

    /// The tree from a place on, with at most `room` ways.
    fn grow(&self, mut place: Place, room: usize) -> Tree {
        loop {
            match self.advance(&mut place) {
                Stop::Over => return Tree::Way(self.listed(&place.left_by)),
                Stop::Undecided(turn) => match self.branch(&place, turn, room) {
                    Some(tree) => return tree,
                    None => self.end(&mut place, turn),
                },
                Stop::Acts(turn) => {
                    self.end(&mut place, turn);
                    return self.act(place, turn, room, 0);
                }
            }
        }
    }

    /// Whether packets are at this node only, and there is an act for it.
    fn may_act(&self, place: &Place, turn: usize) -> bool {
        let id = self.start.order[turn];
        place.ahead.len() == 1
            && place.ends.is_empty()
            && !place.observed
            && (self.start.type_of)(id).is_some_and(has_act)
            && is_plain(self.start.graph.node(id))
    }

    /// The tree from a node on that is left to acts: the first one that the graph has the blocks of, and for
    /// packets that it declines the next; those that all decline end here.
    fn act(&self, place: Place, turn: usize, room: usize, first: usize) -> Tree {
        let Place { left_by, .. } = &place;
        let here = || Tree::Way(self.listed(left_by));
        let found = ACTS
            .iter()
            .enumerate()
            .skip(first)
            .find_map(|(number, act)| Some((number, act.run, self.after(&place, act, turn)?)));
        let Some((number, run, next)) = found.filter(|_| room > 1) else { return here() };
        let done = self.grow(next, room - 1);
        let declined = self.act(place, turn, room - done.size().0, number + 1);
        Tree::Act(run, Box::new([done, declined]))
    }

    /// Where packets are after an act; `None` if the graph does not have its blocks in a row.
    fn after(&self, place: &Place, act: &Act, turn: usize) -> Option<Place> {
        let mut left_by = place.left_by.clone();
        let mut at = self.start.order[turn];
        let mut targets: &[NodeId] = &[];
        for (number, (block, port)) in act.blocks.iter().enumerate() {
            if number > 0 {
                at = if let [next] = targets { *next } else { return None };
            }
            let node = self.start.graph.node(at);
            let found = (self.start.type_of)(at).is_some_and(|found| std::ptr::eq(found, *block));
            if !found || !is_plain(node) {
                return None;
            }
            let port = node.ports.iter().position(|found| found.name == *port)?;
            left_by.insert(at, port as u32);
            targets = &node.ports[port].targets;
        }
        // What was known of the packet is no longer so.
        let ahead = targets.iter().map(|target| self.turns[target.index()]).collect();
        Some(Place { left_by, ahead, acted: true, ..Place::default() })
    }

    /// The way ends at this node. The node runs after the whole run, and must not see metadata that are
    /// recorded only behind it.
    fn end(&self, place: &mut Place, turn: usize) {
        let early = place.records & self.unrecorded(place, self.start.order[turn]);
        self.early.set(self.early.get() | early);
        place.ahead.remove(&turn);
        place.ends.insert(turn);
    }

    /// The metadata that a node's predicates read, and that no node before it has recorded.
    fn unrecorded(&self, place: &Place, id: NodeId) -> u8 {
        let mut reads = read(self.start.graph.node(id));
        // A datagram's end takes the place of its packet's.
        if reads & END != 0 {
            reads |= UDP_END & place.records;
        }
        reads & !place.facts.recorded()
    }

    /// Passes nodes as long as the facts say by which port.
    fn advance(&self, place: &mut Place) -> Stop {
        while let Some(turn) = place.ahead.first().copied() {
            let id = self.start.order[turn];
            let node = self.start.graph.node(id);
            let port = match node.kind {
                NodeKind::Operator(op) => self
                    .decision(id, op, place)
                    .and_then(|name| node.ports.iter().position(|port| port.name == name)),
                _ => match (self.records(id), self.port(id, &place.facts)) {
                    (None, _) if self.may_act(place, turn) => return Stop::Acts(turn),
                    (None, _) => None,
                    (Some(_), None) => return Stop::Undecided(turn),
                    (Some(records), _) if records & !place.records != 0 => {
                        return Stop::Undecided(turn);
                    }
                    (Some(records), port) => {
                        place.facts.record(records);
                        port
                    }
                },
            };
            let Some(port) = port else {
                self.end(place, turn);
                continue;
            };
            place.ahead.remove(&turn);
            place.observed |= (self.start.type_of)(id).is_some_and(BlockType::is_observer);
            place.left_by.insert(id, port as u32);
            let targets = node.ports[port].targets.iter();
            place.ahead.extend(targets.map(|target| self.turns[target.index()]));
        }
        Stop::Over
    }

    /// The nodes passed, without operators.
    fn listed(&self, left_by: &BTreeMap<NodeId, u32>) -> NodeWay {
        let is_listed =
            |id: &NodeId| !matches!(self.start.graph.node(*id).kind, NodeKind::Operator(_));
        left_by.iter().map(|(id, port)| (*id, *port)).filter(|(id, _)| is_listed(id)).collect()
    }

    /// The port by which packets leave a node, if the facts say so: the first whose predicate holds, else the
    /// last one; of a boolean node by what `true` says.
    fn port(&self, id: NodeId, facts: &Facts) -> Option<usize> {
        let is_of = |family: u16| facts.eval(&Predicate::eq(Field::EthType, family.into()));
        if (self.start.type_of)(id).and_then(family).is_some_and(|of| is_of(of) != Some(true)) {
            return None;
        }
        let ports = &self.start.graph.node(id).ports;
        let named = |name: &str| ports.iter().position(|port| port.name == name);
        if let ([_, _], Some(no), Some(yes)) = (ports.as_slice(), named("false"), named("true")) {
            return facts.eval(&ports[yes].predicate).map(|is| if is { yes } else { no });
        }
        for (number, port) in ports.iter().enumerate() {
            match facts.eval(&port.predicate) {
                Some(true) => return Some(number),
                Some(false) => {}
                None => return None,
            }
        }
        ports.len().checked_sub(1)
    }

    /// The port of an operator once its operands have decided; `None` while they have not.
    fn decision(&self, id: NodeId, op: Op, place: &Place) -> Option<&'static str> {
        let operand = |source: &NodeId| {
            let port = &self.start.graph.node(*source).ports[*place.left_by.get(source)? as usize];
            port.targets.contains(&id).then_some(port.name == "true")
        };
        let mut sources: Vec<NodeId> =
            self.start.incoming[id.index()].iter().map(|port| port.node).collect();
        sources.dedup();
        let operands: Vec<Option<bool>> = sources.iter().map(operand).collect();
        if operands.is_empty() {
            return None;
        }
        let deciding = matches!(op, Op::Or | Op::Nor);
        let says = match () {
            () if operands.contains(&Some(deciding)) => deciding,
            () if operands.iter().all(|is| *is == Some(!deciding)) => !deciding,
            () => return None,
        };
        let says = says != matches!(op, Op::Nand | Op::Nor);
        Some(if says { "true" } else { "false" })
    }

    /// The test that decides an undecided node: the tile that takes packets furthest, else its own tests.
    fn branch(&self, place: &Place, turn: usize, room: usize) -> Option<Tree> {
        if place.acted {
            return None;
        }
        let id = self.start.order[turn];
        let tiles = TILES.iter().filter_map(|tile| self.look(place, id, tile, room));
        let best = tiles.max_by_key(|tree| tree.size().1);
        best.or_else(|| self.choose(place, id, room))
    }

    fn look(&self, place: &Place, id: NodeId, tile: &Tile, room: usize) -> Option<Tree> {
        if tile.reads & !place.facts.recorded() != 0 {
            return None;
        }
        let known = self.port(id, &place.facts).is_some();
        let mut helps = false;
        let outcome = |facts: &Vec<Fact>| {
            let possible = facts.iter().all(|fact| place.facts.allow(fact));
            possible.then(|| {
                let mut next = place.clone();
                next.facts.add_all(facts);
                next.records |= tile.records;
                let decided = self.port(id, &next.facts).is_some();
                let more = !known || next.records != place.records;
                helps |= decided && more && self.is_recorded(id, next.records);
                next
            })
        };
        let places: Vec<Option<Place>> = tile.outcomes.iter().map(outcome).collect();
        if !helps || places.len() > room {
            return None;
        }
        let trees = self.grow_all(places, room);
        let (early, records) = (self.early.get(), tile.records & !place.records);
        self.early.set(early & !records);
        if early & records != 0 {
            return None;
        }
        // What a tile records, the nodes passed must record too.
        let covers = |way: &NodeWay| {
            let passed =
                way.iter().fold(self.recorded, |all, (id, _)| all | self.records(*id).unwrap_or(0));
            way.is_empty() || tile.records & !passed == 0
        };
        trees.iter().all(|tree| tree.all_ways(&covers)).then_some(Tree::Look(tile.look, trees))
    }

    fn is_recorded(&self, id: NodeId, records: u8) -> bool {
        self.records(id).is_some_and(|needed| needed & !records == 0)
    }

    fn choose(&self, place: &Place, id: NodeId, room: usize) -> Option<Tree> {
        let node = self.start.graph.node(id);
        let by_text = (self.start.type_of)(id).is_some_and(|found| found.name == BY_PREDICATE);
        // Its tests are made when the run begins. If a node beside the run records metadata that they read, the
        // tests would come too early, and their results would be wrong behind that node.
        if !by_text || node.ports.len() > room || self.unrecorded(place, id) != 0 {
            return None;
        }
        let choice = Choice::of(node).ok()?;
        let places = node.ports.iter().enumerate().map(|(number, port)| {
            let mut next = place.clone();
            let boolean_no = node.ports.len() == 2 && port.name == "false";
            let said = if boolean_no { &node.ports[1 - number] } else { port };
            next.facts.add_all(&[Fact::Is(said.predicate.clone(), !boolean_no)]);
            // Whatever else is known, this node is left by this port.
            next.ahead.remove(&self.turns[id.index()]);
            next.left_by.insert(id, number as u32);
            let targets = port.targets.iter();
            next.ahead.extend(targets.map(|target| self.turns[target.index()]));
            Some(next)
        });
        Some(Tree::Choose(choice, self.grow_all(places.collect(), room)))
    }

    /// Each place gets the room that those before it have left, and each of those after it needs one way.
    /// `None`: an outcome that cannot be.
    fn grow_all(&self, places: Vec<Option<Place>>, room: usize) -> Vec<Tree> {
        let (mut left, mut waiting) = (room, places.len());
        let grow = |place: Option<Place>| {
            waiting -= 1;
            let tree = match place {
                Some(place) => self.grow(place, left - waiting),
                None => Tree::Way(NodeWay::new()),
            };
            left -= tree.size().0;
            tree
        };
        places.into_iter().map(grow).collect()
    }
}
