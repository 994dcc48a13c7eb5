//! The mailbox under every interleaving of its threads:
//! `RUSTFLAGS="--cfg loom" cargo test -p weever-engine --release --test loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use weever_engine::Mailbox;

/// Published letters are found, in order, and come back.
#[test]
fn letters_are_taken_in_order_once_they_are_published() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::<u64>::default());
        let other = mailbox.clone();
        let worker = thread::spawn(move || {
            let mut done = 0;
            for _ in 0..2 {
                if let Some(number) = other.pending(done) {
                    while let Some((n, letter)) = other.take(number) {
                        assert_eq!((n, letter), (done + 1, 10 * n), "in order");
                        done = n;
                        other.done(n, letter);
                    }
                    assert_eq!(done, number, "a published letter is there");
                }
            }
            done
        });
        for number in 1..=2 {
            mailbox.place(number, 10 * number);
            mailbox.publish(number);
        }
        let done = worker.join().unwrap();
        assert_eq!(mailbox.adopted(), done);
        assert_eq!(mailbox.returned().len() as u64, done);
        assert!(mailbox.is_settled(2), "a worker that does not run has disposed");
    });
}

/// Two workers: one that learns a number from the other finds the letter without being told.
#[test]
fn a_letter_is_in_every_mailbox_before_anyone_acts_on_it() {
    loom::model(|| {
        let boxes = Arc::new([Mailbox::<u64>::default(), Mailbox::default()]);
        let told = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        let (first, tell) = (boxes.clone(), told.clone());
        let a = thread::spawn(move || {
            if let Some(number) = first[0].pending(0) {
                assert!(first[0].take(number).is_some());
                tell.store(number, loom::sync::atomic::Ordering::Release);
            }
        });
        let (second, heard) = (boxes.clone(), told.clone());
        let b = thread::spawn(move || {
            let number = heard.load(loom::sync::atomic::Ordering::Acquire);
            if number > 0 {
                assert_eq!(second[1].take(number), Some((1, 7)));
            }
        });
        boxes.iter().for_each(|mailbox| mailbox.place(1, 7));
        boxes.iter().for_each(|mailbox| mailbox.publish(1));
        a.join().unwrap();
        b.join().unwrap();
    });
}
