//! Octets of streams in the application's hands: those received, and a frame to write some into.
//!
//! Both borrow their queue, so that none outlives it, and give their frames back when dropped.

use weever_app_ring::Frame;

use crate::error::Error;
use crate::queue::AppQueue;
use crate::stream::TcpStream;

/// Octets of a stream, in the frame in which they came. Dropping it lets the peer send as many more.
pub struct StreamBuf<'q> {
    pub(crate) queue: &'q AppQueue,
    pub(crate) stream: TcpStream,
    pub(crate) channel: u16,
    /// `None` only once it was taken.
    pub(crate) frame: Option<Frame>,
    pub(crate) range: (u16, u16),
}

impl<'q> StreamBuf<'q> {
    /// The stream that they came by.
    pub fn stream(&self) -> TcpStream {
        self.stream
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        let Some(frame) = &self.frame else { return &[] };
        self.queue.frames_of(self.channel).bytes(frame, self.range.0, self.range.1)
    }

    /// Forgets the first `count` octets, or all if there are fewer: they were read, and the peer may
    /// send as many more.
    pub fn advance(&mut self, count: usize) {
        let (offset, len) = self.range;
        let count = u16::try_from(count).unwrap_or(len).min(len);
        self.range = (offset + count, len - count);
        self.queue.streams.borrow_mut().read(self.stream.number, count);
    }

    /// The octets without their queue, for a table beside it. [Attach](Self::attach) them again: otherwise
    /// the frame is lost.
    #[cfg(feature = "tokio")]
    pub(crate) fn detach(mut self) -> Octets {
        let range = std::mem::take(&mut self.range);
        Octets { channel: self.channel, frame: self.frame.take(), range }
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn attach(queue: &'q AppQueue, stream: TcpStream, octets: Octets) -> StreamBuf<'q> {
        let Octets { channel, frame, range } = octets;
        StreamBuf { queue, stream, channel, frame, range }
    }

    /// The frame, to write octets into that go back by the same stream. Those received count as read,
    /// and stay at the start of its space until they are written over.
    pub fn into_answer(mut self) -> StreamTxBuf<'q> {
        let (queue, stream, channel) = (self.queue, self.stream, self.channel);
        self.queue.streams.borrow_mut().read(stream.number, self.range.1);
        self.range.1 = 0;
        StreamTxBuf { queue, stream, channel, frame: self.frame.take(), start: self.range.0 }
    }
}

/// Octets that wait in a table beside their queue.
#[cfg(feature = "tokio")]
pub(crate) struct Octets {
    channel: u16,
    frame: Option<Frame>,
    range: (u16, u16),
}

impl Drop for StreamBuf<'_> {
    fn drop(&mut self) {
        self.queue.release(self.channel, self.frame.take());
        self.queue.streams.borrow_mut().read(self.stream.number, self.range.1);
    }
}

impl std::fmt::Debug for StreamBuf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamBuf({} octets of {:?})", self.range.1, self.stream)
    }
}

/// A free frame to write octets of a stream into, without a copy on this side. Dropping it gives the
/// frame back.
pub struct StreamTxBuf<'q> {
    pub(crate) queue: &'q AppQueue,
    pub(crate) stream: TcpStream,
    pub(crate) channel: u16,
    /// `None` only once it was sent.
    pub(crate) frame: Option<Frame>,
    /// Where in the frame its space begins.
    pub(crate) start: u16,
}

impl StreamTxBuf<'_> {
    /// The stream by which it goes.
    pub fn stream(&self) -> TcpStream {
        self.stream
    }

    /// The space for octets.
    pub fn space(&mut self) -> &mut [u8] {
        let Some(frame) = self.frame.as_mut() else { return &mut [] };
        self.queue.frames_of(self.channel).space(frame, self.start)
    }

    /// Sends the first `len` octets of its [space](Self::space), behind everything that was written to
    /// the stream before. The stack sees them after [`commit`](AppQueue::commit).
    ///
    /// # Errors
    /// The buffer comes back with the reason: [`Error::WouldBlock`] while the stream has no room, after
    /// which [`Event::Writable`](crate::Event::Writable) follows; [`Error::TooLong`];
    /// [`Error::NoSocket`] when the stream is closed or finished; [`Error::Channel`].
    pub fn send(mut self, len: usize) -> Result<(), (Self, Error)> {
        let most = self.space().len();
        if len > most {
            return Err((self, Error::TooLong { len, most }));
        }
        if len == 0 {
            return Ok(());
        }
        let Some(frame) = self.frame.take() else { return Ok(()) };
        match self.queue.submit_octets(self.stream, frame, (self.start, len as u16)) {
            Ok(()) => Ok(()),
            Err((frame, error)) => {
                self.frame = frame;
                Err((self, error))
            }
        }
    }
}

impl Drop for StreamTxBuf<'_> {
    fn drop(&mut self) {
        self.queue.release(self.channel, self.frame.take());
    }
}

impl std::fmt::Debug for StreamTxBuf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamTxBuf({:?})", self.stream)
    }
}
