//! Frames in the hands of others: a device's queue, an application. Each frame knows its borrower
//! and how often it was lent, so that a returned frame is checked and not believed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use crate::frames::{Account, Loan, MOST_BORROWERS, Owner, Shared, Takers};
use crate::{Pool, PoolError};

/// An outside borrower of frames of one pool. Clones are the same borrower.
#[derive(Clone)]
pub struct Borrower {
    number: u32,
    takers: Takers,
    account: Arc<Account>,
    owner: Arc<Owner>,
}

impl Borrower {
    /// How many returns were not believed: of a frame that the borrower did not have, had given back
    /// already, or that there is not.
    pub fn rejected(&self) -> u64 {
        self.account.rejected.load(Ordering::Relaxed)
    }

    /// How many frames it has. Walks all frames of the pool.
    pub fn borrowed(&self) -> usize {
        let shared = self.owner.shared();
        loans(shared).filter(|number| *number == self.number).count()
    }

    /// Whether it has this frame.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.owner.shared().loan(index).is_some_and(|loan| loan.borrower() == self.number)
    }

    pub(crate) fn is_of(&self, owner: &Arc<Owner>) -> bool {
        self.owner.as_ptr() == owner.as_ptr()
    }

    /// Records that the borrower gets the frame, which the caller owns. Returns its generation.
    #[inline]
    pub(crate) fn lend(&self, index: u32) -> u32 {
        let loan = self.owner.shared().loan(index);
        loan.map_or(0, |loan| loan.start(self.number))
    }

    /// Records that the borrower has given a frame back; false, and counted: it had no such frame.
    #[inline]
    pub(crate) fn settle(&self, index: u32, generation: Option<u32>) -> bool {
        let loan = self.owner.shared().loan(index);
        let settled = loan.is_some_and(|loan| loan.end(self.number, self.takers, generation));
        if !settled {
            self.reject();
        }
        settled
    }

    #[cold]
    fn reject(&self) {
        self.account.rejected.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Borrower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Borrower({}, {} rejected)", self.number, self.rejected())
    }
}

/// The borrower of each frame that has one.
fn loans(shared: &Shared) -> impl Iterator<Item = u32> {
    let all = (0..shared.slots.len() as u32).filter_map(|index| shared.loan(index));
    all.map(Loan::borrower).filter(|number| *number != 0)
}

/// Where the frames of a pool are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// How many there are.
    pub frames: usize,
    /// At home, in no thread's stock.
    pub home: usize,
    /// Lent: the borrower, and how many.
    pub lent: Vec<(String, usize)>,
}

impl Census {
    /// In threads' stocks and in packets.
    pub fn inside(&self) -> usize {
        let lent: usize = self.lent.iter().map(|(_, frames)| frames).sum();
        self.frames.saturating_sub(self.home + lent)
    }

    /// Whether every frame is at home.
    pub fn is_complete(&self) -> bool {
        self.home == self.frames
    }
}

impl std::fmt::Display for Census {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} frames are home", self.home, self.frames)?;
        for (name, frames) in &self.lent {
            write!(f, ", {frames} with {name}")?;
        }
        match self.inside() {
            0 => Ok(()),
            inside => write!(f, ", {inside} in packets or stocks"),
        }
    }
}

impl Pool {
    /// A new borrower, called `name` in reports.
    ///
    /// # Errors
    /// [`PoolError::Borrowers`] when 4,095 have frames or are still there.
    pub fn borrower(&self, name: &str, takers: Takers) -> Result<Borrower, PoolError> {
        let shared = self.owner.shared();
        let mut known = shared.borrowers.lock().unwrap_or_else(PoisonError::into_inner);
        let account = Arc::<Account>::default();
        let entry = (name.to_owned(), Arc::downgrade(&account));
        let number = if known.len() < MOST_BORROWERS {
            known.push(entry);
            known.len()
        } else {
            let mut free: Vec<bool> = known.iter().map(|(_, account)| is_gone(account)).collect();
            // A frame kept by a borrower that is gone must not be taken for the new one's.
            loans(shared).for_each(|number| free[number as usize - 1] = false);
            let place = free.iter().position(|free| *free).ok_or(PoolError::Borrowers)?;
            known[place] = entry;
            place + 1
        };
        Ok(Borrower { number: number as u32, takers, account, owner: self.owner.clone() })
    }

    /// Where the frames are. Walks all of them; exact only while none moves.
    pub fn census(&self) -> Census {
        let shared = self.owner.shared();
        let known = shared.borrowers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = vec![0; known.len()];
        loans(shared).for_each(|number| frames[number as usize - 1] += 1);
        let names = known.iter().map(|(name, _)| name.clone());
        let lent = names.zip(frames).filter(|(_, frames)| *frames > 0).collect();
        Census { frames: self.frames(), home: self.available(), lent }
    }
}

fn is_gone(account: &Weak<Account>) -> bool {
    account.strong_count() == 0
}
