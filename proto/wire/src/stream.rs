//! Settings of a TCP connection, in the form in which programs and the transport exchange them.

/// A setting of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOption {
    /// Small segments are sent at once (`TCP_NODELAY`).
    NoDelay(bool),
    /// Segments that are not full are held back (`TCP_CORK`).
    Cork(bool),
    /// Seconds of idleness before the first probe, 0: no probes (`SO_KEEPALIVE`, `TCP_KEEPIDLE`).
    KeepAlive(u16),
    /// Seconds without an acknowledgement before the connection is given up, 0: the transport's
    /// default (`TCP_USER_TIMEOUT`).
    UserTimeout(u16),
}

impl StreamOption {
    /// Number and value of the setting as one word: the number in the lower 16 bits.
    pub fn to_word(self) -> u32 {
        let (number, value) = match self {
            StreamOption::NoDelay(on) => (1, u16::from(on)),
            StreamOption::Cork(on) => (2, u16::from(on)),
            StreamOption::KeepAlive(seconds) => (3, seconds),
            StreamOption::UserTimeout(seconds) => (4, seconds),
        };
        number | u32::from(value) << 16
    }

    /// The setting of a [word](Self::to_word); `None` for a number that is not known.
    pub fn from_word(word: u32) -> Option<StreamOption> {
        let (number, value) = (word as u16, (word >> 16) as u16);
        Some(match number {
            1 => StreamOption::NoDelay(value != 0),
            2 => StreamOption::Cork(value != 0),
            3 => StreamOption::KeepAlive(value),
            4 => StreamOption::UserTimeout(value),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_survives_as_a_word_and_unknown_numbers_are_none() {
        for option in [
            StreamOption::NoDelay(true),
            StreamOption::Cork(false),
            StreamOption::KeepAlive(7200),
            StreamOption::UserTimeout(u16::MAX),
        ] {
            assert_eq!(StreamOption::from_word(option.to_word()), Some(option));
        }
        assert_eq!(StreamOption::from_word(0), None);
        assert_eq!(StreamOption::from_word(99 | 1 << 16), None);
    }
}
