//! A policy's judgement of a flow map, and the sets of queues that policies talk about.

use std::cmp::Ordering;

/// The cost of a flow map. Less is better, and any accepted one is better than any rejected one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// The degree of rejection; 0 is acceptable. It is graded, so that a search sees progress before
    /// the map is acceptable.
    pub rejected: u64,
    /// The deciding value among equally rejected maps.
    pub value: f64,
}

impl Cost {
    /// An acceptable cost.
    pub fn accept(value: f64) -> Cost {
        Cost { rejected: 0, value }
    }

    /// An unacceptable one.
    pub fn reject(rejected: u64, value: f64) -> Cost {
        Cost { rejected, value }
    }

    /// Whether the policy can live with it.
    pub fn is_acceptable(&self) -> bool {
        self.rejected == 0
    }
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        let rejected = self.rejected.saturating_add(other.rejected);
        Cost { rejected, value: self.value + other.value }
    }
}

impl PartialEq for Cost {
    fn eq(&self, other: &Cost) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cost {}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Cost) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Cost) -> Ordering {
        self.rejected.cmp(&other.rejected).then(self.value.total_cmp(&other.value))
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rejected {
            0 => write!(f, "{:.3}", self.value),
            1 => write!(f, "rejected (1 violation, {:.3})", self.value),
            n => write!(f, "rejected ({n} violations, {:.3})", self.value),
        }
    }
}

/// A set of queue numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSet {
    words: Vec<u64>,
}

impl QueueSet {
    /// Whether `queue` is in it.
    pub fn contains(&self, queue: u32) -> bool {
        let word = self.words.get(queue as usize / 64);
        word.is_some_and(|w| w >> (queue % 64) & 1 == 1)
    }

    /// The highest, or 0.
    pub fn last(&self) -> u32 {
        self.iter().last().unwrap_or(0)
    }

    /// Adds `queue`.
    pub fn insert(&mut self, queue: u32) {
        let word = queue as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (queue % 64);
    }

    /// The queues, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = |(i, w): (usize, &u64)| {
            let w = *w;
            (0..64).filter(move |b| w >> b & 1 == 1).map(move |b| i as u32 * 64 + b)
        };
        self.words.iter().enumerate().flat_map(bits)
    }

    /// The number of queues.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<u32> for QueueSet {
    fn from_iter<I: IntoIterator<Item = u32>>(queues: I) -> QueueSet {
        let mut set = QueueSet::default();
        queues.into_iter().for_each(|q| set.insert(q));
        set
    }
}

impl std::fmt::Display for QueueSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut first = true;
        let mut queues = self.iter().peekable();
        while let Some(lo) = queues.next() {
            let mut hi = lo;
            while queues.peek() == Some(&(hi + 1)) {
                hi += 1;
                queues.next();
            }
            f.write_str(if std::mem::take(&mut first) { "" } else { "," })?;
            if lo == hi { write!(f, "{lo}")? } else { write!(f, "{lo}-{hi}")? }
        }
        Ok(())
    }
}
