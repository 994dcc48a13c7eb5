//! The machine of one interface.

use alloc::vec::Vec;

use super::family::{Family, OldKind, Query};
use super::filter::{Filter, MAX_SOURCES};
use super::member::{Asked, Member};
use super::report::Report;
use crate::SECOND;
use crate::random::Random;

/// RFC 3376 §8.11, RFC 3810 §9.11: between two reports of one change, at most.
const UNSOLICITED: u64 = SECOND;
/// RFC 2236 §8.10: the same in the older version.
const UNSOLICITED_OLD: u64 = 10 * SECOND;
/// RFC 3376 §8.2: the interval until a querier says another.
const QUERY_INTERVAL: u64 = 125 * SECOND;
/// RFC 3376 §8.3, RFC 3810 §9.3.
const QUERY_RESPONSE: u64 = 10 * SECOND;
/// Users of one group.
const MAX_USERS: usize = 64;

/// Limits of [`Memberships`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Groups that are listened to.
    pub groups: usize,
    /// Times that a change is reported, until a querier says otherwise (RFC 3376 §8.1).
    pub robustness: u8,
    /// For delays.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { groups: 256, robustness: 2, seed: 0 }
    }
}

/// The protocol version that is spoken, after the oldest querier heard of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// IGMPv1.
    Oldest,
    /// IGMPv2 or MLDv1.
    Older,
    /// IGMPv3 or MLDv2.
    Newest,
}

/// Why a user cannot have what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The address is none of a group.
    #[error("not a multicast address")]
    NotAGroup,
    /// The interface listens to as many groups as it may.
    #[error("too many groups are joined on this interface")]
    TooManyGroups,
    /// More than [`MAX_SOURCES`] sources.
    #[error("more than {MAX_SOURCES} sources for one group")]
    TooManySources,
    /// More than 64 users.
    #[error("too many users of one group")]
    TooManyUsers,
}

/// A message to be sent, with a hop limit of 1 and a router alert option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<A> {
    /// To whom.
    pub dst: A,
    /// Bytes of it in the caller's buffer, checksum included.
    pub len: usize,
}

/// What one interface listens to; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Memberships<A> {
    config: Config,
    random: Random,
    /// Ascending.
    members: Vec<Member<A>>,
    robustness: u8,
    /// Nanoseconds between general queries, as the last one that said so has it.
    interval: u64,
    older_until: u64,
    oldest_until: u64,
    /// When a general query is to be answered.
    general_at: u64,
    /// When changes are to be reported.
    change_at: u64,
    /// Leaves to be sent to an older querier.
    leaves: Vec<A>,
}

impl<A: Family> Memberships<A> {
    /// Listens to nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            random: Random::new(config.seed),
            members: Vec::new(),
            robustness: config.robustness.max(1),
            interval: QUERY_INTERVAL,
            older_until: 0,
            oldest_until: 0,
            general_at: u64::MAX,
            change_at: u64::MAX,
            leaves: Vec::new(),
        }
    }

    /// Says what `user` wants to hear of `group`, in place of what it wanted before;
    /// [`Filter::none`] leaves.
    ///
    /// # Errors
    /// [`GroupError`]; nothing has changed.
    pub fn set(
        &mut self,
        user: u64,
        group: A,
        filter: Filter<A>,
        now: u64,
    ) -> Result<(), GroupError> {
        if !group.is_group() {
            return Err(GroupError::NotAGroup);
        }
        if filter.sources.len() > MAX_SOURCES {
            return Err(GroupError::TooManySources);
        }
        let at = match self.members.binary_search_by_key(&group, |member| member.group) {
            Ok(at) => at,
            Err(_) if filter.is_none() => return Ok(()),
            Err(_) if self.members.len() >= self.config.groups => {
                return Err(GroupError::TooManyGroups);
            }
            Err(at) => {
                self.members.insert(at, Member::new(group));
                at
            }
        };
        let member = &mut self.members[at];
        let place = member.users.iter().position(|(id, _)| *id == user);
        match place {
            Some(place) if filter.is_none() => drop(member.users.swap_remove(place)),
            Some(place) => member.users[place].1 = filter,
            None if filter.is_none() => {}
            None if member.users.len() >= MAX_USERS => return Err(GroupError::TooManyUsers),
            None => member.users.push((user, filter)),
        }
        self.changed(at, now);
        Ok(())
    }

    /// Has `user` listen to exactly these groups, whoever sends.
    ///
    /// # Errors
    /// The first one; groups before it were joined.
    pub fn set_all(&mut self, user: u64, groups: &[A], now: u64) -> Result<(), GroupError> {
        let gone = |member: &&Member<A>| {
            !groups.contains(&member.group) && member.users.iter().any(|(id, _)| *id == user)
        };
        let gone: Vec<A> = self.members.iter().filter(gone).map(|member| member.group).collect();
        for group in gone {
            self.set(user, group, Filter::none(), now)?;
        }
        groups.iter().try_for_each(|&group| self.set(user, group, Filter::any(), now))
    }

    /// Whether a datagram from `source` to `group` is wanted.
    pub fn accepts(&self, group: A, source: A) -> bool {
        self.filter(group).is_some_and(|filter| filter.accepts(source))
    }

    /// What is listened to of `group`.
    pub fn filter(&self, group: A) -> Option<&Filter<A>> {
        let at = self.members.binary_search_by_key(&group, |member| member.group).ok()?;
        Some(&self.members[at].filter).filter(|filter| !filter.is_none())
    }

    /// The groups that are listened to, ascending.
    pub fn groups(&self) -> impl Iterator<Item = (A, &Filter<A>)> {
        let joined = self.members.iter().filter(|member| !member.filter.is_none());
        joined.map(|member| (member.group, &member.filter))
    }

    /// The version that is spoken.
    pub fn version(&self, now: u64) -> Version {
        if self.oldest_until > now {
            Version::Oldest
        } else if self.older_until > now {
            Version::Older
        } else {
            Version::Newest
        }
    }

    /// Takes a query; `sources` are those that it asks for.
    pub fn query(&mut self, query: Query<A>, sources: impl Iterator<Item = A>, now: u64) {
        if query.version == Version::Newest {
            self.robustness = if query.robustness == 0 {
                self.config.robustness.max(1)
            } else {
                query.robustness
            };
            // RFC 3376 §4.1.7: a querier that does not say leaves what the one before said.
            if query.interval != 0 {
                self.interval = u64::from(query.interval) * SECOND;
            }
        }
        self.note_version(&query, now);
        let max = query.max_response.min(QUERY_RESPONSE * 1000);
        let at = now.saturating_add(self.random.up_to(max));
        // RFC 3376 §5.2, rule 1: an answer to everything that is due sooner says it all.
        if self.general_at <= at {
            return;
        }
        match query.group {
            None if self.version(now) == Version::Newest => self.general_at = at,
            None => self.ask_each(max, now),
            Some(group) => self.ask(group, sources, at),
        }
    }

    /// Takes another host's report of an older version: RFC 2236 §3, who hears one need not send
    /// his own.
    pub fn heard(&mut self, group: A, now: u64) {
        if self.version(now) == Version::Newest {
            return;
        }
        if let Ok(at) = self.members.binary_search_by_key(&group, |member| member.group) {
            let member = &mut self.members[at];
            (member.asked, member.answer_at, member.reported) = (None, u64::MAX, false);
        }
    }

    /// When [`poll`](Self::poll) has something to do next.
    pub fn poll_at(&self) -> Option<u64> {
        let due = self.members.iter().any(|member| member.due) || !self.leaves.is_empty();
        if due {
            return Some(0);
        }
        let answers = self.members.iter().map(|member| member.answer_at).min();
        let next = self.general_at.min(self.change_at).min(answers.unwrap_or(u64::MAX));
        (next != u64::MAX).then_some(next)
    }

    /// Writes the next message that is due at `now`, from our address `src`, to the front of
    /// `out`, which should have 1,200 bytes; `None` when there is none.
    pub fn poll(&mut self, now: u64, src: A, out: &mut [u8]) -> Option<Outgoing<A>> {
        self.expire(now);
        if self.version(now) != Version::Newest {
            return self.poll_old(now, src, out);
        }
        self.leaves.clear();
        let mut report = Report::new(out);
        self.report_changes(&mut report, now);
        self.report_answers(&mut report, now);
        let len = report.finish(src)?;
        Some(Outgoing { dst: A::REPORTS, len })
    }

    /// Turns timers that have come into what is due.
    fn expire(&mut self, now: u64) {
        if self.change_at <= now {
            self.change_at = u64::MAX;
            self.members.iter_mut().for_each(|member| member.due = member.changes_left());
        }
        if self.general_at <= now {
            self.general_at = u64::MAX;
            for member in
                self.members.iter_mut().filter(|m| m.group.is_reported() && !m.filter.is_none())
            {
                (member.asked, member.answer_at) = (Some(Asked::All), now);
            }
        }
    }

    fn changed(&mut self, at: usize, now: u64) {
        let (robustness, version) = (self.robustness, self.version(now));
        let member = &mut self.members[at];
        let before = !member.filter.is_none();
        if !member.refilter(robustness) || !member.group.is_reported() {
            (member.mode_left, member.due) =
                (if member.group.is_reported() { member.mode_left } else { 0 }, false);
            member.changes.retain(|_| member.group.is_reported());
        } else if version == Version::Newest {
            self.change_at = now;
        } else {
            self.changed_old(at, before, version, now);
        }
        self.members.retain(|member| !member.is_over());
    }

    /// An older querier hears of joins and leaves only.
    fn changed_old(&mut self, at: usize, before: bool, version: Version, now: u64) {
        let member = &mut self.members[at];
        let after = !member.filter.is_none();
        member.changes.clear();
        member.mode_left = 0;
        if after && !before {
            (member.mode_left, self.change_at) = (self.robustness, now);
        } else if before && !after && member.reported && version == Version::Older {
            self.leaves.push(member.group);
        }
    }

    fn note_version(&mut self, query: &Query<A>, now: u64) {
        let before = self.version(now);
        // RFC 3376 §8.12: robustness times the last query's interval, plus one response interval.
        let lasts =
            u64::from(self.robustness) * self.interval + query.max_response.max(QUERY_RESPONSE);
        match query.version {
            Version::Oldest => self.oldest_until = now.saturating_add(lasts),
            Version::Older => self.older_until = now.saturating_add(lasts),
            Version::Newest => {}
        }
        if self.version(now) != before {
            // RFC 3376 §7.2.1: "it cancels all its pending responses and retransmission timers".
            (self.general_at, self.change_at) = (u64::MAX, u64::MAX);
            for member in &mut self.members {
                (member.asked, member.answer_at, member.mode_left, member.due) =
                    (None, u64::MAX, 0, false);
                member.changes.clear();
            }
            self.members.retain(|member| !member.is_over());
        }
    }

    /// RFC 2236 §3: each group has a delay of its own, so that others' reports can spare it.
    fn ask_each(&mut self, max: u64, now: u64) {
        for member in
            self.members.iter_mut().filter(|m| m.group.is_reported() && !m.filter.is_none())
        {
            let at = now.saturating_add(self.random.up_to(max));
            (member.asked, member.answer_at) = (Some(Asked::All), member.answer_at.min(at));
        }
    }

    /// RFC 3376 §5.2, rules 3 to 5.
    fn ask(&mut self, group: A, sources: impl Iterator<Item = A>, at: u64) {
        let Ok(place) = self.members.binary_search_by_key(&group, |member| member.group) else {
            return;
        };
        let member = &mut self.members[place];
        if !group.is_reported() || member.filter.is_none() {
            return;
        }
        let mut asked: Vec<A> = sources.take(MAX_SOURCES + 1).collect();
        let all = match &member.asked {
            Some(Asked::All) => true,
            Some(Asked::Of(before)) => {
                let missing: Vec<A> =
                    before.iter().copied().filter(|s| !asked.contains(s)).collect();
                let was_all = asked.is_empty();
                asked.extend(missing);
                was_all || asked.len() > MAX_SOURCES
            }
            None => asked.is_empty() || asked.len() > MAX_SOURCES,
        };
        member.asked = Some(if all { Asked::All } else { Asked::Of(asked) });
        member.answer_at = member.answer_at.min(at);
    }

    fn report_changes(&mut self, report: &mut Report<'_>, now: u64) {
        for member in self.members.iter_mut().filter(|member| member.due) {
            if !say(member, report) {
                return;
            }
            member.said();
        }
        self.members.retain(|member| !member.is_over());
        let left = self.members.iter().any(Member::changes_left);
        if left && self.change_at == u64::MAX {
            self.change_at = now.saturating_add(1 + self.random.up_to(UNSOLICITED - 1));
        }
    }

    fn report_answers(&mut self, report: &mut Report<'_>, now: u64) {
        for member in self.members.iter_mut().filter(|member| member.answer_at <= now) {
            let Some(asked) = &member.asked else {
                member.answer_at = u64::MAX;
                continue;
            };
            let (kind, sources) = member.answer(asked);
            let silent = matches!(asked, Asked::Of(_)) && sources.is_empty();
            if !silent && !report.add(kind, member.group, sources.iter().copied()) {
                return;
            }
            (member.asked, member.answer_at) = (None, u64::MAX);
        }
    }

    fn poll_old(&mut self, now: u64, src: A, out: &mut [u8]) -> Option<Outgoing<A>> {
        let oldest = self.version(now) == Version::Oldest;
        if let Some(group) = self.leaves.pop() {
            return message(OldKind::Leave, group, src, A::ROUTERS, out);
        }
        let ready = |m: &&mut Member<A>| m.due || m.answer_at <= now;
        let Some(member) = self.members.iter_mut().find(ready) else {
            self.rearm_old(now);
            return None;
        };
        if member.due {
            member.said();
        }
        (member.asked, member.answer_at, member.reported) = (None, u64::MAX, true);
        let (kind, group) = (if oldest { OldKind::Oldest } else { OldKind::Report }, member.group);
        message(kind, group, src, group, out)
    }

    /// RFC 2236 §3: the first report of a membership "be repeated once or twice after short delays".
    fn rearm_old(&mut self, now: u64) {
        if self.members.iter().any(Member::changes_left) && self.change_at == u64::MAX {
            self.change_at = now.saturating_add(1 + self.random.up_to(UNSOLICITED_OLD - 1));
        }
    }
}

fn message<A: Family>(
    kind: OldKind,
    group: A,
    src: A,
    dst: A,
    out: &mut [u8],
) -> Option<Outgoing<A>> {
    let len = A::old_message(kind, group, out)?;
    A::fill_checksum(&mut out[..len], src, dst);
    Some(Outgoing { dst, len })
}

/// The records of a group's changes; false if they do not fit.
fn say<A: Family>(member: &Member<A>, report: &mut Report<'_>) -> bool {
    if member.mode_left > 0 {
        let (kind, sources) = member.mode_record();
        return report.add(kind, member.group, sources.iter().copied());
    }
    use weever_wire::mld::record_kind::{ALLOW_NEW, BLOCK_OLD};
    [(true, ALLOW_NEW), (false, BLOCK_OLD)].into_iter().all(|(allow, kind)| {
        let sources = member.changed(allow);
        sources.clone().next().is_none() || report.add(kind, member.group, sources)
    })
}
