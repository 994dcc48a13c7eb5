//! The interrupts of receive queues: a queue's poll context (`NETDEV_CMD_QUEUE_GET`), and that context's interrupt
//! (`NETDEV_CMD_NAPI_GET`, since Linux 6.8).

use std::collections::BTreeMap;
use std::io;

use super::wire::{attribute, find, number};
use super::{DUMP, Questions};

/// `NETDEV_CMD_QUEUE_GET`, `NETDEV_CMD_NAPI_GET`.
const QUEUES: u8 = 10;
const CONTEXTS: u8 = 11;
/// `NETDEV_A_QUEUE_ID`, `_IFINDEX`, `_TYPE`, `_NAPI_ID`.
const QUEUE: u16 = 1;
const QUEUE_DEVICE: u16 = 2;
const TYPE: u16 = 3;
const CONTEXT: u16 = 4;
/// `NETDEV_QUEUE_TYPE_RX`.
const RECEIVE: u64 = 0;
/// `NETDEV_A_NAPI_IFINDEX`, `_ID`, `_IRQ`.
const CONTEXT_DEVICE: u16 = 1;
const CONTEXT_ID: u16 = 2;
const INTERRUPT: u16 = 3;

/// The interrupt of each receive queue, by queue, where the driver says one.
///
/// # Errors
/// The kernel's refusal, also for want of the family.
pub(crate) fn of_queues(questions: &mut Questions, ifindex: u32) -> io::Result<BTreeMap<u32, u32>> {
    let family = questions.family("netdev")?.id;
    let device = |kind| attribute(kind, &ifindex.to_ne_bytes());
    let mut contexts = BTreeMap::new();
    questions.ask(family, CONTEXTS, DUMP, &device(CONTEXT_DEVICE), &mut |answer| {
        contexts.extend(pair(answer, CONTEXT_ID, INTERRUPT));
    })?;
    let mut queues = BTreeMap::new();
    questions.ask(family, QUEUES, DUMP, &device(QUEUE_DEVICE), &mut |answer| {
        if find(answer, TYPE).and_then(number) == Some(RECEIVE) {
            queues.extend(pair(answer, QUEUE, CONTEXT));
        }
    })?;
    let interrupt = |(queue, context)| Some((queue, *contexts.get(&context)?));
    Ok(queues.into_iter().filter_map(interrupt).collect())
}

fn pair(answer: &[u8], one: u16, other: u16) -> Option<(u32, u32)> {
    let value = |kind| u32::try_from(find(answer, kind).and_then(number)?).ok();
    Some((value(one)?, value(other)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_interrupts_has_none() {
        let mut questions = Questions::open().unwrap();
        if let Ok(interrupts) = of_queues(&mut questions, 1) {
            assert_eq!(interrupts, BTreeMap::new(), "the loopback");
        }
        let answer = [attribute(QUEUE, &[2, 0, 0, 0]), attribute(CONTEXT, &[9, 0, 0, 0])].concat();
        assert_eq!(pair(&answer, QUEUE, CONTEXT), Some((2, 9)));
        assert_eq!(pair(&answer, QUEUE, INTERRUPT), None);
    }
}
