//! Bursts, masks and metadata.

use proptest::prelude::*;
use weever_packet::{
    BURST, Burst, Endpoints, Flags, Meta, NOWHERE, Pool, PoolConfig, bits, first_n,
};

/// Few cases under Miri, which is slow; nothing is written to files there.
fn cases(cases: u32) -> ProptestConfig {
    let few = ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { few } else { ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn bits_are_the_members_of_a_mask_in_order(mask: u64) {
        let members: Vec<_> = (0..64).filter(|i| mask >> i & 1 == 1).collect();
        prop_assert_eq!(bits(mask).len(), members.len());
        prop_assert_eq!(bits(mask).collect::<Vec<_>>(), members);
    }

    #[test]
    fn a_burst_holds_what_was_put(slots in proptest::collection::vec(0..BURST, 0..100)) {
        let pool = Pool::new(PoolConfig { frames: 128, ..PoolConfig::default() }).unwrap();
        let (mut cache, mut burst) = (pool.cache(), Burst::new());
        let mut expected = [None; BURST];
        for slot in slots {
            let packet = cache.alloc().unwrap();
            let index = packet.index();
            let before = burst.put(slot, packet).map(|old| old.index());
            prop_assert_eq!(before, expected[slot].replace(index));
        }
        for (slot, expected) in expected.into_iter().enumerate() {
            prop_assert_eq!(burst.occupied() >> slot & 1 == 1, expected.is_some());
            prop_assert_eq!(burst.get(slot).map(|packet| packet.index()), expected);
            prop_assert_eq!(burst.get_mut(slot).map(|packet| packet.index()), expected);
            prop_assert_eq!(burst.take(slot).map(|packet| packet.index()), expected);
        }
        prop_assert_eq!(burst.occupied(), 0);
    }

    #[test]
    fn addresses_survive_their_mapping(address: u32) {
        let mapped = Endpoints::mapped(address);
        prop_assert_eq!(Endpoints::v4(&mapped), address);
        let v6 = std::net::Ipv6Addr::from(mapped);
        prop_assert_eq!(v6.to_ipv4_mapped(), Some(address.into()));
    }
}

#[test]
fn the_first_n() {
    assert_eq!((first_n(0), first_n(1), first_n(3)), (0, 1, 7));
    assert_eq!((first_n(63), first_n(64), first_n(1000)), (u64::MAX >> 1, u64::MAX, u64::MAX));
}

#[test]
fn a_dropped_burst_frees_its_packets() {
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let mut burst = Burst::new();
    burst.put(5, pool.cache().alloc().unwrap());
    assert_eq!(format!("{burst:?}"), "Burst(0x20)");
    drop(burst);
    assert_eq!(pool.available(), 64);
}

#[test]
fn flags_are_a_set() {
    let both = Flags::MAY_BE_PARTIAL.with(Flags::LINK_BROADCAST);
    assert!(both.has(Flags::MAY_BE_PARTIAL) && both.has(Flags::LINK_BROADCAST) && both.has(both));
    assert!(!both.has(Flags::ENDPOINTS) && !both.has(both.with(Flags::ENDPOINTS)));
    assert_eq!(both.without(Flags::MAY_BE_PARTIAL), Flags::LINK_BROADCAST);
    assert!(both.has(Flags::NONE) && !Flags::NONE.has(both));
}

#[test]
fn a_received_packet_knows_nothing_of_its_frames_past() {
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let mut packet = pool.cache().alloc().unwrap();
    let meta = packet.meta_mut();
    (meta.l2, meta.l3, meta.l4, meta.end) = (1, 2, 3, 4);
    (meta.queue, meta.vlan, meta.ethertype, meta.link) = (5, 6, 7, 8);
    (meta.entry, meta.arrived, meta.flags) = (9, 10, Flags::ENDPOINTS);
    packet.received(0, 100);
    assert_eq!(*packet.meta(), Meta::default());
    assert_eq!(packet.meta().l2, NOWHERE);
}
