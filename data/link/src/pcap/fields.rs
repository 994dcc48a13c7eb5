//! Numbers in a file's byte order.

use super::PcapError;

/// Which byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Order::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        if self == Order::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

/// The rest of a block or header, field by field.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    order: Order,
    /// Where `rest` starts in the file.
    offset: u64,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8], order: Order, offset: u64) -> Fields<'a> {
        Fields { rest, order, offset }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub(super) fn bytes(&mut self, n: usize, what: &str) -> Result<&'a [u8], PcapError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(n) else {
            let left = self.rest.len();
            let complaint = format!("{what} needs {n} bytes and the block has {left} left");
            return Err(PcapError::malformed(self.offset, complaint));
        };
        self.rest = rest;
        self.offset += n as u64;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], PcapError> {
        let bytes = self.bytes(N, what)?;
        Ok(std::array::from_fn(|i| bytes[i]))
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16, PcapError> {
        Ok(self.order.u16(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, PcapError> {
        Ok(self.order.u32(self.array(what)?))
    }

    /// Bytes that are filled up to a multiple of four.
    pub(super) fn padded(&mut self, n: usize, what: &str) -> Result<&'a [u8], PcapError> {
        let bytes = self.bytes(n, what)?;
        // Some writers leave the filling out at the end of a block; nothing is lost by allowing it.
        let filling = n.next_multiple_of(4) - n;
        self.bytes(filling.min(self.rest.len()), "padding")?;
        Ok(bytes)
    }

    /// The next option's code and value; `None` at the end.
    pub(super) fn option(&mut self) -> Result<Option<(u16, &'a [u8])>, PcapError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let code = self.u16("an option's code")?;
        let len = self.u16("an option's length")?;
        let value = self.padded(len.into(), "an option")?;
        Ok((code != 0).then_some((code, value)))
    }

    /// A number in an option's value, if it has that length.
    pub(super) fn value_u64(&self, value: &[u8]) -> Option<u64> {
        Some(self.order.u64(value.try_into().ok()?))
    }

    pub(super) fn value_u32(&self, value: &[u8]) -> Option<u32> {
        Some(self.order.u32(value.try_into().ok()?))
    }
}
