//! Making pools.

use weever_packet::{HugePages, Pool, PoolConfig, PoolError, Region};

fn complaint(config: PoolConfig) -> String {
    let error = Pool::new(config).unwrap_err();
    assert!(matches!(error, PoolError::Config(_)), "{error}");
    error.to_string()
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let ok = PoolConfig::default();
    for frame_size in [0, 1024, 2047, 3000, 8192] {
        let text = complaint(PoolConfig { frame_size, ..ok });
        assert!(
            text.contains(&frame_size.to_string()) && text.contains("2048, 4096 or 65535"),
            "{text}"
        );
    }
    for frames in [0, (1 << 24) + 1, u32::MAX] {
        let text = complaint(PoolConfig { frames, ..ok });
        assert!(text.contains(&frames.to_string()), "{text}");
    }
    let text = complaint(PoolConfig { headroom: 2048, ..ok });
    assert!(text.contains("headroom 2048"), "{text}");
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    // Beyond the address space, so that no mistake here could take the machine's memory.
    let error = Region::map(1 << 60, HugePages::Never, None).unwrap_err();
    assert!(matches!(error, PoolError::Memory { .. }), "{error}");
    assert!(error.to_string().contains("lower the number of frames"), "{error}");
}

#[test]
#[cfg(not(miri))]
fn without_huge_pages_ordinary_ones_do() {
    // Whether any are reserved is the machine's business; a pool is made in either case.
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let free: usize = free.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let pool = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
    assert!(!pool.region().is_huge() || free > 0);
    let plain = PoolConfig { huge_pages: HugePages::Never, frames: 512, ..PoolConfig::default() };
    assert!(!Pool::new(plain).unwrap().region().is_huge());
}

#[test]
fn a_region_holds_every_frame() {
    for (frames, frame_size) in [(1, 2048), (100, 4096), (1025, 2048)] {
        let config = PoolConfig { frames, frame_size, ..PoolConfig::default() };
        let pool = Pool::new(config).unwrap();
        let (region, bytes) = (pool.region(), pool.frames() * frame_size as usize);
        assert!(region.len() >= bytes && !region.is_empty());
        assert_eq!(pool.frame_size(), frame_size);
        let mut buffer = pool.cache().alloc().unwrap();
        buffer.append(b"x");
        let at = buffer.index() as usize * frame_size as usize + usize::from(buffer.head());
        let place = region.start().as_ptr().wrapping_add(at);
        assert_eq!(buffer.data().as_ptr(), place.cast_const(), "frame i starts at i * frame_size");
    }
}

#[test]
#[cfg(not(miri))]
#[allow(unsafe_code, reason = "a pool in memory that others may write to")]
fn a_pool_lies_in_memory_of_another_process() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = memfd_create(c"of-an-application", flags).unwrap();
    ftruncate(&memfd, 64 * 2048).unwrap();
    let refused = |len| Region::shared(&memfd, len).unwrap_err().to_string();
    assert!(refused(64 * 2048).contains("can be shrunk under us"), "{}", refused(64 * 2048));
    fcntl_add_seals(&memfd, SealFlags::SHRINK).unwrap();
    assert!(refused(64 * 2048 + 1).contains("131073 are needed"), "{}", refused(131_073));
    let file = std::fs::File::open("/dev/null").unwrap().into();
    assert!(Region::shared(&file, 1).unwrap_err().to_string().contains("is no memfd"));

    let (config, region) = (
        PoolConfig { frames: 64, ..PoolConfig::default() },
        Region::shared(&memfd, 64 * 2048).unwrap(),
    );
    let larger = PoolConfig { frames: 128, ..config };
    let short = Region::shared(&memfd, 64 * 2048).unwrap();
    // SAFETY: the memfd has no other user.
    let error = unsafe { Pool::over(larger, short) }.unwrap_err().to_string();
    assert!(error.contains("131072 bytes; 262144 are needed"), "{error}");
    // SAFETY: as above; it is read below while no packet is written.
    let pool = unsafe { Pool::over(config, region) }.unwrap();
    let mut buffer = pool.cache().alloc().unwrap();
    buffer.append(b"seen by both");
    let mut seen = [0; 12];
    let at = u64::from(buffer.index()) * 2048 + u64::from(buffer.head());
    let file = std::fs::File::from(memfd.try_clone().unwrap());
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut seen, at).unwrap();
    assert_eq!(&seen, b"seen by both");
}

#[test]
fn clones_are_the_same_pool() {
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let clone = pool.clone();
    let buffer = clone.cache().alloc().unwrap();
    assert_eq!((pool.available(), clone.available()), (63, 63));
    assert!(pool.stock().owns(&buffer) && pool.stock().draws_from(&clone));
    assert_eq!(format!("{pool:?}"), "Pool(64 frames of 2048, 63 home)");
}

#[test]
fn a_large_frame_holds_the_longest_datagram() {
    let pool = Pool::new(PoolConfig::large(3)).unwrap();
    assert_eq!((pool.frames(), pool.frame_size()), (64, 65_535));
    let mut held: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!((held.len(), pool.available()), (64, 0));
    for (n, buffer) in held.iter_mut().enumerate() {
        assert_eq!((buffer.head(), buffer.len()), (64, 0));
        assert!(buffer.set_bounds(0, u16::MAX));
        assert_eq!((buffer.len(), buffer.tailroom()), (65_535, 0));
        buffer.data_mut().fill(n as u8);
        assert!(buffer.prepend(1).is_none() && !buffer.append(&[0]));
    }
    for (n, buffer) in held.iter().enumerate() {
        assert!(buffer.data().iter().all(|&byte| byte == n as u8), "frames do not overlap");
    }
    // A worker whose own cache is of another pool gives it back all the same.
    let mut cache = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap().cache();
    held.into_iter().for_each(|buffer| cache.free(buffer));
    assert_eq!(pool.available(), 64);
    let mut own = pool.cache();
    let one = own.alloc();
    assert!(one.is_some() && pool.alloc().is_none(), "a cache takes a whole bundle");
}

#[test]
fn a_pool_lies_on_the_node_that_is_named_and_a_node_that_is_not_there_is_refused() {
    let on = |node| PoolConfig { frames: 64, node: Some(node), ..PoolConfig::default() };
    let text = Pool::new(on(999)).unwrap_err().to_string();
    assert!(text.contains("NUMA node 999; use one of 0"), "{text}");
    let pool = Pool::new(on(0)).unwrap();
    // A kernel that knows no nodes has no such file.
    let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else { return };
    let start = format!("{:x} ", pool.region().start().addr());
    let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&start));
    assert!(line.is_some_and(|line| line.contains(" bind:0 ")), "{start}: {line:?}");
}
