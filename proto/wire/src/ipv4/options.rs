//! IPv4 options (RFC 791 §3.1 "Options").

use crate::{Layer, WireError};

/// Option type bytes, copied flag and class included.
pub mod option_kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source and record route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source and record route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
}

/// Whether `area`, as for [`Ipv4Options::new`], has an intact router alert option: routers are to look at the
/// datagram (RFC 2113).
pub fn asks_routers(area: &[u8]) -> bool {
    let alert = |option: Ipv4Option<'_>| option.kind == option_kind::ROUTER_ALERT;
    Ipv4Options::new(area).any(|option| option.is_ok_and(alert))
}

/// One option other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The type byte, see [`option_kind`].
    pub kind: u8,
    /// Where the type byte stands, counted from the end of the fixed header.
    pub offset: usize,
    /// The value, behind type and length.
    pub data: &'a [u8],
}

/// Iterates over a header's options, passing over "no operation" and stopping at "end of list".
///
/// A malformed option yields an error once and ends the iteration.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Options<'a> {
    area: &'a [u8],
    at: usize,
}

impl<'a> Ipv4Options<'a> {
    /// Iterates over `area`, the bytes between the fixed header and the payload.
    pub fn new(area: &'a [u8]) -> Self {
        Self { area, at: 0 }
    }

    fn read(&mut self, kind: u8) -> Result<Ipv4Option<'a>, WireError> {
        let (offset, max) = (self.at, self.area.len() - self.at);
        let said = self.area.get(offset + 1).map_or(0, |&len| usize::from(len));
        if said < 2 || said > max {
            self.at = self.area.len();
            return Err(WireError::BadLength { layer: Layer::Ipv4, said, min: 2, max });
        }
        self.at += said;
        Ok(Ipv4Option { kind, offset, data: &self.area[offset + 2..offset + said] })
    }
}

impl<'a> Iterator for Ipv4Options<'a> {
    type Item = Result<Ipv4Option<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.area.get(self.at)? {
                option_kind::END => self.at = self.area.len(),
                option_kind::NOP => self.at += 1,
                kind => return Some(self.read(kind)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn walks_over_padding_and_stops_at_the_end() {
        let area = [1, 148, 4, 0, 0, 131, 7, 4, 10, 0, 0, 1, 99, 2, 0, 7, 99, 99];
        let got: Vec<_> = Ipv4Options::new(&area).map(Result::unwrap).collect();
        let alert = Ipv4Option { kind: 148, offset: 1, data: &[0, 0] };
        let route = Ipv4Option { kind: 131, offset: 5, data: &[4, 10, 0, 0, 1] };
        let empty = Ipv4Option { kind: 99, offset: 12, data: &[] };
        assert_eq!(got, [alert, route, empty]);
    }

    #[test]
    fn lying_lengths_end_the_walk_with_an_error() {
        for area in [&[7, 1, 0, 0][..], &[7, 0, 0, 0], &[7, 5, 0, 0], &[1, 1, 1, 7]] {
            let mut options = Ipv4Options::new(area);
            assert!(matches!(options.next(), Some(Err(WireError::BadLength { .. }))), "{area:?}");
            assert_eq!(options.next(), None);
        }
    }

    proptest! {
        #[test]
        fn terminates_within_the_area(area in vec(any::<u8>(), 0..41)) {
            let mut end = 0;
            for option in Ipv4Options::new(&area) {
                let Ok(option) = option else { continue };
                prop_assert!(option.offset >= end);
                end = option.offset + 2 + option.data.len();
                prop_assert!(end <= area.len());
            }
        }
    }
}
