//! Which octets arrived ahead of RCV.NXT. The octets themselves lie in the application's region.

use weever_wire::tcp::Seq;

/// The most runs that are kept: octets that would make one more are refused, and sent again by the
/// peer.
pub(crate) const MAX_RUNS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: Seq,
    end: Seq,
    /// When it changed last, as a count, for the order of blocks in acknowledgements.
    stamp: u32,
}

/// Runs of octets, in order, neither overlapping nor touching. As long as nothing is missing, which
/// for most connections is always, they take up one pointer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly(Option<Box<Runs>>);

#[derive(Clone, Debug, Default)]
struct Runs {
    runs: Vec<Run>,
    stamp: u32,
}

/// The result of inserting a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It has octets that were not there.
    New,
    /// All of it was there.
    Duplicate,
    /// There are too many runs.
    Full,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |runs| runs.runs.len())
    }

    /// Where the last run ends.
    pub(crate) fn end(&self) -> Option<Seq> {
        self.0.as_ref()?.runs.last().map(|run| run.end)
    }

    /// Adds the octets from `start` to `end`.
    pub(crate) fn insert(&mut self, start: Seq, end: Seq) -> Inserted {
        self.0.get_or_insert_default().insert(start, end)
    }

    /// Takes out the runs that continue the stream at `nxt`, or lie before it; returns the new end
    /// of the stream.
    pub(crate) fn advance(&mut self, nxt: Seq) -> Seq {
        let Some(runs) = &mut self.0 else { return nxt };
        let end = runs.advance(nxt);
        if runs.runs.is_empty() {
            self.0 = None;
        }
        end
    }

    /// Fills in blocks, the latest change first, without `besides`. RFC 2018 §4: "The first SACK block (i.e., the one
    /// immediately following the kind and length fields in the option) MUST specify the contiguous
    /// block of data containing the segment which triggered this ACK", and the others repeat "the
    /// most recently reported SACK blocks".
    pub(crate) fn blocks(&self, besides: Option<Seq>, out: &mut [(Seq, Seq)]) -> usize {
        self.0.as_ref().map_or(0, |runs| runs.blocks(besides, out))
    }

    /// The block that holds `seq`.
    pub(crate) fn block_with(&self, seq: Seq) -> Option<(Seq, Seq)> {
        self.0.as_ref()?.block_with(seq)
    }
}

impl Runs {
    fn insert(&mut self, start: Seq, end: Seq) -> Inserted {
        let first = self.runs.partition_point(|run| run.end.lt(start));
        let last = first + self.runs[first..].partition_point(|run| run.start.le(end));
        self.stamp = self.stamp.wrapping_add(1);
        let stamp = self.stamp;
        if first == last {
            if self.runs.len() >= MAX_RUNS {
                return Inserted::Full;
            }
            self.runs.insert(first, Run { start, end, stamp });
            return Inserted::New;
        }
        let run = self.runs[first];
        if last == first + 1 && run.start.le(start) && run.end.ge(end) {
            self.runs[first].stamp = stamp;
            return Inserted::Duplicate;
        }
        let whole =
            Run { start: start.min(run.start), end: end.max(self.runs[last - 1].end), stamp };
        self.runs[first] = whole;
        self.runs.drain(first + 1..last);
        Inserted::New
    }

    fn advance(&mut self, nxt: Seq) -> Seq {
        let mut nxt = nxt;
        let mut gone = 0;
        while let Some(run) = self.runs.get(gone).filter(|run| run.start.le(nxt)) {
            nxt = nxt.max(run.end);
            gone += 1;
        }
        self.runs.drain(..gone);
        nxt
    }

    fn blocks(&self, besides: Option<Seq>, out: &mut [(Seq, Seq)]) -> usize {
        let mut below = None;
        for (count, slot) in out.iter_mut().enumerate() {
            let age = |run: &Run| self.stamp.wrapping_sub(run.stamp);
            let others = self.runs.iter().filter(|run| Some(run.start) != besides);
            let next = others.filter(|run| below.is_none_or(|below| age(run) > below));
            let Some(next) = next.min_by_key(|run| age(run)) else { return count };
            below = Some(age(next));
            *slot = (next.start, next.end);
        }
        out.len()
    }

    fn block_with(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let run = self.runs.iter().find(|run| run.start.le(seq) && run.end.gt(seq))?;
        Some((run.start, run.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_octets(
            base: u32,
            steps in vec((0u32..200, 1u32..30, any::<bool>()), 1..40),
        ) {
            let (mut runs, mut model) = (Reassembly::default(), BTreeSet::new());
            let mut nxt = Seq(base);
            for (at, len, advance) in steps {
                let octets: BTreeSet<u32> = (at.max(nxt - Seq(base))..at + len).collect();
                if octets.is_empty() {
                    continue;
                }
                let start = Seq(base) + *octets.first().unwrap();
                let known = octets.is_subset(&model);
                let got = runs.insert(start, Seq(base) + at + len);
                prop_assert_eq!(got == Inserted::Duplicate, known);
                model.extend(octets);
                if advance {
                    nxt = runs.advance(nxt);
                    while model.remove(&(nxt - Seq(base))) {
                        prop_assert!(false, "advanced as far as there are octets");
                    }
                    model.retain(|octet| (Seq(base) + *octet).ge(nxt));
                }
                let mut blocks = [(Seq(0), Seq(0)); MAX_RUNS];
                let count = runs.blocks(None, &mut blocks);
                let all: BTreeSet<u32> = blocks[..count]
                    .iter()
                    .flat_map(|(start, end)| *start - Seq(base)..*end - Seq(base))
                    .collect();
                prop_assert_eq!(&all, &model);
                prop_assert_eq!(count, runs.len());
            }
        }
    }

    #[test]
    fn the_latest_block_comes_first() {
        let mut runs = Reassembly::default();
        for at in [10, 30, 50, 70, 31] {
            runs.insert(Seq(at), Seq(at + 2));
        }
        let mut blocks = [(Seq(0), Seq(0)); 3];
        assert_eq!(runs.blocks(None, &mut blocks), 3);
        assert_eq!(blocks, [(Seq(30), Seq(33)), (Seq(70), Seq(72)), (Seq(50), Seq(52))]);
        assert_eq!(runs.block_with(Seq(32)), Some((Seq(30), Seq(33))));
        assert_eq!(runs.block_with(Seq(33)), None);
    }

    #[test]
    fn runs_are_bounded() {
        let mut runs = Reassembly::default();
        for at in 0..MAX_RUNS as u32 {
            assert_eq!(runs.insert(Seq(at * 10), Seq(at * 10 + 1)), Inserted::New);
        }
        assert_eq!(runs.insert(Seq(5), Seq(6)), Inserted::Full);
        assert_eq!(runs.insert(Seq(1), Seq(10)), Inserted::New);
        assert_eq!(runs.len(), MAX_RUNS - 1);
    }
}
