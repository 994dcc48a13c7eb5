//! Options (RFC 9293 §3.2), read tolerantly and written in one fixed order.

use super::Seq;
use crate::{Layer, WireError, checksum};

/// Bytes of options that a header can hold.
pub const MAX_OPTIONS_LEN: usize = 40;
/// The most SACK blocks that fit a header without other options.
pub const MAX_SACK_BLOCKS: usize = 4;
/// The largest shift that a window scale option may ask for (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
/// Bytes of the timestamps option with the padding before it (RFC 7323 appendix A).
pub const TIMESTAMPS_LEN: usize = 12;
/// Bytes of a Fast Open cookie (RFC 7413 §4.1.1), the least and the most.
pub const COOKIE_LEN: core::ops::RangeInclusive<usize> = 4..=16;

/// Kinds of options.
pub mod kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// Padding.
    pub const NOP: u8 = 1;
    /// Maximum segment size.
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgements are understood (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgement (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
    /// Fast Open cookie (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
}

/// The two values of the timestamps option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The timestamp that the sender echoes.
    pub echo: u32,
}

/// The options of a header. Unknown ones are skipped; of repeated ones the last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions<'a> {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale, not more than [`MAX_WINDOW_SCALE`].
    pub window_scale: Option<u8>,
    /// Whether the sender understands selective acknowledgements.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Fast Open cookie; empty if one is asked for.
    pub fast_open: Option<&'a [u8]>,
    /// The blocks of a selective acknowledgement: a multiple of eight bytes, see [`sack_blocks`].
    ///
    /// [`sack_blocks`]: Self::sack_blocks
    pub sack: &'a [u8],
}

impl<'a> TcpOptions<'a> {
    /// Reads the options of a header.
    ///
    /// # Errors
    /// [`WireError::BadLength`] for a length below two, beyond the header, or impossible for its
    /// kind. RFC 9293 §3.1, MUST-7: "TCP implementations MUST be prepared to handle an illegal
    /// option length (e.g., zero)".
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        match Self::usual(bytes) {
            Some(stamps) => Ok(Self { timestamps: Some(stamps), ..Self::default() }),
            None => Self::parse_all(bytes),
        }
    }

    /// Timestamps, if the options are nothing else: those of nearly every segment of a connection with
    /// timestamps (RFC 7323 appendix A).
    #[inline(always)]
    pub fn usual(bytes: &[u8]) -> Option<Timestamps> {
        let whole: &[u8; TIMESTAMPS_LEN] = bytes.try_into().ok()?;
        let word = |at| crate::bytes::be32(whole, at);
        let sign = u32::from_be_bytes([kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]);
        (word(0) == sign).then(|| Timestamps { value: word(4), echo: word(8) })
    }

    fn parse_all(mut bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut options = Self::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                kind::END => break,
                kind::NOP => bytes = rest,
                kind => {
                    let said = rest.first().map_or(0, |said| usize::from(*said));
                    let wrong =
                        WireError::BadLength { layer: Layer::Tcp, said, min: 2, max: bytes.len() };
                    if !(2..=bytes.len()).contains(&said) || !options.take(kind, &bytes[2..said]) {
                        return Err(wrong);
                    }
                    bytes = &bytes[said..];
                }
            }
        }
        Ok(options)
    }

    /// Takes one option over; false if its length is impossible.
    fn take(&mut self, kind: u8, value: &'a [u8]) -> bool {
        match (kind, value) {
            (kind::MSS, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            // RFC 7323 §2.3: "If a Window Scale option is received with a shift.cnt value larger
            // than 14, the TCP SHOULD log the error but MUST use 14 instead of the specified value."
            (kind::WINDOW_SCALE, [shift]) => {
                self.window_scale = Some((*shift).min(MAX_WINDOW_SCALE));
            }
            (kind::SACK_PERMITTED, []) => self.sack_permitted = true,
            (kind::SACK, blocks) if blocks.len().is_multiple_of(8) => self.sack = blocks,
            (kind::TIMESTAMPS, values) if values.len() == 8 => {
                self.timestamps = Some(timestamps(values));
            }
            (kind::FAST_OPEN, cookie) => self.fast_open = usable_cookie(cookie),
            (
                kind::MSS
                | kind::WINDOW_SCALE
                | kind::SACK_PERMITTED
                | kind::SACK
                | kind::TIMESTAMPS,
                _,
            ) => return false,
            _ => {}
        }
        true
    }

    /// The blocks of the selective acknowledgement, in the order in which they were sent. The first
    /// octet and the one behind the last; nothing about them has been checked.
    pub fn sack_blocks(&self) -> impl Iterator<Item = (Seq, Seq)> + use<'a> {
        self.sack.as_chunks::<8>().0.iter().map(|block| (word(block, 0), word(block, 4)))
    }
}

fn word(bytes: &[u8; 8], at: usize) -> Seq {
    Seq(crate::bytes::be32(bytes, at))
}

#[inline]
fn timestamps(values: &[u8]) -> Timestamps {
    let both = values.first_chunk::<8>().map_or([0; 8], |values| *values);
    Timestamps { value: word(&both, 0).0, echo: word(&both, 4).0 }
}

/// RFC 7413 §4.1.1: a cookie has 4 to 16 bytes, an even number of them; an empty one is a request.
/// "Options with invalid Length values or without SYN flag set MUST be ignored."
fn usable_cookie(cookie: &[u8]) -> Option<&[u8]> {
    let whole = COOKIE_LEN.contains(&cookie.len()) && cookie.len().is_multiple_of(2);
    (cookie.is_empty() || whole).then_some(cookie)
}

/// Options to be written. Those of a SYN come in the order that most hosts use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptionsRepr {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements are understood.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Blocks of a selective acknowledgement, of which the first [`sack_count`](Self::sack_count)
    /// count.
    pub sack: [(Seq, Seq); MAX_SACK_BLOCKS],
    /// How many blocks there are.
    pub sack_count: u8,
    /// Fast Open cookie and its length; 0 asks for one.
    pub fast_open: Option<([u8; 16], u8)>,
}

impl TcpOptionsRepr {
    /// Sets the options of nearly every segment: timestamps or none. SACK blocks beyond the count are left as they
    /// are, which saves writing them.
    #[inline(always)]
    pub fn set_usual(&mut self, timestamps: Option<Timestamps>) {
        (self.mss, self.window_scale, self.sack_permitted) = (None, None, false);
        (self.timestamps, self.sack_count, self.fast_open) = (timestamps, 0, None);
    }

    fn blocks(&self) -> &[(Seq, Seq)] {
        &self.sack[..usize::from(self.sack_count).min(MAX_SACK_BLOCKS)]
    }

    fn cookie(&self) -> Option<&[u8]> {
        self.fast_open.as_ref().map(|(cookie, len)| &cookie[..usize::from(*len).min(16)])
    }

    fn is_timestamps_only(&self) -> bool {
        let of_syn = self.mss.is_some() | self.window_scale.is_some() | self.sack_permitted;
        !(of_syn | self.fast_open.is_some()) && self.sack_count == 0
    }

    /// Timestamps, if there is nothing else: the options of nearly every segment of a connection with timestamps (RFC
    /// 7323 appendix A).
    #[inline]
    pub fn only_timestamps(&self) -> Option<Timestamps> {
        self.timestamps.filter(|_| self.is_timestamps_only())
    }

    /// Bytes that [`emit`](Self::emit) writes, a multiple of four. More than [`MAX_OPTIONS_LEN`]
    /// does not fit a header.
    #[inline]
    pub fn len(&self) -> usize {
        if self.timestamps.is_some() && self.is_timestamps_only() {
            return TIMESTAMPS_LEN;
        }
        let mut len = if self.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 };
        if self.sack_count > 0 {
            len += 4 + 8 * self.blocks().len();
        }
        if self.mss.is_some() || self.sack_permitted || self.fast_open.is_some() {
            // Beside timestamps the permission takes the place of their padding.
            let permission = self.sack_permitted && self.timestamps.is_none();
            len += 4 * usize::from(self.mss.is_some()) + 4 * usize::from(permission);
            len += self.cookie().map_or(0, |cookie| (2 + cookie.len()).next_multiple_of(4));
        }
        len + 4 * usize::from(self.window_scale.is_some())
    }

    /// The sum of what [`emit`](Self::emit) has written to the front of `buf`, not folded. That of timestamps is
    /// made of their values: bytes just written cannot be read in words before they have reached the cache.
    #[inline]
    pub fn sum(&self, buf: &[u8]) -> u64 {
        match self.timestamps {
            Some(Timestamps { value, echo }) if self.is_timestamps_only() => {
                0x0101 + 0x080a + u64::from(value) + u64::from(echo)
            }
            _ => buf.get(..self.len()).map_or(0, |options| checksum::sum(options).into()),
        }
    }

    /// Whether there are no options.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the options to the front of `buf`, padded to words with NOPs.
    ///
    /// # Errors
    /// [`WireError::NoRoom`], also if they would not fit a header.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        // The options of nearly every segment of a connection with timestamps (RFC 7323 appendix
        // A).
        if let Some(Timestamps { value, echo }) = self.timestamps
            && self.is_timestamps_only()
            && let Some(out) = buf.first_chunk_mut::<TIMESTAMPS_LEN>()
        {
            let values = u64::from(value) << 32 | u64::from(echo);
            out[..4].copy_from_slice(&[kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]);
            out[4..].copy_from_slice(&values.to_be_bytes());
            return Ok(TIMESTAMPS_LEN);
        }
        self.emit_all(buf)
    }

    fn emit_all(&self, buf: &mut [u8]) -> Result<usize, WireError> {
        let (need, have) = (self.len(), buf.len().min(MAX_OPTIONS_LEN));
        if need > have {
            return Err(WireError::NoRoom { layer: Layer::Tcp, need, have });
        }
        let mut out = Out { buf, at: 0 };
        if let Some(mss) = self.mss {
            out.put(&[kind::MSS, 4]);
            out.put(&mss.to_be_bytes());
        }
        if self.sack_permitted {
            // The padding of timestamps, so that the longest cookie has room beside them.
            let before: &[u8] =
                if self.timestamps.is_some() { &[] } else { &[kind::NOP, kind::NOP] };
            out.put(before);
            out.put(&[kind::SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            let before: &[u8] = if self.sack_permitted { &[] } else { &[kind::NOP, kind::NOP] };
            out.put(before);
            out.put(&[kind::TIMESTAMPS, 10]);
            out.put(&value.to_be_bytes());
            out.put(&echo.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            out.put(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
        }
        if let Some(cookie) = self.cookie() {
            let len = 2 + cookie.len();
            out.put(&[kind::FAST_OPEN, len as u8]);
            out.put(cookie);
            for _ in len..len.next_multiple_of(4) {
                out.put(&[kind::NOP]);
            }
        }
        if self.sack_count > 0 {
            let blocks = self.blocks();
            out.put(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                out.put(&start.0.to_be_bytes());
                out.put(&end.0.to_be_bytes());
            }
        }
        Ok(out.at)
    }
}

/// A buffer that is known to be long enough, and how much of it is written.
struct Out<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}
