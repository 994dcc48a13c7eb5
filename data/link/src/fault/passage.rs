//! A token bucket behind a bounded queue, without a queue: when each packet is through is known
//! when it comes.

use weever_packet::Nanos;

use super::Rate;

const SECOND: u128 = 1_000_000_000;

/// The generic cell rate algorithm in its virtual scheduling form (ITU-T I.371, annex A): the same
/// as a bucket of tokens that is filled at the rate.
#[derive(Debug)]
pub(super) struct Passage {
    rate: Rate,
    /// When the passage has worked off everything that entered, at its rate.
    worked_off: Nanos,
}

impl Passage {
    pub(super) fn new(rate: Rate) -> Passage {
        Passage { rate, worked_off: 0 }
    }

    /// When a packet of `len` bytes that comes now is through; `None` if the queue is full.
    pub(super) fn enter(&mut self, len: usize, now: Nanos) -> Option<Nanos> {
        if self.rate.bits_per_second == 0 {
            return Some(now);
        }
        let burst = self.takes(self.rate.burst as usize);
        let starts = self.worked_off.max(now);
        let waits = (starts - now).saturating_sub(burst);
        // An empty queue takes any packet, however small it is.
        if waits > 0 && waits.saturating_add(self.takes(len)) > self.takes(self.rate.queue as usize)
        {
            return None;
        }
        self.worked_off = starts.saturating_add(self.takes(len));
        Some(self.worked_off.saturating_sub(burst).max(now))
    }

    /// How long so many bytes take.
    fn takes(&self, bytes: usize) -> Nanos {
        let time = bytes as u128 * 8 * SECOND / u128::from(self.rate.bits_per_second);
        Nanos::try_from(time).unwrap_or(Nanos::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes a microsecond.
    fn passage(burst: u32, queue: u32) -> Passage {
        Passage::new(Rate { bits_per_second: 8_000_000, burst, queue })
    }

    #[test]
    fn a_wire_takes_a_packets_length() {
        let mut wire = passage(0, 1000);
        assert_eq!(wire.enter(100, 5_000), Some(105_000));
        assert_eq!(wire.enter(100, 5_000), Some(205_000));
        assert_eq!(wire.enter(100, 1_000_000), Some(1_100_000), "a pause is not saved up");
    }

    #[test]
    fn a_burst_passes_at_once_and_has_to_be_earned_again() {
        let mut bucket = passage(200, 1000);
        let through = |bucket: &mut Passage, now| bucket.enter(100, now).unwrap();
        assert_eq!([0, 0, 0].map(|now| through(&mut bucket, now)), [0, 0, 100_000]);
        assert_eq!(through(&mut bucket, 250_000), 250_000);
        assert_eq!(through(&mut bucket, 250_000), 300_000);
    }

    #[test]
    fn the_queue_has_an_end() {
        let mut wire = passage(0, 250);
        let accepted = (0..10).filter(|_| wire.enter(100, 0).is_some()).count();
        assert_eq!(accepted, 2, "250 bytes waiting hold no third");
        assert!(wire.enter(100, 120_000).is_some(), "one is through");
        assert!(passage(0, 0).enter(9_000, 0).is_some(), "no packet waits");
    }
}
