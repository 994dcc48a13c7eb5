//! The addresses that are ours, as the steering program sees them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::{BpfError, Map, MapKind};

/// How many addresses the program compares one by one. Measured: a hash lookup adds 27 ns to each
/// frame, the first comparison 2.
pub(super) const NEAR: usize = 7;
/// Size of the near table's only value: whether there are others, and the near addresses.
const NEAR_SIZE: usize = 4 * (1 + NEAR);
/// In that value: whether there are more IPv4 addresses than the near ones.
pub(super) const HAS_MORE: i16 = 0;
/// In that value: whether there are IPv6 addresses.
pub(super) const HAS_V6: i16 = 1;
/// How many addresses of each family a steering program can own.
const CAPACITY: u32 = 1024;

/// All addresses in a hash map per family, and the first few of IPv4 again in an array that the
/// program reads without calling anything. Unused places of the array are 0.0.0.0, which no host
/// owns.
#[derive(Debug)]
pub(super) struct AddressTable {
    pub(super) near: Map,
    pub(super) v4: Map,
    pub(super) v6: Map,
    owned: Mutex<Owned>,
}

#[derive(Debug, Default)]
struct Owned {
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
}

impl AddressTable {
    pub(super) fn new() -> Result<Self, BpfError> {
        let near = Map::create(MapKind::Array, "weever_near", 4, NEAR_SIZE as u32, 1)?;
        let v4 = Map::create(MapKind::Hash, "weever_addrs", 4, 1, CAPACITY)?;
        let v6 = Map::create(MapKind::Hash, "weever_addrs6", 16, 1, CAPACITY)?;
        Ok(AddressTable { near, v4, v6, owned: Mutex::default() })
    }

    pub(super) fn add(&self, address: IpAddr) -> Result<(), BpfError> {
        if address.is_unspecified() {
            let what = format!("{address} cannot be owned: give the address itself");
            return Err(BpfError::Setting { what });
        }
        let mut owned = self.lock();
        match address {
            IpAddr::V4(address) => {
                self.v4.update(&address.octets(), &[1])?;
                insert(&mut owned.v4, address);
            }
            IpAddr::V6(address) => {
                self.v6.update(&address.octets(), &[1])?;
                insert(&mut owned.v6, address);
            }
        }
        self.write_near(&owned)
    }

    pub(super) fn remove(&self, address: IpAddr) -> Result<bool, BpfError> {
        let mut owned = self.lock();
        match address {
            IpAddr::V4(address) => owned.v4.retain(|other| *other != address),
            IpAddr::V6(address) => owned.v6.retain(|other| *other != address),
        }
        self.write_near(&owned)?;
        match address {
            IpAddr::V4(address) => self.v4.remove(&address.octets()),
            IpAddr::V6(address) => self.v6.remove(&address.octets()),
        }
    }

    /// The lists are complete after each of their changes, so a panic elsewhere does not spoil
    /// them.
    fn lock(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_near(&self, owned: &Owned) -> Result<(), BpfError> {
        let mut value = [0; NEAR_SIZE];
        value[HAS_MORE as usize] = u8::from(owned.v4.len() > NEAR);
        value[HAS_V6 as usize] = u8::from(!owned.v6.is_empty());
        for (place, address) in value[4..].as_chunks_mut::<4>().0.iter_mut().zip(&owned.v4) {
            *place = address.octets();
        }
        self.near.update(&0u32.to_ne_bytes(), &value)
    }
}

fn insert<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
