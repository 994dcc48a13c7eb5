//! Messages out of a stream.

use std::io::{self, Read};

/// The version of the messages in this crate. A stack answers requests of exactly this version.
pub const VERSION: u32 = 1;

/// The most bytes a message may have, its line end not counted: 1 MiB.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The reason why there is no next message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The message has more than [`MAX_MESSAGE`] bytes. The start of the next one is unknown: close
    /// the stream.
    #[error("a message is longer than {MAX_MESSAGE} bytes")]
    TooLong,
    /// The stream ended inside a message.
    #[error("the stream ended after {0} bytes of a message")]
    Truncated(usize),
    /// Reading failed, or took longer than the stream's timeout. The octets read so far are kept:
    /// one may try again.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Cuts a byte stream into lines, and never holds more than one message and a piece.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    buffer: Vec<u8>,
    /// The buffer's first byte that belongs to no returned line.
    start: usize,
    /// No line end lies between `start` and here.
    searched: usize,
}

const PIECE: usize = 8192;

impl<R: Read> LineReader<R> {
    /// A reader at the start of `stream`.
    pub fn new(stream: R) -> LineReader<R> {
        LineReader { stream, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The stream.
    pub fn stream(&mut self) -> &mut R {
        &mut self.stream
    }

    /// The next line without its end (`\n` or `\r\n`), or `None` when the stream has ended between
    /// two lines. Blocks as the stream does.
    ///
    /// # Errors
    /// See [`LineError`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.forget_returned();
        loop {
            if let Some(end) = self.find_end() {
                let line = self.start..end;
                self.start = end + 1;
                self.searched = self.start;
                return trimmed(&self.buffer[line]).map(Some);
            }
            // One more for the `\r` that may belong to the line's end.
            if self.buffer.len() > MAX_MESSAGE + 1 {
                return Err(LineError::TooLong);
            }
            if self.read_piece()? == 0 {
                return match self.buffer.len() {
                    0 => Ok(None),
                    n => Err(LineError::Truncated(n)),
                };
            }
        }
    }

    fn forget_returned(&mut self) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
    }

    fn find_end(&mut self) -> Option<usize> {
        let found = self.buffer[self.searched..].iter().position(|b| *b == b'\n');
        let end = found.map(|at| self.searched + at);
        self.searched = self.buffer.len();
        end
    }

    fn read_piece(&mut self) -> io::Result<usize> {
        let old = self.buffer.len();
        self.buffer.resize(old + PIECE, 0);
        let got = loop {
            match self.stream.read(&mut self.buffer[old..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(old + *got.as_ref().unwrap_or(&0));
        got
    }
}

fn trimmed(line: &[u8]) -> Result<&[u8], LineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > MAX_MESSAGE { Err(LineError::TooLong) } else { Ok(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that hands out one piece per read.
    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            if piece == b"!" {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            out[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    fn reader(pieces: &[&str]) -> LineReader<Pieces> {
        LineReader::new(Pieces(pieces.iter().map(|p| p.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn lines_do_not_depend_on_how_the_stream_is_cut() {
        for pieces in [&["ab\ncd\r\n\nef\n"][..], &["a", "b\nc", "d\r", "\n\ne", "f", "\n"]] {
            let mut reader = reader(pieces);
            for line in ["ab", "cd", "", "ef"] {
                assert_eq!(reader.next_line().unwrap(), Some(line.as_bytes()));
            }
            assert_eq!(reader.next_line().unwrap(), None);
        }
    }

    #[test]
    fn a_timeout_loses_nothing() {
        let mut reader = reader(&["ab", "!", "c\n"]);
        assert!(matches!(reader.next_line(), Err(LineError::Io(_))));
        assert_eq!(reader.next_line().unwrap(), Some(&b"abc"[..]));
    }

    #[test]
    fn an_end_inside_a_message_is_told_from_one_between_two() {
        let mut reader = reader(&["ab\ncd"]);
        assert_eq!(reader.next_line().unwrap(), Some(&b"ab"[..]));
        assert!(matches!(reader.next_line(), Err(LineError::Truncated(2))));
    }

    #[test]
    fn the_limit_holds_to_the_byte_and_memory_stays_bounded() {
        let just_fits = [vec![b'x'; MAX_MESSAGE], b"\r\n".to_vec()].concat();
        let mut reader = LineReader::new(io::Cursor::new(just_fits));
        assert_eq!(reader.next_line().unwrap().map(<[u8]>::len), Some(MAX_MESSAGE));
        let one_more = [vec![b'x'; MAX_MESSAGE + 1], b"\n".to_vec()].concat();
        let mut reader = LineReader::new(io::Cursor::new(one_more));
        assert!(matches!(reader.next_line(), Err(LineError::TooLong)));
        let mut endless = LineReader::new(io::repeat(b'x'));
        assert!(matches!(endless.next_line(), Err(LineError::TooLong)));
        assert!(endless.buffer.len() <= MAX_MESSAGE + 1 + PIECE);
    }
}
