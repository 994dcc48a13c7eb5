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
    }
    Ok(())
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

    proptest! {
        #[test]
        fn a_malformed_option_is_pointed_at(area in vec(any::<u8>(), 0..41)) {
            if let Err(OptionReject::Malformed { pointer }) = check(&area) {
                let at = usize::from(pointer) - 20;
                let room = area.len() - at;
                let said = area.get(at + 1).map_or(0, |&len| usize::from(len));
                prop_assert!(area[at] > 1 && (said < 2 || said > room));
            }
        }
    }
}
