//! The ticks of a file's clock.

const NS: u128 = 1_000_000_000;

/// The unit of an interface's timestamps and the offset to add to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    /// As option if_tsresol: the negative power of ten, or with the highest bit of two.
    resolution: u8,
    /// Seconds, as option if_tsoffset.
    offset: i64,
}

impl Ticks {
    pub(super) const MICROS: Ticks = Ticks { resolution: 6, offset: 0 };
    pub(super) const NANOS: Ticks = Ticks { resolution: 9, offset: 0 };

    pub(super) fn new(resolution: u8, offset: i64) -> Ticks {
        Ticks { resolution, offset }
    }

    /// Nanoseconds since 1970, cut to the range of a `u64` (the year 2554).
    pub(super) fn nanos(self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let power = u32::from(self.resolution & 0x7f);
        let since = if self.resolution & 0x80 != 0 {
            (ticks * NS) >> power
        } else if power <= 9 {
            ticks * 10u128.pow(9 - power)
        } else {
            // A divisor that does not fit is larger than any number of ticks.
            10u128.checked_pow(power - 9).map_or(0, |divisor| ticks / divisor)
        };
        let total = since as i128 + i128::from(self.offset) * NS as i128;
        u64::try_from(total.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_comes_out_in_nanoseconds() {
        assert_eq!(Ticks::MICROS.nanos(1_500_000), 1_500_000_000);
        assert_eq!(Ticks::NANOS.nanos(7), 7);
        assert_eq!(Ticks::new(0, 0).nanos(3), 3_000_000_000);
        assert_eq!(Ticks::new(12, 0).nanos(9_999), 9);
        assert_eq!(Ticks::new(0x80 | 10, 0).nanos(1024), 1_000_000_000);
        assert_eq!(Ticks::new(6, 100).nanos(0), 100_000_000_000);
        assert_eq!(Ticks::new(6, -100).nanos(5), 0);
    }

    #[test]
    fn no_resolution_and_no_offset_overflows() {
        for resolution in 0..=255 {
            for offset in [i64::MIN, 0, i64::MAX] {
                Ticks::new(resolution, offset).nanos(u64::MAX);
            }
        }
    }
}
