//! Two workers, each with a queue of the device, and a graph that changes under both.

use std::net::UdpSocket;
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_service_api::Client;
use weever_testbed::{Fixture, allowed_cores};

use crate::error::DemoError;
use crate::exercises::PATIENCE;
use crate::outcome::Outcome;
use crate::pattern;
use crate::peer::PeerError;
use crate::stage::PORT;
use crate::talk::timed_out;

/// Enough for the kernel to spread over both queues.
const FLOWS: usize = 32;
/// Datagrams of each flow.
const ROUNDS: u64 = 300;

/// Many flows are echoed by two workers; each flow stays in order, and both queues have had some.
pub(crate) fn workers(control: &Path, outcome: &mut Outcome) -> Result<(), DemoError> {
    let name = "two workers on two queues";
    let cores = allowed_cores().map_err(DemoError::start)?;
    let [.., one, two] = cores[..] else {
        let found = "skipped: needs two cores".to_owned();
        outcome.record(name, "both".to_owned(), found, true);
        return Ok(());
    };
    let net = Fixture::pair(2)?;
    net.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
    let address = format!("{}/{}", Fixture::RIGHT, Fixture::PREFIX);
    let mut config = Config::new("right0", address.parse().map_err(DemoError::start)?);
    config.cores = vec![one, two];
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    let stack = net.right.run(|| Stack::start(config)).map_err(DemoError::start)?;
    let client = Client::connect(control);
    drop(std::fs::remove_file(control));
    let sockets: Result<Vec<UdpSocket>, PeerError> = (0..FLOWS).map(|_| flow(&net)).collect();
    let echoed = echo_all(&sockets?, &mut client?)?;
    let workers = stack.status().workers.len();
    let report = stack.stop();
    let busy = report.counters.links.iter().filter(|queue| queue.rx_packets > 0).count();
    let expected = format!("{} echoed in order, 2 workers, 2 queues used", FLOWS as u64 * ROUNDS);
    let found = format!("{echoed} echoed in order, {workers} workers, {busy} queues used");
    outcome.compare(name, expected, found);
    let failure = report.failure.map_or_else(|| "none".to_owned(), |f| f.to_string());
    outcome.compare("two workers: failed", "none", &failure);
    Ok(())
}

fn flow(net: &Fixture) -> Result<UdpSocket, PeerError> {
    let socket = net.left.run(|| UdpSocket::bind((Fixture::LEFT, 0)));
    let socket = socket.map_err(PeerError::of("UDP socket"))?;
    socket.connect((Fixture::RIGHT, PORT)).map_err(PeerError::of("UDP socket"))?;
    let timeout = socket.set_read_timeout(Some(PATIENCE));
    timeout.map_err(PeerError::of("UDP socket"))?;
    Ok(socket)
}

/// One datagram of every flow is on its way at a time. The service moves to another port and back
/// now and then, which changes the graph of both workers; nothing is on its way then.
fn echo_all(sockets: &[UdpSocket], client: &mut Client) -> Result<u64, DemoError> {
    let (mut echoed, mut buffer) = (0, [0; 2048]);
    for round in 0..ROUNDS {
        if round % 50 == 49 {
            for port in [PORT + 1, PORT] {
                let set = format!("services.echo={port}").parse().map_err(DemoError::start)?;
                client.set(set)?;
            }
        }
        for socket in sockets {
            socket.send(&pattern::datagram(round)).map_err(PeerError::of("UDP send"))?;
        }
        for socket in sockets {
            match socket.recv(&mut buffer) {
                Ok(len) => echoed += u64::from(pattern::verify(&buffer[..len]) == Some(round)),
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(PeerError::of("UDP receive")(e).into()),
            }
        }
    }
    Ok(echoed)
}
