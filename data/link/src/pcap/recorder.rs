//! Recording the packets of a link.

use std::io::Write;

use weever_packet::Nanos;

use super::{Interface, Record, Writer};
use crate::trace::{Event, Observe};

/// An observer for a [`TracedLink`](crate::trace::TracedLink) that writes a capture file: each link
/// becomes an interface of its name.
///
/// ```no_run
/// use std::{fs::File, io::BufWriter};
/// use weever_link::pcap::{Format, Recorder, Writer};
/// use weever_link::trace::Shared;
///
/// let file = BufWriter::new(File::create("both-ends.pcapng")?);
/// let mut recorder = Recorder::new(Writer::new(file, Format::Pcapng, "weever")?, 0);
/// let observer = Shared::new(move |event| recorder.record(event));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder<W> {
    writer: Writer<W>,
    /// Offset from an event's time to nanoseconds since 1970.
    epoch: u64,
    /// By number.
    interfaces: Vec<String>,
    error: Option<std::io::Error>,
}

impl<W: Write + Send> Observe for Recorder<W> {
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        burst.for_each(|event| self.record(&event));
    }
}

/// One that may be taken away while links are still in use.
impl<W: Write + Send> Observe for Option<Recorder<W>> {
    fn see(&mut self, burst: &mut dyn Iterator<Item = Event<'_>>) {
        if let Some(recorder) = self {
            recorder.see(burst);
        }
    }
}

impl<W: Write> Recorder<W> {
    /// Records to a fresh writer. `epoch` is added to each packet's time: 0 for a virtual clock;
    /// the difference between the two clocks for a monotonic one.
    pub fn new(writer: Writer<W>, epoch: Nanos) -> Recorder<W> {
        Recorder { writer, epoch, interfaces: Vec::new(), error: None }
    }

    /// Writes a packet down. After an error nothing more is written.
    pub fn record(&mut self, event: &Event<'_>) {
        if self.error.is_none() {
            self.error = self.write(event).err();
        }
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> std::io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.flush()?;
        Ok(self.writer.into_inner())
    }

    fn write(&mut self, event: &Event<'_>) -> std::io::Result<()> {
        let known = self.interfaces.iter().position(|name| name == event.link);
        let interface = match known {
            Some(number) => number as u32,
            None => {
                self.interfaces.push(event.link.to_owned());
                self.writer.interface(&Interface::ethernet(event.link))?
            }
        };
        let time = self.epoch.saturating_add(event.now);
        let direction = event.direction;
        let whole = Record::whole(time, event.packet.data());
        self.writer.write(&Record { interface, direction, ..whole })
    }
}
