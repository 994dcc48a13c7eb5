//! Several workers on one receive queue: each packet comes to one of them, and none is lost, whichever worker sleeps
//! and however their number changes.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{PATIENCE, XdpPeer, config, open_left, pool, receive};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_link::conformance::{ETHERTYPE, Peer};
use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, OpenError, ReceiveThreads};
use weever_packet::{Buffer, Pool, PoolCache};
use weever_testbed::{Fixture, require_net_admin};

/// A device queue with several sockets.
struct Shared {
    queues: Vec<Box<dyn LinkQueue>>,
    threads: Arc<ReceiveThreads>,
    peer: XdpPeer,
    pool: Pool,
    cache: PoolCache,
    _link: AfXdp,
    _net: Fixture,
}

fn shared(sockets: u16, threads: u16) -> Shared {
    shared_each(1, sockets, threads)
}

/// So many device queues, with so many sockets each.
fn shared_each(device_queues: u32, sockets: u16, threads: u16) -> Shared {
    let (net, pool) = (Fixture::pair(device_queues).unwrap(), pool(4096));
    let sharing = AfXdpConfig {
        sockets_per_queue: sockets,
        threads_per_queue: threads,
        ..config("left0", &pool)
    };
    let mut link = open_left(&net, &sharing).unwrap();
    let (queues, threads) = (link.take_queues(), Arc::clone(link.threads()));
    let (peer, cache) = (XdpPeer::new(&net), pool.cache());
    Shared { queues, threads, peer, pool, cache, _link: link, _net: net }
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.extend([7; 50]);
    frame
}

fn number_of(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[14..18].try_into().unwrap()) as usize
}

fn is_readable(queue: &dyn LinkQueue) -> bool {
    let fd = queue.fd().expect("a socket can be waited on");
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}

impl Shared {
    fn send(&mut self, number: u32) {
        self.send_by(0, number);
    }

    fn send_by(&mut self, device_queue: u16, number: u32) {
        let end = Instant::now() + PATIENCE;
        while !self.peer.send(device_queue, &frame(number)) {
            assert!(Instant::now() < end, "the peer cannot send");
        }
    }

    /// The numbers of the packets that one poll of a socket's worker receives.
    fn polls(&mut self, socket: usize) -> Vec<usize> {
        let received = receive(&mut *self.queues[socket], &mut self.cache);
        let numbers = received.iter().map(|packet| number_of(packet.data())).collect();
        received.into_iter().for_each(|packet| self.cache.free(packet));
        numbers
    }

    /// Until so many wait in the first socket's ring, as far as its descriptor tells.
    fn awaits(&mut self, numbers: std::ops::Range<u32>) {
        numbers.for_each(|number| self.send(number));
        let end = Instant::now() + PATIENCE;
        while !is_readable(&*self.queues[0]) {
            assert!(Instant::now() < end, "nothing arrives");
        }
        // The kernel's thread that delivers the rest is at work.
        std::thread::sleep(Duration::from_millis(20));
    }

    fn ends_with_every_frame_at_home(self) {
        let Shared { queues, cache, pool, .. } = self;
        drop(queues);
        drop(cache);
        let census = pool.census();
        assert!(census.is_complete(), "{census}");
    }
}

#[test]
fn each_takes_its_part_and_a_helper_that_is_not_one_takes_nothing() {
    require_net_admin!();
    let mut link = shared(3, 2);
    let before = link.threads.arrived();
    link.awaits(0..20);
    assert!(link.polls(2).is_empty(), "two receive, and it is the third");
    let helped = link.polls(1);
    assert!((4..=10).contains(&helped.len()), "half of the packets: {helped:?}");
    let mut all = helped;
    while all.len() < 20 {
        let led = link.polls(0);
        assert!(!led.is_empty(), "the leader finds the rest: {all:?}");
        all.extend(led);
    }
    assert_eq!(all, (0..20).collect::<Vec<_>>(), "in order, none twice");
    let arrived: Vec<u64> =
        link.threads.arrived().iter().zip(&before).map(|(now, then)| now - then).collect();
    assert_eq!(arrived, [20, 0, 0], "by the first socket, whoever took them");
    link.threads.set(1).unwrap();
    link.awaits(20..25);
    assert!(link.polls(1).is_empty(), "it is a helper no more");
    assert_eq!(link.polls(0), (20..25).collect::<Vec<_>>());
    let threads = Arc::clone(&link.threads);
    link.ends_with_every_frame_at_home();
    assert_eq!(threads.arrived(), [0; 3], "they keep no ring open");
}

#[test]
fn several_queues_have_several_threads_each() {
    require_net_admin!();
    let mut link = shared_each(2, 2, 2);
    let mut by: [Vec<usize>; 4] = Default::default();
    let (end, mut sent) = (Instant::now() + PATIENCE, 0);
    while by.iter().any(Vec::is_empty) || by.iter().map(Vec::len).sum::<usize>() < sent as usize {
        assert!(Instant::now() < end, "{sent} sent: {by:?}");
        if by.iter().any(Vec::is_empty) {
            for _ in 0..8 {
                link.send_by((sent % 2) as u16, sent);
                sent += 1;
            }
        }
        // Helpers first: each of the four finds packets.
        for socket in [1, 3, 0, 2] {
            by[socket].extend(link.polls(socket));
        }
    }
    for (socket, numbers) in by.iter().enumerate() {
        assert!(numbers.iter().all(|number| number % 2 == socket / 2), "of its queue: {by:?}");
    }
    let mut all = by.concat();
    all.sort_unstable();
    assert_eq!(all, (0..sent as usize).collect::<Vec<_>>(), "each packet once");
    link.ends_with_every_frame_at_home();
}

#[test]
fn a_helper_that_sleeps_is_rung_for_when_packets_are_left() {
    require_net_admin!();
    let mut link = shared(2, 2);
    assert!(link.queues[1].prepare_to_sleep());
    assert!(!is_readable(&*link.queues[1]));
    link.awaits(0..3);
    assert!(!is_readable(&*link.queues[1]), "an arrival wakes the leader alone");
    assert_eq!([0; 2].map(|leader| link.polls(leader).len()), [2, 1]);
    assert!(!is_readable(&*link.queues[1]), "too few were left to wake anybody");
    link.awaits(0..30);
    let led = link.polls(0).len();
    assert!(led < 30, "it leaves the helper its part");
    assert!(is_readable(&*link.queues[1]));
    link.queues[1].end_sleep();
    assert!(!link.queues[1].prepare_to_sleep(), "packets wait");
    link.queues[1].end_sleep();
    let mut rest = link.polls(1).len();
    while led + rest < 30 {
        rest += link.polls(1).len();
    }
    assert!(link.queues[1].prepare_to_sleep());
    link.queues[1].end_sleep();
    link.ends_with_every_frame_at_home();
}

/// A helper whose worker has ended, asleep or at work: the remaining ones take all packets, and are woken
/// in its place.
#[test]
fn a_helper_that_is_gone_takes_no_packet_and_no_bell_with_it() {
    require_net_admin!();
    let mut link = shared(3, 3);
    assert!(link.queues[1].prepare_to_sleep() && link.queues[2].prepare_to_sleep());
    let ended = link.queues.remove(1);
    std::thread::spawn(move || drop(ended)).join().unwrap();
    link.awaits(0..30);
    let led = link.polls(0);
    assert!(led.len() < 30, "it leaves others their part");
    assert!(is_readable(&*link.queues[1]), "the one that is left is woken");
    link.queues[1].end_sleep();
    let mut all = led;
    while all.len() < 30 {
        let polled = [link.polls(1), link.polls(0)].concat();
        assert!(!polled.is_empty(), "{all:?}");
        all.extend(polled);
    }
    all.sort_unstable();
    assert_eq!(all, (0..30).collect::<Vec<_>>(), "none is lost");
    link.ends_with_every_frame_at_home();
}

#[test]
fn a_number_of_threads_that_there_are_not_is_refused() {
    require_net_admin!();
    let link = shared(2, 1);
    for threads in [0, 3] {
        let text = link.threads.set(threads).unwrap_err().to_string();
        assert!(text.contains(&format!("{threads} threads")) && text.contains("1 to 2"), "{text}");
    }
    assert_eq!(link.threads.get(), 1);
    drop(link);
    let (net, pool) = (Fixture::pair(1).unwrap(), pool(4096));
    let wrong = AfXdpConfig { threads_per_queue: 2, ..config("left0", &pool) };
    let Err(error) = open_left(&net, &wrong) else { panic!("opened") };
    assert!(matches!(error, OpenError::Threads { .. }), "{error}");
}

#[test]
fn what_came_first_is_sent_first_where_order_is_kept() {
    require_net_admin!();
    let mut link = shared(2, 2);
    assert!(!link.queues[0].keeps_order());
    link.threads.keep_order(true);
    link.awaits(0..20);
    let (led, helped) = (link.polls(0), link.polls(1));
    assert!(!led.is_empty() && led.last() < helped.first(), "{led:?}, {helped:?}");
    assert!(link.queues[1].keeps_order());
    assert!(!link.queues[1].may_send(), "the leader has not sent yet");
    assert!(link.queues[0].may_send());
    link.queues[0].sent();
    assert!(link.queues[1].may_send());
    link.queues[1].sent();
    assert_eq!(link.threads.given_up(), 0);
    link.ends_with_every_frame_at_home();
}

#[test]
fn a_worker_alone_waits_for_nobody() {
    require_net_admin!();
    let mut link = shared(2, 1);
    link.threads.keep_order(true);
    link.awaits(0..5);
    assert_eq!(link.polls(0).len(), 5);
    assert!(!link.queues[0].keeps_order() && !link.queues[0].has_turn());
    link.threads.set(2).unwrap();
    link.awaits(5..25);
    assert!(link.queues[1].keeps_order() && !link.queues[1].has_turn(), "it has received nothing");
    assert!(!link.polls(1).is_empty() && link.queues[1].has_turn());
    assert!(link.queues[1].may_send(), "nor for what came before there were two");
    link.threads.set(1).unwrap();
    assert!(link.queues[1].keeps_order(), "until it has sent");
    link.queues[1].sent();
    assert!(!link.queues[1].keeps_order() && !link.queues[1].has_turn());
    link.ends_with_every_frame_at_home();
}

#[test]
fn a_worker_that_does_not_send_is_waited_for_as_long_as_its_queue_says() {
    require_net_admin!();
    let mut link = shared(2, 2);
    link.threads.keep_order(true);
    link.awaits(0..20);
    let polled = link.polls(0).len() + link.polls(1).len();
    link.queues[1].advance(1_000);
    assert!(!link.queues[1].may_send());
    let by = link.queues[1].next_deadline().expect("it does not wait for ever");
    link.queues[1].advance(by - 1);
    assert!(!link.queues[1].may_send());
    link.queues[1].advance(by);
    assert!(link.queues[1].may_send());
    link.queues[1].sent();
    assert_eq!(link.threads.given_up(), 1);
    assert!(link.queues[0].may_send(), "late, and nobody is to wait for it");
    link.queues[0].sent();
    assert!(polled < 20, "some are left");
    assert!(!link.polls(1).is_empty() && link.queues[1].may_send(), "nor for what it had");
    assert_eq!(link.threads.given_up(), 1);
    link.ends_with_every_frame_at_home();
}

#[test]
fn nobody_waits_for_a_worker_that_is_gone_nor_for_what_came_before_order_was_kept() {
    require_net_admin!();
    let mut link = shared(3, 3);
    link.awaits(0..30);
    let before = link.polls(0).len();
    link.threads.keep_order(true);
    assert!(!link.polls(1).is_empty() && link.queues[1].may_send());
    let polled = link.polls(2);
    assert!(before < 30 && !polled.is_empty() && !link.queues[2].may_send());
    drop(link.queues.remove(1));
    assert!(link.queues[1].may_send(), "its packets went with it");
    assert_eq!(link.threads.given_up(), 0);
    link.threads.keep_order(false);
    link.queues[1].sent();
    assert!(!link.queues[1].keeps_order());
    link.ends_with_every_frame_at_home();
}

/// Receives; where order is kept, sends in turn, as a worker does. Order is not looked at: it is switched on and off.
fn receive_in_turn(
    queue: &mut dyn LinkQueue,
    cache: &mut PoolCache,
    started: Instant,
) -> Vec<Buffer> {
    let received = receive(queue, cache);
    if queue.has_turn() {
        loop {
            queue.advance(started.elapsed().as_nanos() as u64);
            if queue.may_send() {
                break;
            }
            std::thread::yield_now();
        }
        queue.sent();
    }
    received
}

/// Two workers receive while the number of threads changes ten thousand times, and whether they keep order more seldom:
/// every packet comes once.
#[test]
fn no_packet_is_lost_or_doubled_while_sharing_is_switched_on_and_off() {
    const SWITCHES: u32 = 10_000;
    require_net_admin!();
    let mut link = shared(2, 1);
    let seen: Arc<Mutex<Vec<u8>>> = Arc::new(Mutex::new(vec![0; SWITCHES as usize]));
    let (received, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let by = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let queues = std::mem::take(&mut link.queues);
    let workers: Vec<_> = (queues.into_iter().zip(&by))
        .map(|(mut queue, by)| {
            let (seen, received, over) = (seen.clone(), received.clone(), over.clone());
            let (by, pool) = (by.clone(), link.pool.clone());
            std::thread::spawn(move || {
                let mut cache = pool.cache();
                let started = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    for packet in receive_in_turn(&mut *queue, &mut cache, started) {
                        seen.lock().unwrap()[number_of(packet.data())] += 1;
                        cache.free(packet);
                        by.fetch_add(1, Ordering::Relaxed);
                        received.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::yield_now();
                }
                queue
            })
        })
        .collect();
    let end = Instant::now() + 6 * PATIENCE;
    for number in 0..SWITCHES {
        link.threads.set(1 + (number % 2) as u16).unwrap();
        if number.is_multiple_of(5) {
            link.threads.keep_order(number.is_multiple_of(2));
        }
        link.send(number);
        // No more than the small rings hold.
        while number as usize > received.load(Ordering::Relaxed) + 100 {
            assert!(Instant::now() < end, "{received:?} of {number} arrived");
            std::thread::yield_now();
        }
    }
    while received.load(Ordering::Relaxed) < SWITCHES as usize && Instant::now() < end {
        std::thread::yield_now();
    }
    over.store(true, Ordering::Relaxed);
    link.queues = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    assert!(seen.lock().unwrap().iter().all(|times| *times == 1), "{received:?} arrived");
    assert!(by[1].load(Ordering::Relaxed) > 0, "the helper helped");
    link.ends_with_every_frame_at_home();
}
