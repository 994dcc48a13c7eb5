//! Threads that end with descriptors in hand: however they end, their slots are released, and the ring goes
//! on.
//!
//! Real threads, each ended in one of the ways in which a thread of a process that lives on can end.
#![cfg(not(any(loom, miri)))]
#![allow(
    unsafe_code,
    reason = "rings are made of raw parts, and threads of C end in ways of their own"
)]

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::thread;

use weever_ring::simulated::SimulatedKernel;
use weever_ring::{Claim, MultiConsumer, MultiProducer, Reservation};

const LEN: u32 = 8;
/// The slots or descriptors that the ended thread has in hand.
const HELD: u32 = 3;

// Those of the crate `libc` are declared as never unwinding, which these do.
unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn pthread_testcancel();
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const c_void,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Return,
    Error,
    Panic,
    /// It returns, with its slots in a thread-local variable.
    ThreadLocal,
    /// `pthread_exit`, of a thread that the program's own code in C has started.
    Exit,
    /// `pthread_cancel`, likewise.
    Cancelled,
}

const ENDS: [End; 6] =
    [End::Return, End::Error, End::Panic, End::ThreadLocal, End::Exit, End::Cancelled];

thread_local! {
    static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Has a thread end in this way while it has the value that `take` returns.
fn end_with<T: 'static>(end: End, take: impl FnOnce() -> T + Send + 'static) {
    let is_of_c = matches!(end, End::Exit | End::Cancelled);
    let work = move || {
        let held = take();
        match end {
            End::Return => return Ok(()),
            End::Error => Err("a link has failed")?,
            End::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            End::ThreadLocal => {
                KEPT.with_borrow_mut(|kept| kept.push(Box::new(held)));
                return Ok(());
            }
            // SAFETY: the frames below are this crate's and the start of the thread; they may be unwound.
            End::Exit => unsafe { pthread_exit(null_mut()) },
            End::Cancelled => loop {
                // SAFETY: as above.
                unsafe { pthread_testcancel() };
                thread::yield_now();
            },
        }
        drop(held);
        Ok(())
    };
    if !is_of_c {
        let ended: thread::Result<Result<(), &str>> = thread::spawn(work).join();
        assert_eq!(ended.is_err(), end == End::Panic, "{end:?}");
        assert_eq!(ended.is_ok_and(|result| result.is_err()), end == End::Error, "{end:?}");
        return;
    }
    let mut work: Box<dyn FnOnce() + Send> =
        Box::new(move || assert!(work().is_ok(), "it ends before"));
    let (mut thread, argument) = (0, (&raw mut work).cast::<c_void>());
    // SAFETY: `start` takes the argument for what it is, and it outlives the thread, which is joined.
    unsafe {
        assert_eq!(pthread_create(&raw mut thread, std::ptr::null(), start, argument), 0);
        if end == End::Cancelled {
            assert_eq!(pthread_cancel(thread), 0);
        }
        assert_eq!(pthread_join(thread, null_mut()), 0);
    }
    std::mem::forget(work);
}

extern "C-unwind" fn start(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is the closure of `end_with`, which is not used there again.
    let work = unsafe { argument.cast::<Box<dyn FnOnce() + Send>>().read() };
    work();
    null_mut()
}

struct Shared<R> {
    ring: R,
    kernel: SimulatedKernel<u64>,
}

fn consumer() -> &'static Shared<MultiConsumer<u64>> {
    let kernel = SimulatedKernel::new(LEN, u32::MAX - 2, u64::MAX).unwrap();
    // SAFETY: both live as long as the process.
    let ring = unsafe { MultiConsumer::new(kernel.parts()) }.unwrap();
    Box::leak(Box::new(Shared { ring, kernel }))
}

fn producer() -> &'static Shared<MultiProducer<u64>> {
    let kernel = SimulatedKernel::new(LEN, u32::MAX - 2, u64::MAX).unwrap();
    // SAFETY: both live as long as the process.
    let ring = unsafe { MultiProducer::new(kernel.parts()) }.unwrap();
    Box::leak(Box::new(Shared { ring, kernel }))
}

#[test]
fn a_claim_ends_with_its_thread() {
    for end in ENDS {
        let Shared { ring, kernel } = consumer();
        // SAFETY: only this thread gives.
        let give = |items: &[u64]| unsafe { kernel.give(items) };
        give(&[0, 1, 2, 3, 4, 5, 6, 7]);
        end_with(end, || -> Option<Claim<'static, u64>> { ring.claim(HELD) });
        assert_eq!(ring.unreleased(), 0, "{end:?}");
        let mut seen = Vec::new();
        for item in 8..40 {
            assert_eq!(give(&[item]), 1, "{end:?}: there is room for another");
            ring.drain(4, |item| seen.push(item));
        }
        ring.drain(LEN, |item| seen.push(item));
        assert!(seen.into_iter().eq(u64::from(HELD)..40), "{end:?}: all but what it had in hand");
    }
}

#[test]
fn slots_of_a_reservation_whose_thread_has_ended_are_filled_by_the_next() {
    for end in ENDS {
        let Shared { ring, kernel } = producer();
        end_with(end, || -> Option<Reservation<'static, u64>> { ring.reserve(HELD) });
        assert_eq!(ring.unpublished(), HELD, "{end:?}");
        let mut seen = Vec::new();
        for item in 0..20 {
            assert!(ring.push_all(&[2 * item, 2 * item + 1]), "{end:?}: {item}");
            // SAFETY: only this thread takes.
            seen.extend(unsafe { kernel.take(LEN) });
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..40), "{end:?}: each once, and nothing that nobody wrote");
        assert_eq!(ring.unpublished(), 0, "{end:?}");
    }
}

/// Slots that the thread had written are kept; the others are filled by later pushes, also by more
/// than fit.
#[test]
fn a_thread_that_panics_while_it_publishes_leaves_a_gap_behind_what_it_wrote() {
    let Shared { ring, kernel } = producer();
    let writes = || {
        let slots = ring.reserve(HELD).unwrap();
        slots.publish_with(|i| {
            if i < 2 { 100 + u64::from(i) } else { std::panic::resume_unwind(Box::new(0)) }
        });
    };
    assert!(thread::spawn(writes).join().is_err());
    // SAFETY: only this thread takes.
    let take = || unsafe { kernel.take(LEN) };
    assert_eq!(take(), [100, 101]);
    assert!(!ring.push_all(&[9; LEN as usize + 1]), "more than there is room for");
    assert_eq!(ring.unpublished(), 1);
    assert!(ring.push_all(&[0, 1, 2, 3]), "over the gap and behind it");
    assert_eq!(take(), [0, 1, 2, 3]);
    assert_eq!(ring.unpublished(), 0);
}

/// A gap in front holds the kernel up, and its slots are free nonetheless.
#[test]
fn a_full_lap_behind_a_gap_is_room_for_the_gap() {
    let Shared { ring, kernel } = producer();
    end_with(End::Return, || -> Option<Reservation<'static, u64>> { ring.reserve(HELD) });
    assert_eq!(ring.free(), LEN);
    let behind: Vec<u64> = (0..u64::from(LEN - HELD)).collect();
    {
        let held = ring.reserve(HELD);
        assert!(ring.push_all(&behind), "to the end of the ring");
        assert_eq!(ring.free(), 0);
        drop(held);
    }
    assert_eq!((ring.free(), ring.unpublished()), (HELD, LEN));
    // SAFETY: only this thread takes.
    let take = || unsafe { kernel.take(LEN) };
    assert!(take().is_empty());
    assert!(!ring.push_all(&[9; HELD as usize + 1]));
    assert!(ring.push_all(&[100, 101, 102]));
    assert!(take().into_iter().eq((100..103).chain(behind)));
    assert_eq!((ring.free(), ring.unpublished()), (LEN, 0));
}

/// What `free` counts can be pushed in one call, also if it lies in several gaps.
#[test]
fn a_call_fills_several_gaps_or_none() {
    let Shared { ring, kernel } = producer();
    let [first, written, last] = [2, 3, 2].map(|n| ring.reserve_exact(n).unwrap());
    drop((first, last));
    written.publish_with(|i| 100 + u64::from(i));
    assert_eq!((ring.free(), ring.unpublished()), (5, 7));
    assert!(ring.reserve_exact(3).is_none(), "no three lie together");
    assert!(!ring.push_all(&[0; 6]));
    assert_eq!((ring.free(), ring.unpublished()), (5, 7), "all or none");
    assert!(ring.push_all(&[0, 1, 2, 3, 4]));
    // SAFETY: only this thread takes.
    assert_eq!(unsafe { kernel.take(LEN) }, [0, 1, 100, 101, 102, 2, 3, 4]);
}
