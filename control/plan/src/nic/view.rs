//! A NIC with less: as Linux exposes it, or with some of its queues.

use weever_graph::nic::{Exposure, QueueRange};

use super::{Nic, NicError, Table};

impl Nic {
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
        let tables: Vec<Table> = kept.into_iter().map(table).collect();
        Nic { locations: numbered(&tables), tables, ..self.clone() }
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
            Some(rss)
        });
        nic.default_queue = nic.default_queue.clamp(queues.lo, queues.hi);
        nic
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
