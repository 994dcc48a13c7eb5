//! 48-bit Ethernet addresses.

use core::fmt;
use core::str::FromStr;

/// A 48-bit Ethernet address, in transmission order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All stations: ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// No station: 00:00:00:00:00:00.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The address as a number; the first byte on the wire is the most significant.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address whose number is the low 48 bits of `bits`.
    #[inline]
    pub const fn from_bits(bits: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// Whether it names a group, the broadcast address included (IEEE 802 I/G bit).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it is the broadcast address.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        self.to_bits() == 0xffff_ffff_ffff
    }

    /// Whether it can be the address of one station: neither a group nor zero.
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_bits() != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ethernet address: six hexadecimal bytes joined by ':' are expected")]
pub struct ParseMacError;

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            *byte = parts.next().and_then(hex_byte).ok_or(ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(MacAddr(bytes)) }
    }
}

/// One or two hexadecimal digits; `from_str_radix` alone would take a sign too.
fn hex_byte(text: &str) -> Option<u8> {
    let digits = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if digits { u8::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    proptest! {
        #[test]
        fn text_and_bits_round_trip(bytes: [u8; 6]) {
            let mac = MacAddr(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            prop_assert_eq!(MacAddr::from_bits(mac.to_bits()), mac);
        }

        #[test]
        fn arbitrary_text_does_not_panic(text: std::string::String) {
            let _ = text.parse::<MacAddr>();
        }
    }

    #[test]
    fn malformed_text_is_refused() {
        for bad in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:+6", "1:2:3:4:5:006", "g:2:3:4:5:6"]
        {
            assert_eq!(bad.parse::<MacAddr>(), Err(ParseMacError), "{bad}");
        }
    }

    #[test]
    fn groups_and_stations() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(MacAddr([1, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::BROADCAST.is_unicast());
    }
}
