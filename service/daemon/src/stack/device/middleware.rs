//! Links with a recorder or faults between them and the stack.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weever_engine::monotonic;
use weever_link::Link;
use weever_link::fault::{FaultConfig, FaultyLink};
use weever_link::pcap::{Format, Recorder, Writer};
use weever_link::trace::{Shared, TracedLink};

use crate::config::Aids;
use crate::stack::StartError;

/// The seed of the faults: the same packets are hit in every run.
const SEED: u64 = 1;

type Slot = Arc<Mutex<Option<Recorder<BufWriter<File>>>>>;

/// A configuration's links, in their order.
type Links = Vec<Box<dyn Link>>;

/// A file that is being written.
pub(in crate::stack) struct Recording {
    path: PathBuf,
    recorder: Slot,
}

/// The links with the configured middleware between them and the stack. The recorder is next to the
/// stack: it sees the packets that faults let through.
pub(in crate::stack) fn wrap(
    mut links: Links,
    aids: &Aids,
) -> Result<(Links, Option<Recording>), StartError> {
    if let Some(faults) = aids.faults {
        let faulty = |link| {
            Box::new(FaultyLink::new(link, FaultConfig::both(SEED, faults.0))) as Box<dyn Link>
        };
        links = links.into_iter().map(faulty).collect();
    }
    let Some(path) = &aids.record else { return Ok((links, None)) };
    let failed = |e| StartError::Setting(format!("the record {}: {e}", path.display()));
    let (recorder, observer) = recorder(path).map_err(failed)?;
    let traced = |link| Box::new(TracedLink::new(link, observer.clone())) as Box<dyn Link>;
    let links = links.into_iter().map(traced).collect();
    Ok((links, Some(Recording { path: path.clone(), recorder })))
}

fn recorder(path: &PathBuf) -> io::Result<(Slot, Shared)> {
    let writer = Writer::new(BufWriter::new(File::create(path)?), Format::Pcapng, "weever")?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let epoch = (since_1970.as_nanos() as u64).saturating_sub(monotonic());
    let slot = Arc::new(Mutex::new(Some(Recorder::new(writer, epoch))));
    let observer = Shared::of(Arc::clone(&slot));
    Ok((slot, observer))
}

impl Recording {
    /// Ends the file; returns the reason if it is incomplete.
    pub(in crate::stack) fn finish(self) -> Option<String> {
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let error = recorder.finish().err()?;
        Some(format!("the record {} is not whole: {error}", self.path.display()))
    }
}
