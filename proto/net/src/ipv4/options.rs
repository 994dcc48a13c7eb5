//! Which IPv4 options a datagram may carry.

use weever_wire::ipv4::{Ipv4Options, option_kind};

/// Why a datagram's options are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OptionReject {
    /// A length runs beyond the header; the pointer of the "parameter problem" to report,
    /// counted from the start of the header.
    #[error("malformed IPv4 option at byte {pointer} of the header")]
    Malformed {
        /// Where.
        pointer: u8,
    },
    /// A loose or strict source route (RFC 7126 §4.3, §4.4: SHOULD be dropped by default).
    #[error("source-routed datagram")]
    SourceRoute,
}

/// Checks the options of a whole header; headers without options cost one comparison.
///
/// RFC 1122 §3.2.1.8: "The IP and transport layers MUST each interpret those IP options that they
/// understand and silently ignore the others."
///
/// # Errors
/// The first option that is not to be taken.
#[inline]
pub fn check_options(header: &[u8]) -> Result<(), OptionReject> {
    if header.len() <= super::HEADER_LEN { Ok(()) } else { walk(&header[super::HEADER_LEN..]) }
}

#[cold]
fn walk(area: &[u8]) -> Result<(), OptionReject> {
    let mut end = 0;
    for option in Ipv4Options::new(area) {
        // After the last good option only padding can precede the bad one.
        let option = option.map_err(|_| malformed(area, end))?;
        end = option.offset + 2 + option.data.len();
        if matches!(option.kind, option_kind::LOOSE_SOURCE_ROUTE | option_kind::STRICT_SOURCE_ROUTE)
        {
            return Err(OptionReject::SourceRoute);
        }
        if let Some(at) = bad_recorder(option.kind, option.data) {
            return Err(OptionReject::Malformed {
                pointer: (super::HEADER_LEN + option.offset + at) as u8,
            });
        }
    }
    Ok(())
}

/// Where an option that records a route or timestamps (RFC 791 §3.1) contradicts itself, in bytes from
/// its start: it is shorter than its fixed part, or its pointer points into that, or there is room for
/// less than a whole entry behind the pointer.
fn bad_recorder(kind: u8, data: &[u8]) -> Option<usize> {
    let (first, entry) = match kind {
        option_kind::RECORD_ROUTE => (4, 4),
        option_kind::TIMESTAMP => (5, timestamp_len(data)),
        _ => return None,
    };
    let len = data.len() + 2;
    match data.first().map(|&pointer| usize::from(pointer)) {
        _ if len < first - 1 => Some(1),
        Some(pointer) if pointer < first => Some(2),
        // RFC 791: the pointer of a full area is beyond its end.
        Some(pointer) if pointer <= len && pointer + entry - 1 > len => Some(2),
        Some(_) => None,
        None => Some(1),
    }
}

/// Bytes of a timestamp option's entry: a time, and with the flags 1 and 3 an address before it.
fn timestamp_len(data: &[u8]) -> usize {
    match data.get(1).map_or(0, |flags| flags & 0xf) {
        1 | 3 => 8,
        _ => 4,
    }
}

fn malformed(area: &[u8], end: usize) -> OptionReject {
    let padding = area[end..].iter().take_while(|&&byte| byte == option_kind::NOP).count();
    OptionReject::Malformed { pointer: (super::HEADER_LEN + end + padding) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn check(area: &[u8]) -> Result<(), OptionReject> {
        check_options(&[&[0; 20], area].concat())
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[1, 148, 4, 0, 0, 0, 99, 99]), Ok(()), "router alert");
        assert_eq!(check(&[99, 4, 0, 0]), Ok(()), "unknown");
        assert_eq!(check(&[1, 131, 3, 4]), Err(OptionReject::SourceRoute));
        assert_eq!(check(&[1, 1, 137, 3, 4, 0, 0, 0]), Err(OptionReject::SourceRoute));
        assert_eq!(
            check(&[148, 4, 0, 0, 1, 7, 9, 0]),
            Err(OptionReject::Malformed { pointer: 25 })
        );
    }

    /// Linux reports the same bytes.
    #[test]
    fn a_recorder_that_contradicts_itself_is_malformed() {
        let at = |area: &[u8]| match check(area) {
            Err(OptionReject::Malformed { pointer }) => Some(pointer - 20),
            _ => None,
        };
        assert_eq!(at(&[7, 7, 4, 0, 0, 0, 0, 0]), None);
        assert_eq!(at(&[7, 7, 8, 0, 0, 0, 0, 0]), None, "full");
        assert_eq!(at(&[7, 7, 3, 0, 0, 0, 0, 0]), Some(2), "points into itself");
        assert_eq!(at(&[1, 7, 7, 5, 0, 0, 0, 0]), Some(3), "no room for a whole address");
        assert_eq!(at(&[1, 1, 7, 2]), Some(3), "without a pointer");
        assert_eq!(at(&[68, 8, 5, 0, 0, 0, 0, 0]), None);
        assert_eq!(at(&[68, 8, 4, 0, 0, 0, 0, 0]), Some(2));
        assert_eq!(at(&[68, 8, 5, 1, 0, 0, 0, 0]), Some(2), "no room for address and time");
        assert_eq!(at(&[1, 68, 3, 5]), Some(2));
    }

    proptest! {
        #[test]
        fn a_malformed_option_is_pointed_at(area in vec(any::<u8>(), 0..41)) {
            if let Err(OptionReject::Malformed { pointer }) = check(&area) {
                let at = usize::from(pointer) - 20;
                if area[..at].iter().rev().take(2).any(|kind| [7, 68].contains(kind)) {
                    return Ok(());
                }
                let room = area.len() - at;
                let said = area.get(at + 1).map_or(0, |&len| usize::from(len));
                prop_assert!(area[at] > 1 && (said < 2 || said > room));
            }
        }
    }
}
