//! Frames that devices and applications give back are checked, not believed.
#![allow(unsafe_code, reason = "lending frames, as a device's rings do")]

use std::sync::atomic::{AtomicUsize, Ordering};

use weever_packet::{Borrower, Census, HugePages, Pool, PoolConfig, Stock, Takers};

fn pool(frames: u32) -> Pool {
    let huge_pages = HugePages::Never;
    Pool::new(PoolConfig { frames, huge_pages, ..PoolConfig::default() }).unwrap()
}

fn returned(stock: &Stock, index: u32, from: &Borrower) -> bool {
    // SAFETY: the borrowers of these tests touch no frame.
    unsafe { stock.take_back(index, None, from) }.is_some()
}

#[test]
fn a_frame_that_was_lent_comes_back_with_its_bytes() {
    let (pool, takers) = (pool(64), Takers::One);
    let (mut stock, device) = (pool.stock(), pool.borrower("a device", takers).unwrap());
    let mut packet = stock.alloc().unwrap();
    packet.append(b"on loan");
    let head = packet.head();
    let loaned = stock.lend_packet(packet, &device).unwrap();
    let other = stock.lend(&device).unwrap();
    assert_ne!(other, loaned.index);
    assert_eq!(device.borrowed(), 2);
    // SAFETY: no one touches the frame.
    let mut packet = unsafe { stock.take_back(loaned.index, None, &device) }.unwrap();
    packet.received(head, 7);
    assert_eq!((packet.index(), packet.data()), (loaned.index, &b"on loan"[..]));
    // SAFETY: as above.
    assert!(unsafe { stock.free_back(other, &device) });
    drop((packet, stock));
    assert_eq!((pool.available(), device.rejected()), (64, 0));
}

#[test]
fn what_was_not_lent_is_not_taken_back() {
    for takers in [Takers::One, Takers::Several] {
        let pool = pool(64);
        let (mut stock, device) = (pool.stock(), pool.borrower("a device", takers).unwrap());
        let application = pool.borrower("an application", takers).unwrap();
        let index = stock.lend(&device).unwrap();
        let own = stock.alloc().unwrap();
        let wrong = [64, u32::MAX, own.index()];
        assert!(!wrong.into_iter().any(|index| returned(&stock, index, &device)), "{takers:?}");
        assert!(!returned(&stock, index, &application), "it is another's");
        // SAFETY: no one touches the frame.
        assert!(unsafe { stock.free_back(index, &device) });
        // SAFETY: as above.
        assert!(!unsafe { stock.free_back(index, &device) }, "twice");
        assert_eq!((device.rejected(), application.rejected()), (4, 1));
        drop((own, stock));
        assert_eq!(pool.available(), 64, "and none is doubled");
    }
}

#[test]
fn a_return_of_an_earlier_loan_is_stale() {
    let pool = pool(64);
    let borrower = pool.borrower("an application", Takers::Several).unwrap();
    let mut stock = pool.stock();
    let mut packet = stock.alloc().unwrap();
    let mut generations = Vec::new();
    for _ in 0..3 {
        let loaned = stock.lend_packet(packet, &borrower).unwrap();
        for stale in &generations {
            // SAFETY: no one touches the frame.
            let back = unsafe { stock.take_back(loaned.index, Some(*stale), &borrower) };
            assert!(back.is_none(), "generation {stale}");
        }
        // SAFETY: as above.
        let back = unsafe { stock.take_back(loaned.index, Some(loaned.generation), &borrower) };
        packet = back.unwrap();
        generations.push(loaned.generation);
    }
    assert_eq!(borrower.rejected(), 3);
}

#[test]
fn a_packet_of_another_pool_is_not_lent() {
    let (pool, other) = (pool(64), pool(64));
    let device = pool.borrower("a device", Takers::One).unwrap();
    let stranger = other.stock().alloc().unwrap();
    let back = pool.stock().lend_packet(stranger, &device).unwrap_err();
    drop(back);
    assert_eq!((device.borrowed(), other.available()), (0, 64));
}

#[test]
fn a_census_says_where_the_frames_are() {
    let pool = pool(128);
    let (mut stock, device) = (pool.stock(), pool.borrower("eth0, queue 0", Takers::One).unwrap());
    let lent: Vec<u32> = (0..3).filter_map(|_| stock.lend(&device)).collect();
    let packets: Vec<_> = (0..2).filter_map(|_| stock.alloc()).collect();
    drop(stock);
    let census = pool.census();
    let expected =
        Census { frames: 128, home: 123, lent: vec![("eth0, queue 0".to_owned(), lent.len())] };
    assert_eq!((&census, census.inside()), (&expected, packets.len()));
    let text = "123 of 128 frames are home, 3 with eth0, queue 0, 2 in packets or stocks";
    assert_eq!(census.to_string(), text);
    assert!(!census.is_complete());
    drop(packets);
    let mut stock = pool.stock();
    for index in lent {
        // SAFETY: no one touches the frame.
        assert!(unsafe { stock.free_back(index, &device) });
    }
    drop(stock);
    assert!(pool.census().is_complete() && pool.census().lent.is_empty());
}

#[test]
fn numbers_of_borrowers_are_used_again_but_not_while_they_have_frames() {
    let pool = pool(64);
    let mut stock = pool.stock();
    let keeper = pool.borrower("keeper", Takers::One).unwrap();
    let kept = stock.lend(&keeper).unwrap();
    drop(keeper);
    let borrowers: Vec<_> =
        (1..4095).map(|_| pool.borrower("one of many", Takers::One).unwrap()).collect();
    let refused = pool.borrower("one too many", Takers::One).unwrap_err();
    assert!(refused.to_string().contains("4095"), "{refused}");
    drop(borrowers);
    let late = pool.borrower("late", Takers::One).unwrap();
    assert!(!returned(&stock, kept, &late), "it is the keeper's");
    assert_eq!(pool.census().lent, [("keeper".to_owned(), 1)]);
}

/// Of several threads that return a frame at once, only one gets it.
#[test]
fn of_many_returns_one_is_believed() {
    const ROUNDS: u32 = if cfg!(miri) { 20 } else { 5_000 };
    let pool = pool(64);
    let device = pool.borrower("a device", Takers::Several).unwrap();
    let mut stock = pool.stock();
    for _ in 0..ROUNDS {
        let index = stock.lend(&device).unwrap();
        let believed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    if returned(&pool.stock(), index, &device) {
                        believed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(believed.into_inner(), 1);
    }
    drop(stock);
    assert_eq!((pool.available(), device.rejected()), (64, u64::from(ROUNDS)));
}

#[test]
fn a_copy_is_the_same_packet_in_another_frame() {
    let (large, small) = (Pool::new(PoolConfig::large(1)).unwrap(), pool(64));
    let (mut packet, mut copy) = (large.alloc().unwrap(), small.alloc().unwrap());
    packet.append(b"header, payload");
    packet.meta_mut().l4 = packet.head();
    packet.meta_mut().entry = 77;
    assert!(packet.strip(8));
    assert!(packet.copy_to(&mut copy));
    assert_eq!((copy.data(), copy.meta()), (&b"payload"[..], packet.meta()));
    assert_eq!(copy.at(copy.meta().l4), b"header, payload");
    assert!(packet.append(&[7; 2048]));
    assert!(!packet.copy_to(&mut copy));
    assert_eq!(copy.data(), b"payload", "too long for the frame: nothing changed");
}
