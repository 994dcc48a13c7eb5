//! One group on one interface: its users' filters, and the changes still to be reported.

use alloc::vec::Vec;

use weever_wire::listener::record_kind as kind;

use super::family::Family;
use super::filter::{Filter, MAX_SOURCES, Mode};

/// A source whose coming or going is still to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<A> {
    pub(super) source: A,
    pub(super) allow: bool,
    pub(super) left: u8,
}

/// The sources that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked<A> {
    All,
    Of(Vec<A>),
}

#[derive(Clone, Debug)]
pub(super) struct Member<A> {
    pub(super) group: A,
    pub(super) users: Vec<(u64, Filter<A>)>,
    pub(super) filter: Filter<A>,
    /// Reports of a changed mode that are still to be sent.
    pub(super) mode_left: u8,
    pub(super) changes: Vec<Change<A>>,
    /// Whether its changes belong into the next report.
    pub(super) due: bool,
    pub(super) asked: Option<Asked<A>>,
    pub(super) answer_at: u64,
    /// Whether we were the last to report it, in the older versions: only then it is to be left.
    pub(super) reported: bool,
}

impl<A: Family> Member<A> {
    pub(super) fn new(group: A) -> Self {
        Self {
            group,
            users: Vec::new(),
            filter: Filter::none(),
            mode_left: 0,
            changes: Vec::new(),
            due: false,
            asked: None,
            answer_at: u64::MAX,
            reported: false,
        }
    }

    /// Its filter has not been reported yet.
    pub(super) fn restart(&mut self, robustness: u8) {
        let is_said = self.group.is_reported() && !self.filter.is_none();
        (self.mode_left, self.due) = (if is_said { robustness } else { 0 }, false);
        self.changes.clear();
        (self.asked, self.answer_at, self.reported) = (None, u64::MAX, false);
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_over(&self) -> bool {
        self.users.is_empty() && self.filter.is_none() && !self.changes_left()
    }

    pub(super) fn changes_left(&self) -> bool {
        self.mode_left > 0 || !self.changes.is_empty()
    }

    /// The filter that the users want together, and the reports due for the difference (RFC 3376
    /// §5.1); true if there is one.
    pub(super) fn refilter(&mut self, robustness: u8) -> bool {
        let new = Filter::merge(self.users.iter().map(|(_, filter)| filter));
        if new == self.filter {
            return false;
        }
        let old = core::mem::replace(&mut self.filter, new);
        if old.mode != self.filter.mode {
            self.mode_left = robustness;
            self.changes.clear();
        } else {
            self.note(&old, robustness);
        }
        self.asked = self.asked.take().filter(|_| !self.filter.is_none());
        true
    }

    /// Sources that have come to be heard, and those that have ceased to be.
    fn note(&mut self, old: &Filter<A>, robustness: u8) {
        let include = self.filter.mode == Mode::Include;
        let (new, before) = (&self.filter.sources, &old.sources);
        let added =
            new.iter().filter(|source| !old.lists(**source)).map(|&source| (source, include));
        let gone = before.iter().filter(|source| !self.filter.lists(**source));
        let gone = gone.map(|&source| (source, !include));
        for (source, allow) in added.chain(gone) {
            self.changes.retain(|change| change.source != source);
            self.changes.push(Change { source, allow, left: robustness });
        }
        if self.changes.len() > MAX_SOURCES {
            // More than fits a message: the whole state says it as well.
            (self.mode_left, self.changes) = (robustness, Vec::new());
        }
    }

    /// Kind and sources of the record for a change of mode.
    pub(super) fn mode_record(&self) -> (u8, &[A]) {
        match self.filter.mode {
            Mode::Include => (kind::CHANGE_TO_INCLUDE, &self.filter.sources),
            Mode::Exclude => (kind::CHANGE_TO_EXCLUDE, &self.filter.sources),
        }
    }

    /// Sources of the record of all that came to be allowed, or blocked.
    pub(super) fn changed(&self, allow: bool) -> impl Iterator<Item = A> + Clone {
        self.changes.iter().filter(move |change| change.allow == allow).map(|change| change.source)
    }

    /// One report of the changes is out.
    pub(super) fn said(&mut self) {
        self.due = false;
        // RFC 3376 §5.1: while the mode's change is being repeated, it says all.
        self.mode_left = self.mode_left.saturating_sub(1);
        for change in &mut self.changes {
            change.left -= 1;
        }
        self.changes.retain(|change| change.left > 0);
    }

    /// Kind and sources of the record that answers a query.
    pub(super) fn answer(&self, asked: &Asked<A>) -> (u8, Vec<A>) {
        match (asked, self.filter.mode) {
            (Asked::All, Mode::Include) => (kind::MODE_IS_INCLUDE, self.filter.sources.clone()),
            (Asked::All, Mode::Exclude) => (kind::MODE_IS_EXCLUDE, self.filter.sources.clone()),
            // RFC 3376 §5.2: of those that were asked for, the ones that are wanted.
            (Asked::Of(sources), _) => {
                let wanted = sources.iter().copied().filter(|&source| self.filter.accepts(source));
                (kind::MODE_IS_INCLUDE, wanted.collect())
            }
        }
    }
}
