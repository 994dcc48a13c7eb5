//! Filters: those that differ in values only in maps, the ordered ones in the program.

use super::Classifier;
use super::exact::{ExactTable, signature};
use super::layout::{Masked, masked};
use super::program::{Fallback, write_spread};
use super::rule::{Rule, setting};
use super::sample::{MissedFlow, Sampling};
use crate::sys::{BpfError, Map, MapKind};

/// How many maps a frame is looked up in at most. Each costs a lookup, some 25 ns.
pub const MOST_MASKS: usize = 16;
/// How many ordered filters a program may have: its jumps reach 32,767 instructions far, and a
/// filter is some 15 of them, more with copies in the tree.
pub const MOST_ORDERED: usize = 1024;
impl Classifier {
    /// Adds a filter without ranges, or gives the one with the same tests another target. Says
    /// whether the program had to be exchanged, which happens when no filter looked at the same
    /// bits so far. Everything that was added before stays in force meanwhile.
    ///
    /// # Errors
    /// [`BpfError::Setting`]: the rule is no rule or has a range, or there is no room for it;
    /// nothing has changed then.
    pub fn insert(&mut self, rule: &Rule) -> Result<bool, BpfError> {
        self.insert_ranked(rule, None)
    }

    /// The same with the filter's place: filters of a lower `rank` are asked first, those that look at the same
    /// bits have the same. Without one, those that look at more bits are asked first.
    ///
    /// # Errors
    /// As [`Classifier::insert`].
    pub fn insert_ranked(&mut self, rule: &Rule, rank: Option<i64>) -> Result<bool, BpfError> {
        rule.check()?;
        let Some(masked) = masked(rule) else {
            return setting("a filter with a range: it belongs to the ordered ones");
        };
        let wanted = signature(&masked);
        if let Some(table) = self.parts.exact.iter_mut().find(|t| t.signature == wanted) {
            table.insert(&masked, rule)?;
            return Ok(false);
        }
        let mut table = ExactTable::new(wanted, self.capacity, rank)?;
        table.insert(&masked, rule)?;
        self.add_table(table)?;
        Ok(true)
    }

    fn add_table(&mut self, table: ExactTable) -> Result<(), BpfError> {
        if let Some(empty) = self.parts.exact.iter().position(|table| table.entries == 0) {
            self.parts.exact.remove(empty);
        }
        if self.parts.exact.len() == MOST_MASKS {
            return setting(format!(
                "{MOST_MASKS} sets of masks are in use: give filters masks in common"
            ));
        }
        let rank = table.rank;
        let at = self.parts.exact.partition_point(|other| other.rank <= rank);
        self.parts.exact.insert(at, table);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.parts.exact.remove(at);
        }
        exchanged
    }

    /// Whether there is a map for filters that look at the same bits as this one, or can be one.
    pub fn has_a_map_for(&self, rule: &Rule) -> bool {
        let Some(wanted) = masked(rule).map(|masked| signature(&masked)) else { return false };
        let tables = &self.parts.exact;
        let usable = |table: &ExactTable| table.signature == wanted || table.entries == 0;
        tables.len() < MOST_MASKS || tables.iter().any(usable)
    }

    /// Removes a filter that was [inserted](Self::insert), and says whether it was there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn remove(&mut self, rule: &Rule) -> Result<bool, BpfError> {
        let Some((masked, at)) = self.find(rule) else { return Ok(false) };
        self.parts.exact[at].remove(&masked)
    }

    fn find(&self, rule: &Rule) -> Option<(Vec<Masked>, usize)> {
        let masked = masked(rule)?;
        let wanted = signature(&masked);
        let at = self.parts.exact.iter().position(|table| table.signature == wanted)?;
        Some((masked, at))
    }

    /// Sets all ordered filters; the first that matches wins. The program is exchanged. Returns how
    /// often those before were hit, in their order.
    ///
    /// # Errors
    /// [`BpfError::Setting`]: one of them is no rule, or there are too many.
    /// [`BpfError::Assemble`] if the program becomes too long. Nothing has changed then.
    pub fn set_ordered(&mut self, rules: Vec<Rule>) -> Result<Vec<u64>, BpfError> {
        if rules.len() > MOST_ORDERED {
            let count = rules.len();
            return setting(format!("{count} ordered filters: {MOST_ORDERED} are the most"));
        }
        rules.iter().try_for_each(Rule::check)?;
        let before =
            (std::mem::replace(&mut self.parts.ordered, rules), self.parts.ordered_hits.take());
        match self.make_ordered_hits().and_then(|()| self.exchange()) {
            // Read once the program no longer adds to them.
            Ok(()) => before.1.as_ref().map_or(Ok(Vec::new()), numbers),
            Err(error) => {
                (self.parts.ordered, self.parts.ordered_hits) = before;
                Err(error)
            }
        }
    }

    fn make_ordered_hits(&mut self) -> Result<(), BpfError> {
        let size = 8 * self.parts.ordered.len() as u32;
        if size > 0 {
            self.parts.ordered_hits = Some(Map::create(MapKind::Array, "weever_hits", 4, size, 1)?);
        }
        Ok(())
    }

    /// How often an inserted filter was hit; `None` if it is not there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn hits(&self, rule: &Rule) -> Result<Option<u64>, BpfError> {
        match self.find(rule) {
            Some((masked, at)) => self.parts.exact[at].hits(&masked),
            None => Ok(None),
        }
    }

    /// How often each ordered filter was hit since they were set, in their order.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn ordered_hits(&self) -> Result<Vec<u64>, BpfError> {
        let Some(hits) = &self.parts.ordered_hits else { return Ok(Vec::new()) };
        numbers(hits)
    }

    /// How many filters each map has, in the order in which they are asked.
    pub fn tables(&self) -> Vec<u32> {
        self.parts.exact.iter().map(|table| table.entries).collect()
    }
}

impl Classifier {
    /// Where frames go that no filter matches.
    pub fn fallback(&self) -> &Fallback {
        &self.parts.fallback
    }

    /// Changes where a frame goes that no filter matches. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] for an empty list to spread over; nothing has changed then.
    pub fn set_fallback(&mut self, fallback: Fallback) -> Result<(), BpfError> {
        write_spread(&self.parts.spread, &fallback)?;
        let before = std::mem::replace(&mut self.parts.fallback, fallback);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.parts.fallback = before;
        }
        exchanged
    }

    /// Counts the flows of frames that no filter matches, of one in `every` such frames: those of
    /// the `entries` flows that were seen last. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless `every` is a power of two and `entries` is not 0; nothing has
    /// changed then.
    pub fn sample(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?)
    }

    /// As [`sample`](Self::sample), and also counts the flows of frames that match a filter which
    /// looks at less than addresses and ports: flows within a wider one.
    ///
    /// # Errors
    /// As there.
    pub fn sample_within_filters(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?.within_filters())
    }

    fn sample_by(&mut self, sampling: Sampling) -> Result<(), BpfError> {
        let before = self.parts.sampling.replace(sampling);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.parts.sampling = before;
        }
        exchanged
    }

    /// Takes out the flows [counted](Self::sample) since the last call, and returns how many.
    /// Nothing if no flows are counted.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn take_missed(&self, take: impl FnMut(MissedFlow)) -> Result<usize, BpfError> {
        self.parts.sampling.as_ref().map_or(Ok(0), |sampling| sampling.take(take))
    }

    /// How many frames no filter matched, on all CPUs.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn missed(&self) -> Result<u64, BpfError> {
        Ok(numbers(&self.parts.missed)?.into_iter().sum())
    }
}

/// The words of a map's only value, which has one for each CPU in a map per CPU.
pub(super) fn numbers(map: &Map) -> Result<Vec<u64>, BpfError> {
    let mut values = vec![0; map.exchange_size()];
    map.lookup(&0u32.to_ne_bytes(), &mut values)?;
    Ok(values.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}
