//! The frames of a pool that are at home, as the threads' stocks trade with them: whole bundles,
//! and single frames that were dropped somewhere. The frame that came home last leaves first: it
//! may still be in a cache.
//!
//! Both lie on stacks for any number of threads, none of which can hold up another (Treiber, 1986): a thread
//! that is preempted anywhere in `push` or `pop` costs the others at most a second attempt.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

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

/// No number.
const NONE: u32 = u32::MAX;

/// The place of one number in a stack. A number is in one stack at a time.
pub(crate) struct Link {
    below: AtomicU32,
    /// How many numbers lie in the stack up to this one.
    height: AtomicU32,
}

impl Link {
    pub(crate) fn new() -> Link {
        Link { below: AtomicU32::new(NONE), height: AtomicU32::new(0) }
    }
}

/// The top of a stack, alone on its cache line. The upper half counts changes: the top may be popped
/// and pushed again between another thread's look and its compare-and-swap, with another number below.
#[repr(align(64))]
pub(crate) struct Stack(AtomicU64);

const fn joined(top: u32, changes: u32) -> u64 {
    (changes as u64) << 32 | top as u64
}

const fn split(head: u64) -> (u32, u32) {
    (head as u32, (head >> 32) as u32)
}

fn height(top: u32, links: &[Link]) -> u32 {
    if top == NONE { 0 } else { links[top as usize].height.load(Ordering::Relaxed) }
}

impl Stack {
    pub(crate) fn new() -> Stack {
        Stack(AtomicU64::new(joined(NONE, 0)))
    }

    /// Pushes `number`, which is in no stack of these links.
    #[inline]
    pub(crate) fn push(&self, links: &[Link], number: u32) {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let (top, changes) = split(head);
            let link = &links[number as usize];
            link.below.store(top, Ordering::Relaxed);
            link.height.store(height(top, links) + 1, Ordering::Relaxed);
            // Publishes the link, and the caller's earlier writes. Later changes of the head are
            // read-modify-writes, so a thread that sees one of them sees this too.
            let next = joined(number, changes.wrapping_add(1));
            match self.0.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// The number pushed last.
    #[inline]
    pub(crate) fn pop(&self, links: &[Link]) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let (top, changes) = split(head);
            if top == NONE {
                return None;
            }
            // May be another thread's by now; then the head has changed.
            let below = links[top as usize].below.load(Ordering::Relaxed);
            let next = joined(below, changes.wrapping_add(1));
            match self.0.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(top),
                Err(seen) => head = seen,
            }
        }
    }

    /// How many numbers it holds; exact only while no thread changes it.
    pub(crate) fn len(&self, links: &[Link]) -> usize {
        height(split(self.0.load(Ordering::Acquire)).0, links) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_in_is_the_first_one_out() {
        let links: Vec<Link> = (0..4).map(|_| Link::new()).collect();
        let stack = Stack::new();
        for number in [2, 0, 3] {
            stack.push(&links, number);
        }
        assert_eq!(stack.len(&links), 3);
        assert_eq!(stack.pop(&links), Some(3));
        stack.push(&links, 1);
        let all: Vec<_> = std::iter::from_fn(|| stack.pop(&links)).collect();
        assert_eq!((all, stack.len(&links)), (vec![1, 0, 2], 0));
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use super::*;

    /// One thread pops and pushes the number back while the other pops twice: the shape in which a
    /// stack without a count of changes hands out a number twice.
    #[test]
    fn a_number_is_in_one_hand_and_none_is_lost() {
        loom::model(|| {
            let links: Arc<Vec<Link>> = Arc::new((0..2).map(|_| Link::new()).collect());
            let held: Arc<Vec<AtomicU32>> = Arc::new((0..2).map(|_| AtomicU32::new(0)).collect());
            let stack = Arc::new(Stack::new());
            (0..2).for_each(|number| stack.push(&links, number));
            let other = {
                let (stack, links, held) = (stack.clone(), links.clone(), held.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        if let Some(number) = stack.pop(&links) {
                            let holders = held[number as usize].fetch_add(1, Ordering::Relaxed);
                            assert_eq!(holders, 0);
                            held[number as usize].fetch_sub(1, Ordering::Relaxed);
                            stack.push(&links, number);
                        }
                    }
                })
            };
            let mine: Vec<u32> = (0..2).filter_map(|_| stack.pop(&links)).collect();
            for number in &mine {
                assert_eq!(held[*number as usize].fetch_add(1, Ordering::Relaxed), 0);
            }
            for number in &mine {
                held[*number as usize].fetch_sub(1, Ordering::Relaxed);
            }
            other.join().unwrap();
            mine.into_iter().for_each(|number| stack.push(&links, number));
            let mut all: Vec<_> = std::iter::from_fn(|| stack.pop(&links)).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1]);
        });
    }

    /// Writes before a push are seen by the thread that pops.
    #[test]
    fn a_push_publishes_what_came_before_it() {
        loom::model(|| {
            let links: Arc<Vec<Link>> = Arc::new((0..1).map(|_| Link::new()).collect());
            let (stack, frame) = (Arc::new(Stack::new()), Arc::new(AtomicU32::new(0)));
            let pusher = {
                let (stack, links, frame) = (stack.clone(), links.clone(), frame.clone());
                thread::spawn(move || {
                    frame.store(7, Ordering::Relaxed);
                    stack.push(&links, 0);
                })
            };
            if stack.pop(&links).is_some() {
                assert_eq!(frame.load(Ordering::Relaxed), 7);
            }
            pusher.join().unwrap();
        });
    }
}
