//! Reports to queriers: their records, and when they are sent.

use weever_wire::listener::ReportWriter;
use weever_wire::listener::record_kind::{ALLOW_NEW, BLOCK_OLD};

use super::family::{Family, OldKind, Version};
use super::machine::Memberships;
use super::member::{Asked, Member};
use crate::SECOND;

/// RFC 3376 §8.11, RFC 3810 §9.11: between two reports of one change, at most.
const UNSOLICITED: u64 = SECOND;
/// RFC 2236 §8.10: the same in the older version.
const UNSOLICITED_OLD: u64 = 10 * SECOND;

/// A message to be sent, with a hop limit of 1 and a router alert option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<A> {
    /// Its destination.
    pub dst: A,
    /// Bytes of it in the caller's buffer, checksum included.
    pub len: usize,
}

impl<A: Family> Memberships<A> {
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
        let mut report = ReportWriter::new(out);
        self.report_changes(&mut report, now);
        self.report_answers(&mut report, now);
        let message = report.finish::<A>()?;
        A::fill_checksum(message, src, A::REPORTS);
        Some(Outgoing { dst: A::REPORTS, len: message.len() })
    }

    /// Turns expired timers into due reports.
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

    fn report_changes(&mut self, report: &mut ReportWriter<'_>, now: u64) {
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

    fn report_answers(&mut self, report: &mut ReportWriter<'_>, now: u64) {
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
fn say<A: Family>(member: &Member<A>, report: &mut ReportWriter<'_>) -> bool {
    if member.mode_left > 0 {
        let (kind, sources) = member.mode_record();
        return report.add(kind, member.group, sources.iter().copied());
    }
    [(true, ALLOW_NEW), (false, BLOCK_OLD)].into_iter().all(|(allow, kind)| {
        let sources = member.changed(allow);
        sources.clone().next().is_none() || report.add(kind, member.group, sources)
    })
}
