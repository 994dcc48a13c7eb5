//! The frames of a pool that are at home, as the threads' stocks trade with them: whole bundles,
//! and single frames that were dropped somewhere. The frame that came home last leaves first: it
//! may still be in a cache.

use crate::stack::{Link, Stack};
use crate::sync::{AtomicU32, Ordering};

/// How many frames move between a stock and the depot at once.
pub(crate) const BUNDLE: usize = 64;

/// A place for a bundle. Only the thread that has popped it from a stack touches it.
type Place = [AtomicU32; BUNDLE];

pub(crate) struct Depot {
    /// One for each frame.
    frames: Box<[Link]>,
    singles: Stack,
    /// One for each bundle, with its frames.
    bundles: Box<[Link]>,
    places: Box<[Place]>,
    full: Stack,
    empty: Stack,
}

impl Depot {
    /// The depot of so many frames, all of which are at home. `frames` is a multiple of [`BUNDLE`].
    pub(crate) fn full(frames: usize) -> Depot {
        let bundles = frames / BUNDLE;
        let place =
            |first: usize| std::array::from_fn(|i| AtomicU32::new((first * BUNDLE + i) as u32));
        let depot = Depot {
            frames: (0..frames).map(|_| Link::new()).collect(),
            singles: Stack::new(),
            bundles: (0..bundles).map(|_| Link::new()).collect(),
            places: (0..bundles).map(place).collect(),
            full: Stack::new(),
            empty: Stack::new(),
        };
        (0..bundles as u32).rev().for_each(|bundle| depot.full.push(&depot.bundles, bundle));
        depot
    }

    /// Moves a bundle, or up to as many single frames, into `stock`.
    pub(crate) fn withdraw(&self, stock: &mut Vec<u32>) {
        if let Some(bundle) = self.full.pop(&self.bundles) {
            let place = &self.places[bundle as usize];
            // The push that published them comes before the pop.
            stock.extend(place.iter().map(|frame| frame.load(Ordering::Relaxed)));
            self.empty.push(&self.bundles, bundle);
        } else {
            stock.extend(std::iter::from_fn(|| self.singles.pop(&self.frames)).take(BUNDLE));
        }
    }

    /// Takes the last [`BUNDLE`] frames of `stock`, or all.
    pub(crate) fn deposit(&self, stock: &mut Vec<u32>) {
        let keep = stock.len().saturating_sub(BUNDLE);
        let leaving = stock.drain(keep..);
        if leaving.len() == BUNDLE
            && let Some(bundle) = self.empty.pop(&self.bundles)
        {
            for (frame, place) in leaving.zip(&self.places[bundle as usize]) {
                place.store(frame, Ordering::Relaxed);
            }
            return self.full.push(&self.bundles, bundle);
        }
        // Fewer than a bundle, or another thread is about to give back the only place left.
        leaving.for_each(|frame| self.give_one(frame));
    }

    /// A frame, if need be out of a bundle whose others become singles.
    pub(crate) fn take_one(&self) -> Option<u32> {
        if let Some(frame) = self.singles.pop(&self.frames) {
            return Some(frame);
        }
        let mut bundle = Vec::with_capacity(BUNDLE);
        self.withdraw(&mut bundle);
        let first = bundle.pop();
        bundle.into_iter().for_each(|frame| self.give_one(frame));
        first
    }

    #[inline]
    pub(crate) fn give_one(&self, frame: u32) {
        self.singles.push(&self.frames, frame);
    }

    /// How many frames are here. Exact only while no thread takes or gives.
    pub(crate) fn len(&self) -> usize {
        self.full.len(&self.bundles) * BUNDLE + self.singles.len(&self.frames)
    }
}
