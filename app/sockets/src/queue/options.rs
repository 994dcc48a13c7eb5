//! Settings of streams and listeners, and how a stream is doing.

use weever_app_ring::{Kind, StreamOption};

use super::AppQueue;
use crate::error::Error;
use crate::stream::{TcpListener, TcpStream};

impl AppQueue {
    /// Changes a setting of a stream. One that is set right after [`connect_tcp`](Self::connect_tcp) holds for
    /// the handshake, too. Does not block.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn set_option(&self, stream: TcpStream, option: StreamOption) -> Result<(), Error> {
        if let StreamOption::SendBuffer(octets) = option {
            let geometry = self.config.geometry;
            let frames = octets.div_ceil(u32::from(geometry.payload_size()));
            let most = frames.clamp(2, (geometry.frames / 2).max(2));
            self.streams.borrow_mut().get(stream)?.most = Some(most);
            return Ok(());
        }
        self.tell(stream, Kind::Option, option.to_word())
    }

    /// Changes a setting that streams of a listener begin with from now on; see also
    /// [`StreamOption::DeferAccept`]. [`StreamOption::ResetOnClose`] and [`StreamOption::SendBuffer`] are
    /// for each stream by itself, once it is accepted, and have no effect here. Does not block.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); on [`Error::WouldBlock`], commit and call it again.
    pub fn set_listener_option(
        &self,
        listener: TcpListener,
        option: StreamOption,
    ) -> Result<(), Error> {
        let number = self.streams.borrow().listener(listener)?;
        self.tell_all(number, option)?;
        if let Some(there) = self.streams.borrow_mut().listeners.get_mut(&number) {
            there.options.push(option);
        }
        Ok(())
    }

    /// Tells every worker of a listener's setting.
    pub(super) fn tell_all(&self, listener: u32, option: StreamOption) -> Result<(), Error> {
        for channel in &self.channels {
            let value = option.to_word();
            if !channel.end.borrow_mut().request(Kind::Option, listener, value)? {
                return Err(Error::WouldBlock);
            }
        }
        Ok(())
    }

    /// Asks how a stream is doing; [`Event::Info`](crate::Event::Info) answers. Does not block.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn request_info(&self, stream: TcpStream) -> Result<(), Error> {
        self.tell(stream, Kind::Info, 0)
    }

    /// Octets of a stream that were written and whose frames have not come back: those that the peer has not
    /// acknowledged, and up to a frame more (`SIOCOUTQ`). Octets that have arrived and were not taken out as
    /// events (`FIONREAD`) are the program's to count: they are its events. Does not block.
    ///
    /// # Errors
    /// [`Error::NoSocket`], [`Error::Channel`].
    pub fn unacknowledged(&self, stream: TcpStream) -> Result<u64, Error> {
        self.reap()?;
        Ok(self.streams.borrow_mut().get(stream)?.octets)
    }
}
