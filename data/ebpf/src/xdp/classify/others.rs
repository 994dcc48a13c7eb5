//! Frames that no filter matches, and counting their flows.

use super::Classifier;
use super::program::{Fallback, write_spread};
use super::sample::{MissedFlow, Sampling};
use crate::sys::{BpfError, Map};

impl Classifier {
    /// Where frames go that no filter matches.
    pub fn fallback(&self) -> &Fallback {
        &self.parts.fallback
    }

    /// Changes where a frame goes that no filter matches. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] for an empty list to spread over; nothing has changed then.
    pub fn set_fallback(&mut self, fallback: Fallback) -> Result<(), BpfError> {
        write_spread(&self.parts.spread, &fallback)?;
        let before = std::mem::replace(&mut self.parts.fallback, fallback);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.parts.fallback = before;
        }
        exchanged
    }

    /// Counts the flows of frames that no filter matches, of one in `every` such frames: those of
    /// the `entries` flows that were seen last. The program is exchanged.
    ///
    /// # Errors
    /// [`BpfError::Setting`] unless `every` is a power of two and `entries` is not 0; nothing has
    /// changed then.
    pub fn sample(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?)
    }

    /// As [`sample`](Self::sample), and also counts the flows of frames that match a filter which
    /// looks at less than addresses and ports: flows within a wider one.
    ///
    /// # Errors
    /// As there.
    pub fn sample_within_filters(&mut self, entries: u32, every: u32) -> Result<(), BpfError> {
        self.sample_by(Sampling::new(entries, every)?.within_filters())
    }

    fn sample_by(&mut self, sampling: Sampling) -> Result<(), BpfError> {
        let before = self.parts.sampling.replace(sampling);
        let exchanged = self.exchange();
        if exchanged.is_err() {
            self.parts.sampling = before;
        }
        exchanged
    }

    /// Takes out the flows [counted](Self::sample) since the last call, and returns how many.
    /// Nothing if no flows are counted.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn take_missed(&self, take: impl FnMut(MissedFlow)) -> Result<usize, BpfError> {
        self.parts.sampling.as_ref().map_or(Ok(0), |sampling| sampling.take(take))
    }

    /// How many frames no filter matched.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn missed(&self) -> Result<u64, BpfError> {
        Ok(numbers(&self.parts.missed)?.first().copied().unwrap_or_default())
    }
}

pub(super) fn numbers(map: &Map) -> Result<Vec<u64>, BpfError> {
    let mut values = vec![0; map.exchange_size()];
    map.lookup(&0u32.to_ne_bytes(), &mut values)?;
    Ok(values.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}
