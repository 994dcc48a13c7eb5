//! A route that changes while traffic flows along it.

use std::net::UdpSocket;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::net::{NARROW, Net, SERVICE, SETTLING, Side, TWICE, answers, bound, set, talk};
use crate::exercises::{PATIENCE, WINDOW};
use crate::kernel::timed_out;
use crate::outcome::DemoError;
use crate::payloads;
use crate::peer::PeerError;
use crate::stage::Control;
use crate::steps::Finding;

/// Datagrams that go before the first change, between the two, and at least after the second.
const THIRD: u64 = 10_000;
/// The most payload that crosses the narrowest network in one packet, beside the headers of IPv4
/// and UDP.
const ONE_PACKET: usize = NARROW as usize - 28;

/// `left` sends numbered datagrams to an address that `right` and `other` both have. Its route leads
/// to one, then to the other, and back: every datagram arrives at one of them, and the numbers of
/// each grow. Each datagram is one packet: of the fragments of one that is being sent while the route
/// changes, some would go one way and some the other, and no host could put them together.
pub(super) fn a_route_changes(net: &mut Net) -> Result<Finding, DemoError> {
    // Both neighbours are known, so that none is waited for.
    for side in [&net.right, &net.other] {
        answers(&mut talk(&net.left, side.v4())?, SETTLING)?;
    }
    let (control, [left, right, other]) = net.with_control();
    let arrivals = Arrivals::default();
    let receivers = [receiver(right)?, receiver(other)?];
    let sender = bound(left.namespace(), left.v4().into(), 0)?;
    let routes = [other.v4(), right.v4()].map(|via| format!("route.{TWICE}/32={via}"));
    let (sent, numbers, changed) = std::thread::scope(|scope| {
        let threads = receivers.each_ref().map(|socket| scope.spawn(|| arrivals.collect(socket)));
        let changes = scope.spawn(|| arrivals.change_at(control, &routes));
        let sent = arrivals.send(&sender);
        arrivals.over.store(true, Ordering::Release);
        let numbers = threads.map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
        (sent, numbers, changes.join().unwrap_or_else(|p| resume_unwind(p)))
    });
    changed?;
    let [here, there] = numbers;
    let found = judge(sent?, &[here?, there?]);
    Ok(Finding::compare("0 lost, in order, 2 changes seen", &found))
}

fn receiver(side: &Side) -> Result<UdpSocket, PeerError> {
    let socket = bound(side.namespace(), TWICE.into(), SERVICE)?;
    let timeout = socket.set_read_timeout(Some(Duration::from_millis(20)));
    timeout.map_err(PeerError::of("UDP socket"))?;
    Ok(socket)
}

/// The state that the threads share.
struct Arrivals {
    count: AtomicU64,
    /// How many are sent; not known before both changes are made.
    end: AtomicU64,
    over: AtomicBool,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals { count: 0.into(), end: u64::MAX.into(), over: false.into() }
    }
}

impl Arrivals {
    /// The numbers that arrive at one host, in their order.
    fn collect(&self, socket: &UdpSocket) -> Result<Vec<u64>, PeerError> {
        let (mut numbers, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => {
                    numbers.extend(payloads::verify(&buffer[..len]));
                    self.count.fetch_add(1, Ordering::Release);
                }
                Err(e) if timed_out(&e) && self.over.load(Ordering::Acquire) => return Ok(numbers),
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(PeerError::of("UDP receive")(e)),
            }
        }
    }

    /// Sends with a window in flight until the end, and waits for all to arrive; gives up when
    /// nothing arrives any more. Returns how many were sent.
    fn send(&self, socket: &UdpSocket) -> Result<u64, PeerError> {
        let mut datagrams = (0..).map(payloads::datagram).filter(|d| d.len() <= ONE_PACKET);
        let mut sent = 0;
        while sent < self.end.load(Ordering::Acquire) && self.arrive(sent.saturating_sub(WINDOW)) {
            let Some(datagram) = datagrams.next() else { break };
            socket.send_to(&datagram, (TWICE, SERVICE)).map_err(PeerError::of("UDP send"))?;
            sent += 1;
        }
        self.arrive(sent);
        Ok(sent)
    }

    /// Waits until `count` have arrived; false when that takes too long even for a machine that is
    /// busy with other things.
    fn arrive(&self, count: u64) -> bool {
        let begin = Instant::now();
        while self.count.load(Ordering::Acquire) < count {
            if begin.elapsed() >= 2 * PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Sets the routes, each after a third of the datagrams.
    fn change_at(&self, control: &mut Control, routes: &[String; 2]) -> Result<(), DemoError> {
        let changed = routes.iter().try_for_each(|route| self.change(control, route));
        self.end.store(self.count.load(Ordering::Acquire) + THIRD, Ordering::Release);
        changed
    }

    fn change(&self, control: &mut Control, route: &str) -> Result<(), DemoError> {
        let wanted = self.count.load(Ordering::Acquire) + THIRD;
        while self.count.load(Ordering::Acquire) < wanted {
            if self.over.load(Ordering::Acquire) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        set(control, route)
    }
}

/// The verdict on the hosts' numbers, in words.
fn judge(sent: u64, hosts: &[Vec<u64>; 2]) -> String {
    let in_order = hosts.iter().all(|numbers| numbers.is_sorted_by(|a, b| a < b));
    let mut by_number: Vec<(u64, usize)> = Vec::new();
    for (host, numbers) in hosts.iter().enumerate() {
        by_number.extend(numbers.iter().map(|number| (*number, host)));
    }
    by_number.sort_unstable();
    by_number.dedup_by_key(|(number, _)| *number);
    let changes = by_number.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let order = if in_order { "in order" } else { "out of order" };
    format!("{} lost, {order}, {changes} changes seen", sent - by_number.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_disorder_and_changes_are_seen() {
        assert_eq!(judge(5, &[vec![0, 1, 4], vec![2, 3]]), "0 lost, in order, 2 changes seen");
        assert_eq!(judge(3, &[vec![1, 0], vec![]]), "1 lost, out of order, 0 changes seen");
        assert_eq!(judge(1, &[vec![0, 0], vec![0]]), "0 lost, out of order, 0 changes seen");
    }
}
