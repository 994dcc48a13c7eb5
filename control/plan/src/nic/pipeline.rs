//! From a PRG to the list of its tables.

use weever_graph::nic::{FeatureModel, QueueRange, Queues, RssModel};
use weever_graph::{Attr, ConfigSpec, Graph, Node, NodeId, NodeKind};

use super::disturbance::Disturbance;
use super::feature::{self, Feature, Side};
use super::{Nic, NicError, Table, declared, note_unclaimed};

/// The port by which packets leave that a table or the spreading has given to a queue.
const TO_QUEUES: [&str; 2] = ["queues", "queue"];
/// The port for packets that match no rule of a table.
const DEFAULT: &str = "default";
/// The parameter of the node at which packets to be sent enter: the queues that it stands for.
const SENDS: &str = "sends";

impl Nic {
    /// Reads a PRG that has no configuration yet.
    ///
    /// # Errors
    /// [`NicError`] names the node at which the graph stops being a pipeline, or the table that is
    /// impossible.
    pub fn of(prg: &Graph) -> Result<Nic, NicError> {
        let source = source(prg)?;
        let (exit, queues) = exit(prg)?;
        let mut walk =
            Walk { prg, exit, queues, tables: Vec::new(), rss: None, features: Vec::new() };
        let first = walk.only_target(source, 0)?;
        walk.follow(first)?;
        let sends = walk.follow_sent()?;
        let Walk { tables, rss, features, .. } = walk;
        let mut tables = with_pools(tables)?;
        note_unclaimed(&mut tables);
        check_locations(&tables)?;
        let (name, default_queue) = (prg.name.clone(), queues.all.lo);
        let words = |key: &str| {
            let words = prg.node(source).param(key).unwrap_or_default();
            words.split_whitespace().map(str::to_string).collect()
        };
        let (off, queues, locations) = (words("off"), queues.all, None);
        let disturbances = disturbances(prg.node(source))?;
        let hash_key = None;
        Ok(Nic {
            name,
            queues,
            tables,
            rss,
            hash_key,
            locations,
            default_queue,
            off,
            disturbances,
            features,
            wanted: Vec::new(),
            sends,
        })
    }
}

/// The facts of `attr "disturbs …"`, one for each setting.
fn disturbances(source: &Node) -> Result<Vec<Disturbance>, NicError> {
    let mut all: Vec<Disturbance> = Vec::new();
    for attr in &source.attrs {
        let Attr::Other(text) = attr else { continue };
        let Some(text) = text.strip_prefix("disturbs ") else { continue };
        let fact = Disturbance::parse(text).map_err(|reason| unexpected(source, reason))?;
        if all.iter().any(|other| other.by == fact.by) {
            return Err(unexpected(source, format!("it says twice what {} disturbs", fact.by)));
        }
        all.push(fact);
    }
    Ok(all)
}

/// The device has one number of locations, which every table may say.
fn check_locations(tables: &[Table]) -> Result<(), NicError> {
    let mut said = tables.iter().filter_map(|t| Some((t, declared(t)?)));
    let Some((first, count)) = said.next() else { return Ok(()) };
    match said.find(|(_, other)| *other != count) {
        None => Ok(()),
        Some((table, other)) => Err(NicError::Impossible {
            table: table.name.clone(),
            reason: format!(
                "it says that the device has {other} locations, and `{}` says {count}",
                first.name
            ),
        }),
    }
}

fn source(prg: &Graph) -> Result<NodeId, NicError> {
    let mut sources = prg.iter().filter(|(_, n)| n.has(&Attr::Source));
    let (id, node) =
        sources.next().ok_or_else(|| NicError::NoSource { graph: prg.name.clone() })?;
    match sources.next() {
        Some((_, other)) => {
            Err(NicError::TwoSources { first: node.name.clone(), second: other.name.clone() })
        }
        None => match &node.kind {
            NodeKind::Function if node.ports.len() == 1 => Ok(id),
            _ => Err(unexpected(node, "the source is a `node` with one port")),
        },
    }
}

fn exit(prg: &Graph) -> Result<(NodeId, Queues), NicError> {
    let mut found = prg.iter().filter_map(|(id, node)| Some((id, node, node.queues?)));
    let (id, node, queues) =
        found.next().ok_or_else(|| NicError::NoQueues { graph: prg.name.clone() })?;
    if let Some((_, other, _)) = found.next() {
        let (first, second) = (node.name.clone(), other.name.clone());
        return Err(NicError::TwoQueues { first, second });
    }
    if queues.all.lo > queues.all.hi {
        return Err(unexpected(node, "its range of queues is reversed"));
    }
    Ok((id, queues))
}

fn unexpected(node: &Node, reason: impl Into<String>) -> NicError {
    NicError::NotPipeline { node: node.name.clone(), reason: reason.into() }
}

struct Walk<'g> {
    prg: &'g Graph,
    exit: NodeId,
    queues: Queues,
    tables: Vec<(String, weever_graph::nic::TableModel)>,
    rss: Option<RssModel>,
    features: Vec<Feature>,
}

impl Walk<'_> {
    /// Follows `default` ports from table to table, to the end of the pipeline.
    fn follow(&mut self, first: NodeId) -> Result<(), NicError> {
        let mut at = first;
        // A pipeline visits no node twice.
        for _ in 0..=self.prg.len() {
            if at == self.exit {
                return Ok(());
            }
            let node = self.prg.node(at);
            let NodeKind::Config(ConfigSpec { table, rss, feature, .. }) = &node.kind else {
                return Err(unexpected(node, "expected a `config` with a table, `rss` or queues"));
            };
            if let Some(model) = feature {
                at = self.feature(at, Side::Receive, model)?;
                continue;
            }
            match (table, rss) {
                (Some(table), None) => {
                    self.check(node, table.check_for(self.queues))?;
                    self.tables.push((node.name.clone(), (**table).clone()));
                    at = self.after_table(at)?;
                }
                (None, Some(rss)) => {
                    self.check(node, rss.check_for(self.queues))?;
                    self.rss = Some((**rss).clone());
                    return self.after_rss(at);
                }
                (Some(_), Some(_)) => {
                    return Err(unexpected(node, "it has both a table and `rss`"));
                }
                (None, None) => {
                    return Err(unexpected(node, "it has neither a table nor `rss` nor a feature"));
                }
            }
        }
        Err(unexpected(self.prg.node(first), "its `default` ports lead in a circle"))
    }

    /// Follows the row of features from the queues that send to the sink.
    fn follow_sent(&mut self) -> Result<Option<QueueRange>, NicError> {
        let mut starts = self.prg.iter().filter(|(_, n)| n.param(SENDS).is_some());
        let Some((start, node)) = starts.next() else { return Ok(None) };
        if let Some((_, other)) = starts.next() {
            let (first, second) = (node.name.clone(), other.name.clone());
            return Err(NicError::TwoQueues { first, second });
        }
        let said = node.param(SENDS).unwrap_or_default();
        let wrong = || unexpected(node, format!("`{said}` is no range of queues, as `0 .. 15`"));
        let sends = feature::range(said).ok_or_else(wrong)?;
        let mut at = self.only_target(start, 0)?;
        for _ in 0..=self.prg.len() {
            let node = self.prg.node(at);
            match &node.kind {
                NodeKind::Function if node.has(&Attr::Sink) => return Ok(Some(sends)),
                NodeKind::Config(ConfigSpec { feature: Some(model), .. }) => {
                    at = self.feature(at, Side::Send, model)?;
                }
                _ => return Err(unexpected(node, "expected a feature, or the `sink` behind them")),
            }
        }
        Err(unexpected(node, "its features lead in a circle"))
    }

    /// Notes a feature; the node behind it.
    fn feature(
        &mut self,
        at: NodeId,
        side: Side,
        model: &FeatureModel,
    ) -> Result<NodeId, NicError> {
        let node = self.prg.node(at);
        self.check(node, model.check())?;
        let wrong = match side {
            Side::Receive => model.work.iter().find(|work| !work.receives()),
            Side::Send => model.work.iter().find(|work| !work.sends()),
        };
        if let Some(work) = wrong {
            let side = if side == Side::Send { "receives" } else { "sends" };
            return Err(unexpected(node, format!("`{}` is for the side that {side}", work.word())));
        }
        match node.ports.as_slice() {
            [port] if port.name == "out" => {}
            _ => return Err(unexpected(node, "a feature has one port, `out`")),
        }
        let (name, behind, model) = (node.name.clone(), self.tables.len(), model.clone());
        self.features.push(Feature { name, side, behind, model });
        self.only_target(at, 0)
    }

    fn check(
        &self,
        node: &Node,
        problems: Vec<weever_graph::nic::Problem>,
    ) -> Result<(), NicError> {
        match problems.first() {
            None => Ok(()),
            Some(p) => {
                Err(NicError::Impossible { table: node.name.clone(), reason: p.to_string() })
            }
        }
    }

    /// Checks the table's ports and returns the node behind its default port.
    fn after_table(&self, id: NodeId) -> Result<NodeId, NicError> {
        let node = self.prg.node(id);
        let mut next = None;
        for (i, port) in node.ports.iter().enumerate() {
            match port.name.as_str() {
                DEFAULT => next = Some(self.only_target(id, i)?),
                name if TO_QUEUES.contains(&name) => self.leads_to_queues(id, i)?,
                "drop" if port.targets.is_empty() => {}
                // A rule may hand packets to the spreading, which stands further on.
                "context" => {
                    self.only_target(id, i)?;
                }
                name => {
                    let reason = format!(
                        "its port `{name}` is none of `queues`, `default`, `context` and an empty \
                         `drop`"
                    );
                    return Err(unexpected(node, reason));
                }
            }
        }
        next.ok_or_else(|| {
            unexpected(node, "it has no port `default` for packets that no rule takes")
        })
    }

    fn after_rss(&self, id: NodeId) -> Result<(), NicError> {
        let node = self.prg.node(id);
        match node.ports.as_slice() {
            [port] if TO_QUEUES.contains(&port.name.as_str()) => self.leads_to_queues(id, 0),
            _ => Err(unexpected(node, "spreading has one port, `queues`")),
        }
    }

    fn leads_to_queues(&self, id: NodeId, port: usize) -> Result<(), NicError> {
        if self.only_target(id, port)? == self.exit {
            return Ok(());
        }
        let node = self.prg.node(id);
        let exit = &self.prg.node(self.exit).name;
        let name = &node.ports[port].name;
        Err(unexpected(node, format!("its port `{name}` does not lead to `{exit}`")))
    }

    fn only_target(&self, id: NodeId, port: usize) -> Result<NodeId, NicError> {
        let node = self.prg.node(id);
        let port = &node.ports[port];
        match port.targets.as_slice() {
            [target] if target.index() < self.prg.len() => Ok(*target),
            targets => {
                let (name, count) = (&port.name, targets.len());
                Err(unexpected(node, format!("its port `{name}` leads to {count} nodes, not one")))
            }
        }
    }
}

fn with_pools(
    tables: Vec<(String, weever_graph::nic::TableModel)>,
) -> Result<Vec<Table>, NicError> {
    let position = |name: &String| tables.iter().position(|(n, _)| n == name);
    let pool = |i: usize| {
        let mut at = i;
        // Names may refer in a circle; then the smallest position represents all of them.
        let mut smallest = i;
        for _ in 0..tables.len() {
            let (name, model) = &tables[at];
            let Some(shared) = &model.capacity.shared_with else { return Ok(at) };
            at = position(shared).ok_or_else(|| NicError::Impossible {
                table: name.clone(),
                reason: format!(
                    "it shares its capacity with `{shared}`, which is no table before the queues"
                ),
            })?;
            smallest = smallest.min(at);
        }
        Ok(smallest)
    };
    let pools: Vec<usize> = (0..tables.len()).map(pool).collect::<Result<_, _>>()?;
    let table = |((name, model), pool)| Table { name, model, pool };
    Ok(tables.into_iter().zip(pools).map(table).collect())
}
