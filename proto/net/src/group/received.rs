//! Receiving queries and other hosts' reports.

use alloc::vec::Vec;

use super::family::{Family, Query, Version};
use super::filter::MAX_SOURCES;
use super::machine::Memberships;
use super::member::Asked;
use crate::SECOND;

/// RFC 3376 §8.3, RFC 3810 §9.3.
const QUERY_RESPONSE: u64 = 10 * SECOND;

impl<A: Family> Memberships<A> {
    /// Takes a query; `sources` are those that it asks for.
    pub fn query(&mut self, query: Query<A>, sources: impl Iterator<Item = A>, now: u64) {
        if query.version == Version::Newest {
            self.robustness = if query.robustness == 0 {
                self.config.robustness.max(1)
            } else {
                query.robustness
            };
            // RFC 3376 §4.1.7: a querier that states no interval keeps that of the one before.
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

    /// Takes another host's report of an older version: RFC 2236 §3, a host that receives one need not
    /// send its own.
    pub fn receive_report(&mut self, group: A, now: u64) {
        if self.version(now) == Version::Newest {
            return;
        }
        if let Ok(at) = self.members.binary_search_by_key(&group, |member| member.group) {
            let member = &mut self.members[at];
            (member.asked, member.answer_at, member.reported) = (None, u64::MAX, false);
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
}
