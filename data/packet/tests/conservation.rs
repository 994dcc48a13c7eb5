//! No frame is lost, and none is in two hands.

use std::collections::HashSet;
use std::sync::mpsc;

use proptest::prelude::*;
use weever_packet::{Buffer, HugePages, Pool, PoolCache, PoolConfig};

fn pool(frames: u32) -> Pool {
    let huge_pages = HugePages::Never;
    Pool::new(PoolConfig { frames, huge_pages, ..PoolConfig::default() }).unwrap()
}

fn all_of(cache: &mut PoolCache) -> Vec<Buffer> {
    std::iter::from_fn(|| cache.alloc()).collect()
}

/// Buffers that each thread takes.
const EACH: u32 = if cfg!(miri) { 200 } else { 20_000 };

#[test]
fn every_frame_can_be_had_once() {
    // Miri takes a second for a hundred frames.
    let sizes: &[u32] = if cfg!(miri) { &[1, 64, 65] } else { &[1, 64, 65, 1000, 4096] };
    for &frames in sizes {
        let pool = pool(frames);
        let rounded = (frames as usize).next_multiple_of(64);
        assert_eq!((pool.frames(), pool.available()), (rounded, rounded));
        let buffers = all_of(&mut pool.cache());
        let indices: HashSet<_> = buffers.iter().map(Buffer::index).collect();
        assert_eq!((buffers.len(), indices.len()), (rounded, rounded));
        assert_eq!(pool.available(), 0);
        drop(buffers);
        assert_eq!(pool.available(), rounded);
    }
}

#[test]
fn frames_do_not_overlap() {
    let pool = pool(128);
    let mut buffers = all_of(&mut pool.cache());
    for (i, buffer) in buffers.iter_mut().enumerate() {
        assert!(buffer.set_bounds(0, 2048));
        buffer.data_mut().fill(i as u8);
    }
    for (i, buffer) in buffers.iter().enumerate() {
        // As one comparison: Miri keeps a record for each byte that is looked at alone.
        assert!(buffer.data() == [i as u8; 2048], "frame {i}");
    }
}

#[test]
fn a_cache_goes_home_when_dropped() {
    let pool = pool(512);
    let mut cache = pool.cache();
    let buffers: Vec<_> = (0..300).filter_map(|_| cache.alloc()).collect();
    buffers.into_iter().for_each(|buffer| cache.free(buffer));
    assert!(pool.available() < 512, "it keeps a stock");
    drop(cache);
    assert_eq!(pool.available(), 512);
}

#[test]
fn a_buffer_outlives_pool_and_caches() {
    let pool = pool(64);
    let mut cache = pool.cache();
    let mut buffer = cache.alloc().unwrap();
    buffer.append(b"still here");
    drop((pool, cache));
    assert_eq!(buffer.data(), b"still here");
    buffer.data_mut()[0] = b'S';
    assert_eq!(buffer.prepend(2).unwrap().len(), 2);
    drop(buffer);
}

#[test]
fn a_cache_outlives_its_pool() {
    let mut cache = pool(64).cache();
    assert_eq!(all_of(&mut cache).len(), 64);
    assert_eq!(cache.pool().available(), 64);
}

#[test]
fn a_buffer_of_another_pool_finds_its_way() {
    let (own, other) = (pool(64), pool(64));
    let (mut cache, stranger) = (own.cache(), other.cache().alloc().unwrap());
    assert!(cache.stock_of(&own).draws_from(&own) && !own.stock().draws_from(&other));
    assert!(!own.stock().owns(&stranger) && other.stock().owns(&stranger));
    cache.free(stranger);
    assert_eq!(other.available(), 64, "it went home by itself");
}

#[test]
fn a_cache_keeps_the_frames_of_every_pool_it_has_met() {
    let (own, other) = (pool(64), pool(128));
    let mut cache = own.cache();
    let strangers: Vec<_> = std::iter::from_fn(|| cache.stock_of(&other).alloc()).collect();
    assert_eq!((strangers.len(), other.available(), own.available()), (128, 0, 64));
    strangers.into_iter().for_each(|stranger| cache.free(stranger));
    assert_eq!(other.available(), 0, "they are in the stock");
    assert!(cache.alloc().is_some_and(|buffer| own.stock().owns(&buffer)));
    drop(cache);
    assert_eq!((own.available(), other.available()), (64, 128));
}

#[test]
fn threads_that_trade_buffers_lose_none() {
    let pool = pool(1024);
    let (give, take) = mpsc::sync_channel::<Buffer>(128);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (give, pool) = (give.clone(), pool.clone());
            scope.spawn(move || {
                let mut cache = pool.cache();
                for number in 0..EACH {
                    let Some(mut buffer) = cache.alloc() else { continue };
                    buffer.append(&number.to_le_bytes());
                    match number % 3 {
                        0 => cache.free(buffer),
                        1 => drop(buffer),
                        _ => give.send(buffer).unwrap(),
                    }
                }
            });
        }
        drop(give);
        let pool = pool.clone();
        scope.spawn(move || {
            let mut cache = pool.cache();
            for (i, buffer) in take.into_iter().enumerate() {
                assert_eq!(buffer.len(), 4);
                assert_eq!(u32::from_le_bytes(buffer.data().try_into().unwrap()) % 3, 2);
                if i % 2 == 0 { cache.free(buffer) } else { drop(buffer) }
            }
        });
    });
    assert_eq!(pool.available(), 1024);
}

#[derive(Clone, Debug)]
enum Move {
    Alloc { cache: usize },
    Free { cache: usize, buffer: usize },
    Drop { buffer: usize },
    Renew { cache: usize },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => (0..3usize).prop_map(|cache| Move::Alloc { cache }),
        4 => (0..3usize, any::<usize>()).prop_map(|(cache, buffer)| Move::Free { cache, buffer }),
        2 => any::<usize>().prop_map(|buffer| Move::Drop { buffer }),
        1 => (0..3usize).prop_map(|cache| Move::Renew { cache }),
    ];
    proptest::collection::vec(one, 0..if cfg!(miri) { 150 } else { 1500 })
}

/// Few cases under Miri, which is slow; nothing is written to files there.
fn cases(cases: u32) -> ProptestConfig {
    let few = ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { few } else { ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn whatever_is_done_no_frame_is_lost_or_doubled(moves in moves(), frames in 1..600u32) {
        let pool = pool(frames);
        let mut caches = [pool.cache(), pool.cache(), pool.cache()];
        let mut out: Vec<Buffer> = Vec::new();
        for step in moves {
            match step {
                Move::Alloc { cache } => {
                    if let Some(buffer) = caches[cache].alloc() {
                        prop_assert!(buffer.is_empty());
                        prop_assert_eq!(buffer.head(), pool.headroom());
                        prop_assert!(out.iter().all(|other| other.index() != buffer.index()));
                        out.push(buffer);
                    }
                }
                Move::Free { cache, buffer } if !out.is_empty() => {
                    let buffer = out.swap_remove(buffer % out.len());
                    caches[cache].free(buffer);
                }
                Move::Drop { buffer } if !out.is_empty() => {
                    drop(out.swap_remove(buffer % out.len()));
                }
                Move::Renew { cache } => caches[cache] = pool.cache(),
                _ => {}
            }
            prop_assert!(pool.available() + out.len() <= pool.frames());
        }
        drop(caches);
        prop_assert_eq!(pool.available() + out.len(), pool.frames());
        drop(out);
        prop_assert_eq!(pool.available(), pool.frames());
    }
}
