//! A route that changes while traffic flows along it.

use std::net::UdpSocket;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weever_service_api::Client;

use super::net::{Net, Side, TWICE, set};
use super::router::{SERVICE, SETTLING, answers, bound, talk};
use crate::error::DemoError;
use crate::exercises::{PATIENCE, WINDOW};
use crate::outcome::Outcome;
use crate::pattern;
use crate::peer::PeerError;
use crate::talk::timed_out;

/// Datagrams in all, a third before each change.
const COUNT: u64 = 30_000;

/// `left` sends numbered datagrams to an address that `right` and `other` both have. Its route leads
/// to one, then to the other, and back: every datagram arrives at one of them, and the numbers of
/// each grow.
pub(super) fn a_route_changes(net: &mut Net, outcome: &mut Outcome) -> Result<(), DemoError> {
    // Both neighbours are known, so that none is waited for.
    for side in [&net.right, &net.other] {
        answers(&mut talk(&net.left, side.v4())?, SETTLING)?;
    }
    let (client, [left, right, other]) = net.with_client();
    let arrivals = Arrivals::default();
    let receivers = [receiver(right)?, receiver(other)?];
    let sender = bound(left.namespace(), left.v4().into(), 0)?;
    let routes = [other.v4(), right.v4()].map(|via| format!("route.{TWICE}/32={via}"));
    let (sent, numbers, changed) = std::thread::scope(|scope| {
        let threads = receivers.each_ref().map(|socket| scope.spawn(|| arrivals.collect(socket)));
        let changes = scope.spawn(|| arrivals.change_at(client, &routes));
        let sent = arrivals.send(&sender);
        arrivals.over.store(true, Ordering::Release);
        let numbers = threads.map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
        (sent, numbers, changes.join().unwrap_or_else(|p| resume_unwind(p)))
    });
    sent?;
    changed?;
    let [here, there] = numbers;
    let found = judge(&[here?, there?]);
    let expected = format!("{COUNT} arrived, in order, 2 changes seen");
    let name = "router: a route changes twice while datagrams follow it";
    outcome.compare(name, expected, found);
    Ok(())
}

fn receiver(side: &Side) -> Result<UdpSocket, PeerError> {
    let socket = bound(side.namespace(), TWICE.into(), SERVICE)?;
    let timeout = socket.set_read_timeout(Some(Duration::from_millis(20)));
    timeout.map_err(PeerError::of("UDP socket"))?;
    Ok(socket)
}

/// What the threads know of each other.
#[derive(Default)]
struct Arrivals {
    count: AtomicU64,
    over: AtomicBool,
}

impl Arrivals {
    /// The numbers that arrive at one host, in their order.
    fn collect(&self, socket: &UdpSocket) -> Result<Vec<u64>, PeerError> {
        let (mut numbers, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => {
                    numbers.extend(pattern::verify(&buffer[..len]));
                    self.count.fetch_add(1, Ordering::Release);
                }
                Err(e) if timed_out(&e) && self.over.load(Ordering::Acquire) => return Ok(numbers),
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(PeerError::of("UDP receive")(e)),
            }
        }
    }

    /// Sends everything, with a window in flight; gives up when nothing arrives any more.
    fn send(&self, socket: &UdpSocket) -> Result<(), PeerError> {
        let mut heard = Instant::now();
        for number in 0..COUNT {
            let mut seen = self.count.load(Ordering::Acquire);
            while number - seen.min(number) >= WINDOW && heard.elapsed() < PATIENCE {
                std::thread::yield_now();
                seen = self.count.load(Ordering::Acquire);
            }
            if heard.elapsed() >= PATIENCE {
                return Ok(());
            }
            heard = Instant::now();
            let sent = socket.send_to(&pattern::datagram(number), (TWICE, SERVICE));
            sent.map_err(PeerError::of("UDP send"))?;
        }
        while self.count.load(Ordering::Acquire) < COUNT && heard.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sets the routes, one after a third of the datagrams, the other after two.
    fn change_at(&self, client: &mut Client, routes: &[String; 2]) -> Result<(), DemoError> {
        for (third, route) in (1..).zip(routes) {
            while self.count.load(Ordering::Acquire) < third * COUNT / 3 {
                if self.over.load(Ordering::Acquire) {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            set(client, route)?;
        }
        Ok(())
    }
}

/// What the hosts' numbers say, in words.
fn judge(hosts: &[Vec<u64>; 2]) -> String {
    let in_order = hosts.iter().all(|numbers| numbers.is_sorted_by(|a, b| a < b));
    let mut by_number: Vec<(u64, usize)> = Vec::new();
    for (host, numbers) in hosts.iter().enumerate() {
        by_number.extend(numbers.iter().map(|number| (*number, host)));
    }
    by_number.sort_unstable();
    by_number.dedup_by_key(|(number, _)| *number);
    let changes = by_number.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let order = if in_order { "in order" } else { "out of order" };
    format!("{} arrived, {order}, {changes} changes seen", by_number.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_disorder_and_changes_are_seen() {
        assert_eq!(judge(&[vec![0, 1, 4], vec![2, 3]]), "5 arrived, in order, 2 changes seen");
        assert_eq!(judge(&[vec![1, 0], vec![]]), "2 arrived, out of order, 0 changes seen");
        assert_eq!(judge(&[vec![0, 0], vec![0]]), "1 arrived, out of order, 0 changes seen");
    }
}
