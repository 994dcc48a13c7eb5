//! Switching features: `ETHTOOL_MSG_FEATURES_SET` of the `ethtool` family (since Linux 5.8).

use std::io;

use super::Questions;
use super::wire::{attribute, nested};

/// `ETHTOOL_MSG_FEATURES_SET`.
const SET: u8 = 12;
/// `ETHTOOL_A_FEATURES_HEADER`, `_WANTED`.
const ABOUT: u16 = 1;
const WANTED: u16 = 3;
/// `ETHTOOL_A_HEADER_DEV_INDEX`, `_FLAGS`, and `ETHTOOL_FLAG_OMIT_REPLY`: what became of it is read back.
const DEVICE: u16 = 1;
const FLAGS: u16 = 3;
const NO_REPLY: u32 = 2;
/// `ETHTOOL_A_BITSET_BITS`, `ETHTOOL_A_BITSET_BITS_BIT`, and `ETHTOOL_A_BITSET_BIT_NAME`, `_VALUE` of that.
const BITS: u16 = 3;
const BIT: u16 = 1;
const NAME: u16 = 2;
const VALUE: u16 = 3;
/// `NLM_F_ACK`.
const ACKNOWLEDGE: u16 = 4;

/// Asks for a feature to be on or off, by the kernel's name. The driver may leave it as it is.
///
/// # Errors
/// The kernel's refusal: EOPNOTSUPP of a name that it does not know.
pub(crate) fn set(questions: &mut Questions, ifindex: u32, name: &str, on: bool) -> io::Result<()> {
    let family = questions.family("ethtool")?.id;
    questions.ask(family, SET, ACKNOWLEDGE, &wish(ifindex, name, on), &mut |_| {})
}

fn wish(ifindex: u32, name: &str, on: bool) -> Vec<u8> {
    let about =
        [attribute(DEVICE, &ifindex.to_ne_bytes()), attribute(FLAGS, &NO_REPLY.to_ne_bytes())];
    let mut bit = attribute(NAME, &[name.as_bytes(), &[0]].concat());
    if on {
        bit.extend(attribute(VALUE, &[]));
    }
    let bits = nested(BITS, &nested(BIT, &bit));
    [nested(ABOUT, &about.concat()), nested(WANTED, &bits)].concat()
}

#[cfg(test)]
mod tests {
    use super::super::wire::find;
    use super::*;

    #[test]
    fn a_wish_names_the_device_and_the_bit() {
        for on in [false, true] {
            let wish = wish(7, "rx-gro", on);
            let about = find(&wish, ABOUT).unwrap();
            assert_eq!(find(about, DEVICE), Some(&7u32.to_ne_bytes()[..]));
            let bits = find(find(&wish, WANTED).unwrap(), BITS).unwrap();
            let bit = find(bits, BIT).unwrap();
            assert_eq!(find(bit, NAME), Some(&b"rx-gro\0"[..]));
            assert_eq!(find(bit, VALUE).is_some(), on);
        }
    }

    #[test]
    fn a_feature_that_no_kernel_has_is_refused() {
        let error = set(&mut Questions::open().unwrap(), 1, "no-such-feature", true).unwrap_err();
        let known = [Some(libc::EOPNOTSUPP), Some(libc::EPERM)];
        assert!(known.contains(&error.raw_os_error()), "{error}");
    }
}
