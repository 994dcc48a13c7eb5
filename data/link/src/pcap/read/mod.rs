//! Reading either format as a stream.

pub(super) mod blocks;
pub(super) mod classic;

use std::io::Read;

use super::{Interface, PcapError, Record};
use blocks::Sections;
use classic::{Classic, Source};

/// Reads a capture file record by record. It blocks as `R` does; give it a `BufReader`.
pub struct Reader<R> {
    source: Source<R>,
    format: Kind,
    /// The bytes of the block or packet that was read last.
    block: Vec<u8>,
    /// After an error there is no way to find the next record.
    over: bool,
}

#[derive(Debug)]
enum Kind {
    Classic(Classic),
    Sections(Sections),
}

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// When it is no capture file, is cut off within the header, or cannot be read.
    pub fn new(inner: R) -> Result<Reader<R>, PcapError> {
        let mut source = Source::new(inner);
        let start = source.array::<4>("the first bytes")?;
        let format = if start == blocks::SECTION.to_be_bytes() {
            Kind::Sections(Sections::start(&mut source)?)
        } else {
            Kind::Classic(Classic::start(start, &mut source)?)
        };
        Ok(Reader { source, format, block: Vec::new(), over: false })
    }

    /// The next packet, `None` at the end of the file and after an error.
    ///
    /// # Errors
    /// When the next record is malformed, cut off, or cannot be read.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        if self.over {
            return Ok(None);
        }
        let Reader { source, format, block, over } = self;
        // Cleared when a record was found: every other way out ends the file.
        *over = true;
        let record = match format {
            Kind::Classic(classic) => classic.record(source, block)?,
            Kind::Sections(sections) => sections.record(source, block)?,
        };
        *over = record.is_none();
        Ok(record)
    }

    /// The interfaces that were declared so far, of all sections. A classic file has one.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Kind::Classic(classic) => std::slice::from_ref(&classic.interface),
            Kind::Sections(sections) => sections.interfaces(),
        }
    }

    /// How far the file has been read, in bytes.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({:?})", self.format)
    }
}
