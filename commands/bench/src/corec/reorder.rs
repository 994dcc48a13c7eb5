//! Reordering after RFC 4737: which packets of one flow leave behind a later one, and by how much.

use std::collections::BTreeMap;

/// How far a flow's packets got out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reordering {
    /// The share of packets that are reordered (RFC 4737 §4.1: its number is below one that left before).
    pub(super) share: f64,
    /// The largest extent (§4.2.1): packets from the earliest one that has a higher number to the reordered one.
    pub(super) extent: usize,
}

impl Reordering {
    /// Of packets in the order in which they left, by their numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = u64>) -> Reordering {
        // The places at which a higher number appeared than any before: where a lower one finds the
        // earliest that is higher.
        let mut highest: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut reordered, mut extent, mut count) = (0_u64, 0, 0);
        for (place, number) in numbers.into_iter().enumerate() {
            count = place + 1;
            match highest.range(number + 1..).next() {
                Some((_, earliest)) => {
                    reordered += 1;
                    extent = extent.max(place - earliest);
                }
                None => {
                    highest.insert(number, place);
                }
            }
        }
        Reordering { share: reordered as f64 / count.max(1) as f64, extent }
    }
}

/// Nanoseconds from packet to packet of so many bytes (without check sequence) at so many Gbit/s: with 24 bytes
/// of preamble, check sequence and gap.
pub(super) fn pause(bytes: u64, rate: f64) -> f64 {
    ((bytes + 24) * 8) as f64 / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_and_extent_are_those_of_rfc_4737() {
        let of = |numbers: &[u64]| {
            let Reordering { share, extent } = Reordering::of(numbers.iter().copied());
            ((share * numbers.len() as f64).round() as u64, extent)
        };
        // Packet 4 behind 5 to 8, as in §7.1.
        assert_eq!(of(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), (1, 4));
        // A run of them: the extent of the last counts from packet 7.
        assert_eq!(of(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]), (3, 6));
        assert_eq!(of(&[1, 2, 3]), (0, 0));
        assert_eq!(of(&[]), (0, 0));
        // What is lost is not reordered.
        assert_eq!(of(&[1, 5, 9]), (0, 0));
        assert_eq!(of(&[3, 2, 1]), (2, 2));
    }

    #[test]
    fn the_rate_of_short_frames_is_the_known_one() {
        assert!((1e3 / pause(60, 10.0) - 14.88).abs() < 0.01);
    }
}
