//! Frames by receive queue: `NETDEV_CMD_QSTATS_GET` of the `netdev` family (since Linux 6.9).

use std::collections::BTreeMap;
use std::io;

use super::wire::{attribute, find, number};
use super::{DUMP, Questions};

/// `NETDEV_CMD_QSTATS_GET`.
const GET: u8 = 12;
/// `NETDEV_A_QSTATS_IFINDEX`, `_QUEUE_TYPE`, `_QUEUE_ID`, `_SCOPE`, `_RX_PACKETS`.
const DEVICE: u16 = 1;
const TYPE: u16 = 2;
const QUEUE: u16 = 3;
const SCOPE: u16 = 4;
const PACKETS: u16 = 8;
/// `NETDEV_QUEUE_TYPE_RX`.
const RECEIVE: u64 = 0;
/// `NETDEV_QSTATS_SCOPE_QUEUE`.
const BY_QUEUE: u32 = 1;

/// The frames that each receive queue of a device got, by queue; nothing if its driver does not count them there.
///
/// # Errors
/// The kernel's refusal: EOPNOTSUPP of a driver without such counters, ENOENT of a kernel without the family.
pub(crate) fn received(questions: &mut Questions, ifindex: u32) -> io::Result<Option<Vec<u64>>> {
    let family = questions.family("netdev")?.id;
    let of_device = attribute(DEVICE, &ifindex.to_ne_bytes());
    let asked = [of_device, attribute(SCOPE, &BY_QUEUE.to_ne_bytes())].concat();
    let mut queues = BTreeMap::new();
    questions
        .ask(family, GET, DUMP, &asked, &mut |answer| queues.extend(queue(answer, ifindex)))?;
    Ok(whole(queues))
}

/// A receive queue of the device, with its count.
fn queue(answer: &[u8], ifindex: u32) -> Option<(u64, u64)> {
    let value = |kind| find(answer, kind).and_then(number);
    let is_it = value(DEVICE) == Some(ifindex.into()) && value(TYPE) == Some(RECEIVE);
    is_it.then_some((value(QUEUE)?, value(PACKETS)?))
}

/// The counters by queue; nothing if there are none, or not one for each queue.
fn whole(queues: BTreeMap<u64, u64>) -> Option<Vec<u64>> {
    let is_whole = queues.keys().copied().eq(0..queues.len() as u64);
    (is_whole && !queues.is_empty()).then(|| queues.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(device: u32, kind: u32, queue: u32, packets: &[u8]) -> Vec<u8> {
        let numbers = [(DEVICE, device), (TYPE, kind), (QUEUE, queue)];
        let numbers = numbers.map(|(kind, value)| attribute(kind, &value.to_ne_bytes()));
        [numbers.concat(), attribute(9, &[1; 4]), attribute(PACKETS, packets)].concat()
    }

    #[test]
    fn counters_are_taken_from_receive_queues_of_the_device() {
        let [small, large] = [&7u32.to_ne_bytes()[..], &(1u64 << 40).to_ne_bytes()];
        assert_eq!(queue(&answer(3, 0, 1, small), 3), Some((1, 7)));
        assert_eq!(queue(&answer(3, 0, 0, large), 3), Some((0, 1 << 40)));
        assert_eq!(queue(&answer(4, 0, 0, small), 3), None, "another device");
        assert_eq!(queue(&answer(3, 1, 0, small), 3), None, "it sends");
        assert_eq!(queue(&answer(3, 0, 0, &[]), 3), None, "not counted");
        assert_eq!(queue(&[9; 7], 3), None);
    }

    #[test]
    fn a_queue_without_a_counter_makes_the_rest_useless() {
        assert_eq!(whole([(1, 5), (0, 4)].into()), Some(vec![4, 5]));
        assert_eq!(whole([(1, 5)].into()), None);
        assert_eq!(whole(BTreeMap::new()), None);
    }

    #[test]
    fn a_driver_without_counters_says_so() {
        let error = received(&mut Questions::open().unwrap(), 1).unwrap_err();
        let known = [Some(libc::EOPNOTSUPP), Some(libc::ENOENT)];
        assert!(known.contains(&error.raw_os_error()), "{error}");
    }
}
