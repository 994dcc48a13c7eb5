//! Which sources of a group are wanted.

use alloc::vec::Vec;

/// Sources of a filter, at most: their record fits a message of 1,280 bytes.
pub const MAX_SOURCES: usize = 64;

/// The meaning of a filter's list (RFC 3376 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// These sources only.
    Include,
    /// All but these.
    Exclude,
}

/// Which sources are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter<A> {
    pub(super) mode: Mode,
    /// Ascending.
    pub(super) sources: Vec<A>,
}

impl<A: Copy + Ord> Filter<A> {
    /// A filter; the order of the sources does not matter.
    pub fn new(mode: Mode, sources: &[A]) -> Self {
        let mut sources = sources.to_vec();
        sources.sort_unstable();
        sources.dedup();
        Self { mode, sources }
    }

    /// All sources: a join.
    pub const fn any() -> Self {
        Self { mode: Mode::Exclude, sources: Vec::new() }
    }

    /// No source: a leave.
    pub const fn none() -> Self {
        Self { mode: Mode::Include, sources: Vec::new() }
    }

    /// The meaning of the list.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The list, ascending.
    pub fn sources(&self) -> &[A] {
        &self.sources
    }

    /// Whether nothing is wanted.
    pub fn is_none(&self) -> bool {
        self.mode == Mode::Include && self.sources.is_empty()
    }

    /// Whether a datagram of this source is wanted.
    #[inline]
    pub fn accepts(&self, source: A) -> bool {
        self.lists(source) == (self.mode == Mode::Include)
    }

    pub(super) fn lists(&self, source: A) -> bool {
        self.sources.binary_search(&source).is_ok()
    }

    /// The filter of several users together: RFC 3376 §3.2. When too many sources would be listed,
    /// the group is listened to as a whole.
    pub(super) fn merge<'a>(filters: impl Iterator<Item = &'a Filter<A>> + Clone) -> Filter<A>
    where
        A: 'a,
    {
        let of = |mode| filters.clone().filter(move |f| f.mode == mode);
        let included = |source| of(Mode::Include).any(|f| f.lists(source));
        let merged = match of(Mode::Exclude).next() {
            Some(first) => {
                let everywhere = |&source: &A| of(Mode::Exclude).all(|f| f.lists(source));
                let left = first.sources.iter().copied().filter(everywhere);
                let left: Vec<A> = left.filter(|&source| !included(source)).collect();
                Filter::new(Mode::Exclude, &left)
            }
            None => {
                let all: Vec<A> =
                    of(Mode::Include).flat_map(|f| f.sources.iter().copied()).collect();
                Filter::new(Mode::Include, &all)
            }
        };
        if merged.sources.len() > MAX_SOURCES { Filter::any() } else { merged }
    }
}
