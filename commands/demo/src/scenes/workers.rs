//! Two workers, each with a queue of the device, and a graph that changes under both.

use std::net::UdpSocket;
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_service_api::SetRequest;
use weever_testbed::{Fixture, allowed_cores};

use crate::exercises::PATIENCE;
use crate::kernel::timed_out;
use crate::outcome::DemoError;
use crate::payloads;
use crate::peer::PeerError;
use crate::stage::{Control, PORT};
use crate::steps::{BOUND, Deadline, Finding, Steps};

/// Enough for the kernel to spread over both queues.
const FLOWS: usize = 32;
/// Datagrams of each flow.
const ROUNDS: u64 = 300;

/// Many flows are echoed by two workers; each flow stays in order, and both queues have had some.
pub(crate) fn workers(steps: &mut Steps, control: &Path) {
    let (start, echo) =
        ("two workers: weever starts", "two workers: every flow is echoed in order");
    let cores = match allowed_cores() {
        Ok(cores) if cores.len() >= 2 => cores,
        Ok(_) => return steps.skip(echo, "needs two cores, and this process may use one"),
        Err(error) => return steps.skip(echo, format!("cannot find out the cores: {error}")),
    };
    let stage = steps.attempt(BOUND, start, |_| {
        let net = Fixture::pair(2)?;
        net.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
        let address = format!("{}/{}", Fixture::RIGHT, Fixture::PREFIX);
        let mut config = Config::new("right0", address.parse().map_err(DemoError::start)?);
        config.cores = cores[cores.len() - 2..].to_vec();
        config.services.echo = Some(PORT);
        config.control = Some(control.to_owned());
        let stack = net.right.run(|| Stack::start(config)).map_err(DemoError::start)?;
        let found = format!("{} workers", stack.status().workers.len());
        Ok(((stack, net), Finding::compare("2 workers".to_owned(), found)))
    });
    let Some((stack, net)) = stage else { return };
    steps.run(echo, |deadline| {
        let sockets: Result<Vec<UdpSocket>, PeerError> = (0..FLOWS).map(|_| flow(&net)).collect();
        let mut control = Control::new(control.to_owned());
        let echoed = echo_all(&sockets?, &mut control, deadline)?;
        let all = FLOWS as u64 * ROUNDS;
        Ok(Finding::compare(format!("{all} in order"), format!("{echoed} in order")))
    });
    steps.run("two workers: both queues were used, no worker failed", |_| {
        let report = stack.stop();
        let busy = report.counters.links.iter().filter(|queue| queue.rx_packets > 0).count();
        let failure = report.failure.map_or_else(|| "none failed".to_owned(), |f| f.to_string());
        let found = format!("{busy} queues used, {failure}");
        Ok(Finding::compare("2 queues used, none failed", &found))
    });
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
fn echo_all(
    sockets: &[UdpSocket],
    control: &mut Control,
    deadline: Deadline,
) -> Result<u64, DemoError> {
    let (mut echoed, mut buffer) = (0, [0; 2048]);
    for round in (0..ROUNDS).take_while(|_| !deadline.is_over()) {
        if round % 50 == 49 {
            for port in [PORT + 1, PORT] {
                let set = format!("services.echo={port}");
                let set: SetRequest = set.parse().map_err(DemoError::start)?;
                control.ask(|client| client.call(&set))?;
            }
        }
        for socket in sockets {
            socket.send(&payloads::datagram(round)).map_err(PeerError::of("UDP send"))?;
        }
        for socket in sockets {
            match socket.recv(&mut buffer) {
                Ok(len) => echoed += u64::from(payloads::verify(&buffer[..len]) == Some(round)),
                Err(e) if timed_out(&e) => {}
                Err(e) => return Err(PeerError::of("UDP receive")(e).into()),
            }
        }
    }
    Ok(echoed)
}
