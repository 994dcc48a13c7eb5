//! A stream that knows how far it has been read.

use std::io::{ErrorKind, Read};

use super::super::PcapError;

pub(super) struct Source<R> {
    inner: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, offset: 0 }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `N` bytes of something that has begun.
    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], PcapError> {
        let offset = self.offset;
        self.maybe_array(what)?.ok_or(PcapError::Truncated { offset, what })
    }

    /// The next `N` bytes, `None` at the end of the file.
    pub(super) fn maybe_array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<[u8; N]>, PcapError> {
        let (mut bytes, start) = ([0; N], self.offset);
        let mut have = 0;
        while have < N {
            match self.inner.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(PcapError::Truncated { offset: start, what }),
                Ok(n) => have += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(PcapError::Io { offset: self.offset, source }),
            }
        }
        self.offset += N as u64;
        Ok(Some(bytes))
    }

    /// Exactly `len` bytes into `into`, whose memory grows only as the file yields them.
    pub(super) fn fill(
        &mut self,
        into: &mut Vec<u8>,
        len: u64,
        what: &'static str,
    ) -> Result<(), PcapError> {
        into.clear();
        let offset = self.offset;
        let got = (&mut self.inner).take(len).read_to_end(into);
        self.advanced(got.map(|n| n as u64), offset, len, what)
    }

    /// Passes over `len` bytes.
    pub(super) fn skip(&mut self, len: u64, what: &'static str) -> Result<(), PcapError> {
        let offset = self.offset;
        let got = std::io::copy(&mut (&mut self.inner).take(len), &mut std::io::sink());
        self.advanced(got, offset, len, what)
    }

    fn advanced(
        &mut self,
        got: std::io::Result<u64>,
        offset: u64,
        wanted: u64,
        what: &'static str,
    ) -> Result<(), PcapError> {
        let got = got.map_err(|source| PcapError::Io { offset, source })?;
        self.offset += got;
        if got < wanted { Err(PcapError::Truncated { offset, what }) } else { Ok(()) }
    }
}
