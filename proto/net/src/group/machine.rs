//! The state machine of one interface.

use alloc::vec::Vec;

use super::family::{Family, Version};
use super::filter::{Filter, MAX_SOURCES};
use super::member::Member;
use crate::SECOND;
use crate::random::Random;

/// RFC 3376 §8.2: the interval until a querier says another.
const QUERY_INTERVAL: u64 = 125 * SECOND;
/// Users of one group.
const MAX_USERS: usize = 64;

/// Limits of [`Memberships`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// Groups that are listened to.
    pub groups: usize,
    /// Times that a change is reported, until a querier says otherwise (RFC 3376 §8.1).
    pub robustness: u8,
    /// For delays.
    pub random: Random,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self { groups: 256, robustness: 2, random: Random::new(0) }
    }
}

/// Why a membership was refused.
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

/// The memberships of one interface; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Memberships<A> {
    pub(super) config: MembershipConfig,
    pub(super) random: Random,
    /// Ascending.
    pub(super) members: Vec<Member<A>>,
    pub(super) robustness: u8,
    /// Nanoseconds between general queries, as the last one that said so has it.
    pub(super) interval: u64,
    pub(super) older_until: u64,
    pub(super) oldest_until: u64,
    /// When a general query is to be answered.
    pub(super) general_at: u64,
    /// When changes are to be reported.
    pub(super) change_at: u64,
    /// Leaves to be sent to an older querier.
    pub(super) leaves: Vec<A>,
}

impl<A: Family> Memberships<A> {
    /// Listens to nothing.
    pub fn new(config: MembershipConfig) -> Self {
        Self {
            config,
            random: config.random,
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

    /// Sets the sources that `user` wants to hear of `group`, in place of the earlier ones;
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

    /// Has `user` listen to exactly these groups, from any source.
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

    /// Forgets the querier and reports all memberships anew: the link was down, and may lead elsewhere
    /// now.
    pub fn restart(&mut self, now: u64) {
        (self.robustness, self.interval) = (self.config.robustness.max(1), QUERY_INTERVAL);
        (self.older_until, self.oldest_until, self.general_at) = (0, 0, u64::MAX);
        self.leaves.clear();
        let robustness = self.robustness;
        self.members.iter_mut().for_each(|member| member.restart(robustness));
        self.members.retain(|member| !member.is_over());
        let left = self.members.iter().any(Member::changes_left);
        self.change_at = if left { now } else { u64::MAX };
    }

    /// Whether a datagram from `source` to `group` is wanted.
    pub fn accepts(&self, group: A, source: A) -> bool {
        self.filter(group).is_some_and(|filter| filter.accepts(source))
    }

    /// The sources of `group` that are heard.
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

    fn changed(&mut self, at: usize, now: u64) {
        let (robustness, version) = (self.robustness, self.version(now));
        let member = &mut self.members[at];
        let before = !member.filter.is_none();
        let is_new = member.refilter(robustness);
        if !member.group.is_reported() {
            (member.mode_left, member.due) = (0, false);
            member.changes.clear();
        } else if !is_new {
            member.due = false;
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
}
