//! A NIC as the planner sees it: the steering part of a PRG, without the graph around it.
//!
//! A PRG is a pipeline (design/0000 §4.5): a source, filter tables in order of precedence, each joined
//! to the next by its port `default`, then spreading by hash or a default queue. Features stand anywhere on
//! that way, and on the way out ([`Feature`]). [`Nic::of`] reads that pipeline; any other shape is an error
//! that names the node.

mod disturbance;
mod feature;
mod pipeline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use weever_graph::nic::{
    Exposure, FlowType, FormsByType, QueueRange, RssFields, RssHash, RssModel, TableModel,
};

use crate::flow::{Conj, Kinds};
pub use disturbance::{Disturbance, Effect, Touched};
pub use feature::{Feature, Setting, Side, Vouched};

/// The configurable parts of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The PRG's name.
    pub name: String,
    /// Its receive queues.
    pub queues: QueueRange,
    /// Its filter tables, in order of precedence.
    pub tables: Vec<Table>,
    /// The spreading of packets that no table took, if it can spread.
    pub rss: Option<RssModel>,
    /// The key of the hash that a device has, if it is known and hashes as the model says.
    pub hash_key: Option<Vec<u8>>,
    /// The number of rules of all tables together that can be distinguished, if Linux numbers them.
    pub locations: Option<u32>,
    /// The queue for packets that no table took and no hash spreads.
    pub default_queue: u32,
    /// Private flags of the Linux driver that have to be off while there are rules, or the hash is relied on, because
    /// the driver otherwise has rules of its own.
    pub off: Vec<String>,
    /// What settings disturb, as far as the model says it.
    pub disturbances: Vec<Disturbance>,
    /// The work that it does on packets, in the order in which they meet it: received ones first, then sent ones.
    pub features: Vec<Feature>,
    /// Features that a host's graph uses, to be switched on beside those that rules need.
    pub wanted: Vec<Setting>,
    /// The queues from which it sends, if the model has a send side.
    pub sends: Option<QueueRange>,
}

/// A filter table of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The config node's full name.
    pub name: String,
    /// The capabilities of its rules.
    pub model: TableModel,
    /// The pool from which its rules take entries: the position in [`Nic::tables`] of the table that
    /// they share, or its own.
    pub pool: usize,
}

impl Nic {
    /// How many rules' worth of entries table `table` can draw on.
    pub fn capacity(&self, table: usize) -> u32 {
        self.tables[self.tables[table].pool].model.capacity.entries
    }
}

impl Nic {
    /// What plans for the NIC claim something about.
    pub fn claims(&self) -> Claims {
        let open = |t: &Table| Kinds::unclaimed(&t.model);
        let unclaimed = self.tables.first().map_or(Kinds::NONE, open);
        Claims { kinds: Kinds::ALL.without(unclaimed) }
    }

    /// Whether the size of the hash's table follows the number of queues.
    pub fn resizes_with_queues(&self) -> bool {
        self.disturbed_by(&Touched::Queues).is_some_and(|by| by.has(&Effect::Sizes))
    }

    /// What a setting disturbs, if the model says it.
    pub fn disturbed_by(&self, setting: &Touched) -> Option<&Disturbance> {
        self.disturbances.iter().find(|disturbance| disturbance.by == *setting)
    }

    /// The NIC with what a device of its kind says of itself: the size of the hash's table, which the table of a plan
    /// has to have, and how many rules fit, if these are fewer than the model has.
    #[must_use]
    pub fn as_found(mut self, hash_entries: Option<u32>, locations: Option<u32>) -> Nic {
        if let (Some(rss), Some(entries)) = (&mut self.rss, hash_entries.filter(|n| *n > 0)) {
            rss.entries = entries;
        }
        let model = self.tables.iter().map(|t| t.model.capacity.entries).max().unwrap_or(0);
        let fewer = |found: &u32| *found < self.locations.unwrap_or(model);
        self.locations = locations.filter(fewer).or(self.locations);
        self
    }

    /// The NIC with features as a device has them: those whose switches are `on`. What is not told is the model's.
    #[must_use]
    pub fn with_features(mut self, on: &BTreeMap<String, bool>) -> Nic {
        for feature in self.features.iter_mut().filter(|f| !f.model.ethtool.is_empty()) {
            let told: Option<Vec<bool>> =
                feature.model.ethtool.iter().map(|name| on.get(name).copied()).collect();
            if let Some(told) = told {
                feature.model.starts_on = told.into_iter().all(|on| on);
            }
        }
        self
    }

    /// The NIC with the hash of a device: of each flow type that the device tells, the hashed fields, and its key. Without
    /// a key, or with fields that no plan can reckon with (`None` of a type), nobody knows where a hashed flow arrives.
    #[must_use]
    pub fn with_hash(
        mut self,
        fields: &[(FlowType, Option<RssFields>)],
        key: Option<Vec<u8>>,
    ) -> Nic {
        let Some(rss) = &mut self.rss else { return self };
        for (flow_type, now) in fields {
            let types = rss.types.iter_mut().filter(|t| t.flow_type == *flow_type);
            for (listed, now) in types.zip(*now) {
                // The first choice is what the device has.
                listed.choices.retain(|choice| *choice != now);
                listed.choices.insert(0, now);
            }
        }
        let RssHash::Toeplitz { key_len, .. } = rss.hash else { return self };
        let is_known = fields.iter().all(|(_, now)| now.is_some());
        self.hash_key = key.filter(|key| is_known && key.len() == key_len as usize);
        self
    }

    /// The NIC with its first `count` queues only.
    ///
    /// # Errors
    /// [`NicError::QueueCount`] if it has fewer, or `count` is 0.
    pub fn with_queues(&self, count: u32) -> Result<Nic, NicError> {
        let has = self.queues.count();
        if count == 0 || count > has {
            let nic = self.name.clone();
            return Err(NicError::QueueCount { nic, has, wanted: count, of: "" });
        }
        let lo = self.queues.lo;
        Ok(self.restricted(QueueRange { lo, hi: lo + (count - 1) }))
    }

    /// The NIC as `ethtool` shows it: without the tables that Linux hides, and with the limits
    /// that it sets. Queue counts that only Linux lowers are for [`Nic::linux_of`].
    pub fn linux(&self) -> Nic {
        let mut kept: Vec<(usize, Table)> = Vec::new();
        for (i, table) in self.tables.iter().enumerate() {
            if let Some(model) = table.model.as_linux() {
                kept.push((i, Table { model, ..table.clone() }));
            }
        }
        let old: Vec<(usize, usize)> = kept.iter().map(|(i, t)| (*i, t.pool)).collect();
        let moved = |pool: usize| old.iter().position(|(_, p)| *p == pool).unwrap_or_default();
        let table = |(_, t): (usize, Table)| Table { pool: moved(t.pool), ..t };
        let mut tables: Vec<Table> = kept.into_iter().map(table).collect();
        note_unclaimed(&mut tables);
        let mut features = self.features.clone();
        let left = |behind: usize| old.iter().filter(|(i, _)| *i < behind).count();
        features.iter_mut().for_each(|feature| feature.behind = left(feature.behind));
        Nic { locations: numbered(&tables), tables, features, ..self.clone() }
    }

    /// The part of the NIC in `prg` that Linux exposes, queues included.
    ///
    /// # Errors
    /// Those of [`Nic::of`].
    pub fn linux_of(prg: &weever_graph::Graph) -> Result<Nic, NicError> {
        let nic = Nic::of(prg)?.linux();
        let declared = prg.iter().find_map(|(_, node)| node.queues);
        let queues = declared.and_then(|q| q.linux).and_then(|q| q.and(nic.queues));
        Ok(queues.map_or_else(|| nic.clone(), |q| nic.restricted(q)))
    }

    fn restricted(&self, queues: QueueRange) -> Nic {
        let mut nic = Nic { queues, ..self.clone() };
        for table in &mut nic.tables {
            let actions = &mut table.model.actions;
            actions.queues = actions.queues.and_then(|q| q.and(queues));
        }
        nic.rss = nic.rss.and_then(|mut rss| {
            rss.queues = rss.queues.and(queues)?;
            if self.resizes_with_queues() {
                rss.entries = rss.entries.max((2 * queues.count()).next_power_of_two());
            }
            Some(rss)
        });
        nic.default_queue = nic.default_queue.clamp(queues.lo, queues.hi);
        nic
    }
}

/// Tells each table what another one leaves open.
fn note_unclaimed(tables: &mut [Table]) {
    let mut open = FormsByType::default();
    tables.iter().for_each(|t| open.merge(t.model.forms.open(&t.model.flow_types)));
    tables.iter_mut().for_each(|t| t.model.unclaimed = open);
}

/// The packets that a plan claims something about: not those of which nobody knows whether the NIC's rules
/// match them. Flows and the rest of the traffic are these packets for a plan, and flows by ports are whole
/// packets: filters of NICs look for ports nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    kinds: Kinds,
}

impl Claims {
    /// The packets of `conj` that the plan claims something about.
    pub fn part(self, conj: Conj) -> Conj {
        let conj = conj.by_ports();
        if conj.kinds().within(self.kinds) { conj } else { conj.of(self.kinds) }
    }

    /// The same of several conjunctions. A flow of which nothing is left stays as it is: no rule is made for
    /// it that could be wrong, and it counts as spread.
    pub(crate) fn parts(self, conjs: Vec<Conj>) -> Vec<Conj> {
        let each = conjs.iter().map(|conj| self.part(conj.clone()));
        let left: Vec<Conj> = each.filter(|conj| !conj.is_empty()).collect();
        if left.is_empty() { conjs } else { left }
    }

    /// Whether a plan claims where every packet of `conj` arrives.
    pub fn covers(self, conj: &Conj) -> bool {
        conj.kinds().within(self.kinds)
    }
}

/// The number of rules that Linux can number: the tables' declared numbers, or their capacities.
fn numbered(tables: &[Table]) -> Option<u32> {
    let declared = tables.iter().find_map(declared);
    let each = tables.iter().map(|t| t.model.capacity.entries);
    let all = each.reduce(u32::saturating_add)?;
    Some(declared.unwrap_or(all))
}

/// The number of the device's locations, if the table declares it.
pub(super) fn declared(table: &Table) -> Option<u32> {
    match &table.model.linux {
        Exposure::Ethtool(ethtool) => ethtool.locations,
        Exposure::None => None,
    }
}

/// Why [`Nic::of`](self::Nic::of) does not take a graph, or a view of a NIC cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NicError {
    /// No node is marked as the source.
    #[error("`{graph}` has no node with `attr \"source\"`, at which packets arrive")]
    NoSource {
        /// The graph.
        graph: String,
    },
    /// More than one node is marked as the source.
    #[error("`{first}` and `{second}` are both marked as the source; a NIC has one")]
    TwoSources {
        /// The first node.
        first: String,
        /// Another.
        second: String,
    },
    /// No node represents the queues.
    #[error("`{graph}` declares no queues; write for instance `queues Queue 0 .. 15`")]
    NoQueues {
        /// The graph.
        graph: String,
    },
    /// More than one node represents queues.
    #[error("`{first}` and `{second}` both declare queues; declare all of them in one")]
    TwoQueues {
        /// The first node.
        first: String,
        /// Another.
        second: String,
    },
    /// The node does not fit a pipeline.
    #[error("`{node}` does not fit the pipeline of a NIC: {reason}")]
    NotPipeline {
        /// The node.
        node: String,
        /// The property of the node that is unexpected.
        reason: String,
    },
    /// No packet can fulfil the table's conditions.
    #[error("the table `{table}` is impossible: {reason}")]
    Impossible {
        /// The table.
        table: String,
        /// Why.
        reason: String,
    },
    /// The NIC has fewer queues.
    #[error("`{nic}` has {has} queues{of}, not {wanted}")]
    QueueCount {
        /// The NIC.
        nic: String,
        /// The number it has.
        has: u32,
        /// The requested number.
        wanted: u32,
        /// The view in which they are missing, if that matters.
        of: &'static str,
    },
}
