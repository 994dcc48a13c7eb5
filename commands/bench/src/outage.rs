//! `weever bench outage`: how long a service is away when its address comes back with another link address, as when a
//! spare host takes it over.
//!
//! A client on the kernel's stack asks an echo service all the time. The stack that serves it ends; its device gets
//! another link address, and a stack with the same addresses starts there. The kernel is told to believe for an hour
//! what it has learned of neighbours (half a minute is the default), so it sends to the old link address until the new
//! one is announced.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use weever_engine::Mode;
use weever_host::{HostBuilder, InterfaceConfig, Prefix, RunningHost, Service};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::{Fixture, Mac, privileged};

use crate::samples::Plan;
use crate::{BenchError, Report, Samples};

const BENCH: &str = "outage";
const PORT: u16 = 7;
const MACS: [Mac; 2] = [[2, 0, 0, 0, 0x77, 1], [2, 0, 0, 0, 0x77, 2]];
/// The client's address and the stack's, with the length of their prefix.
type Network = (IpAddr, IpAddr, u8);
const V4: Network =
    (IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), IpAddr::V4(Ipv4Addr::new(10, 77, 0, 10)), 24);
const V6: Network = (
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x10)),
    64,
);
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the first stack serves: the kernel ignores an announcement within a second (`locktime`) of the last change
/// of a neighbour's entry.
const SERVES: Duration = Duration::from_millis(1500);
/// An answer that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(plan: Plan) -> Result<Report, BenchError> {
    if !privileged() {
        return Err(BenchError::Rights(BENCH));
    }
    let mut report = Report::new(BENCH);
    report.setup("veth; a request each millisecond by the kernel's stack, which believes its neighbour table for an hour");
    report.setup(
        "a stack ends, its device gets another link address, a stack with its addresses starts",
    );
    let mut outages = <[Samples; 2]>::default();
    let mut starts = <[Samples; 2]>::default();
    for _ in plan.rounds() {
        for (family, network) in [V4, V6].into_iter().enumerate() {
            let Outage { whole, start } = outage(network)?;
            outages[family].push(whole.as_secs_f64());
            starts[family].push(start.as_secs_f64());
        }
    }
    for (family, key) in ["new_mac_outage_v4", "new_mac_outage_v6"].into_iter().enumerate() {
        report.ratio(key, "s", &outages[family]);
        report.row(&format!("{key}: of it, to stop and to start"), "s", &starts[family]);
    }
    Ok(report)
}

/// An outage: between the last answer of one stack and the first of the next.
#[derive(Debug)]
struct Outage {
    whole: Duration,
    /// From the last answer until the next stack's workers run.
    start: Duration,
}

fn outage((client, served, prefix): Network) -> Result<Outage, BenchError> {
    let net = Fixture::pair(1)?;
    let family = match client {
        IpAddr::V4(client) => net.veth.right.add_address(client, prefix).map(|()| "ipv4"),
        IpAddr::V6(client) => net.veth.right.speak_ipv6(client, prefix).map(|()| "ipv6"),
    }?;
    net.right.sysctl(&format!("net/{family}/neigh/right0/base_reachable_time_ms"), "3600000")?;
    let client = net.right.run(|| Client::new(client, served)).map_err(BenchError::of("client"))?;
    let served = Prefix::new(served, prefix).expect("the prefixes are as long as is written above");
    let first = start(&net, MACS[0], served)?;
    client.first_answer()?;
    let last = client.ask_until(Instant::now() + SERVES);
    drop(first.stop());
    // Answers of the first stack that are still on their way are not the next one's.
    let last = client.drain().unwrap_or(last);
    let second = start(&net, MACS[1], served)?;
    let start = last.elapsed();
    let whole = client.first_answer()?.duration_since(last);
    drop(second.stop());
    Ok(Outage { whole, start })
}

/// A host with this link address that echoes.
fn start(net: &Fixture, mac: Mac, address: Prefix) -> Result<RunningHost, BenchError> {
    net.left.set_mac("left0", mac)?;
    let pool = Pool::new(PoolConfig::default()).map_err(BenchError::of("pool"))?;
    let config = AfXdpConfig::new("left0", pool.clone());
    let link = net.left.run(|| AfXdp::open(&config)).map_err(BenchError::of("AF_XDP"))?;
    let mut builder = HostBuilder::new(pool);
    let link = builder.link(Box::new(link));
    let interface = InterfaceConfig::new("left0", link).address(address);
    builder.interface(interface).map_err(BenchError::of("host"))?;
    builder.serve(Service::Echo, PORT);
    builder.mode(Mode::Interrupt);
    builder.start().map_err(BenchError::of("host"))
}

/// Asks the service again and again.
struct Client {
    socket: UdpSocket,
    service: SocketAddr,
}

impl Client {
    fn new(own: IpAddr, service: IpAddr) -> std::io::Result<Client> {
        let socket = UdpSocket::bind((own, 0))?;
        socket.set_nonblocking(true)?;
        Ok(Client { socket, service: SocketAddr::new(service, PORT) })
    }

    /// Asks until there is an answer, and says when that came.
    fn first_answer(&self) -> Result<Instant, BenchError> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(at) = self.ask() {
                return Ok(at);
            }
        }
        Err(BenchError::of(BENCH)(format!("{} has not answered for a minute", self.service)))
    }

    /// Asks until then; when the last answer came.
    fn ask_until(&self, until: Instant) -> Instant {
        let mut last = Instant::now();
        while Instant::now() < until {
            last = self.ask().unwrap_or(last);
        }
        last
    }

    /// Sends a request; when the latest answer to any came, if one has come since the last request.
    fn ask(&self) -> Option<Instant> {
        // While no neighbour answers, the kernel may say so: the next request will show.
        let _ = self.socket.send_to(b"are you there", self.service);
        sleep(PAUSE);
        self.drain()
    }

    /// Takes the answers that have come; when, if there were any.
    fn drain(&self) -> Option<Instant> {
        let (mut answered, mut answer) = (None, [0; 64]);
        loop {
            match self.socket.recv_from(&mut answer) {
                Ok(_) => answered = Some(Instant::now()),
                Err(_) => return answered,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weever_testbed::require_net_admin;

    use super::*;

    /// The kernel would believe for half an hour at least what it had learned, so an announcement ended the outage.
    #[test]
    fn a_new_link_address_is_learned_from_an_announcement() {
        require_net_admin!();
        for network in [V4, V6] {
            let Outage { whole, start } = outage(network).unwrap();
            assert!(start <= whole, "{network:?}: {start:?} of {whole:?}");
        }
    }
}
