//! The key-value store over memcached's UDP protocol, beside Debian's memcached over the kernel.
//!
//! One request in ten sets a value, nine get it. Clients keep requests in flight, so that the mix which is served is
//! the mix which is asked for; a contender that turns their frames round in the driver shows the most that they can
//! drive.

use std::time::Duration;

use weever_testbed::pin_to;

use super::server::{self, Body, Kind};
use crate::client::Client;
use crate::clients::{Clients, ClosedLoop, Request, Served, port_of_client};
use crate::contender::{Contender, Gate};
use crate::rig::{Receiver, Rig};
use crate::samples::Plan;
use crate::{BenchError, Report, Samples, peers};

/// Bytes of the key, and of the values.
const KEY: usize = 64;
pub(crate) const VALUES: [usize; 2] = [64, 1024];
/// Of so many requests one sets.
const MIX: usize = 10;
const CLIENTS: usize = 20;
const IN_FLIGHT: usize = 16;
const WARM_UP: Duration = Duration::from_millis(150);
/// A store answers rightly after so many times that, or never.
const SETTLED: usize = 8;

const MEMCACHED: &str = "memcached";
pub(crate) const LIMIT: &str = "the clients' limit";

const CONTENDERS: [(&str, Body); 4] = [
    (MEMCACHED, server::memcached),
    ("process", |gate| server::process(gate, Kind::KeyValue)),
    ("library", |gate| server::library(gate, Kind::KeyValue)),
    (LIMIT, peers::reflector),
];

/// The results of one contender: answers per second in millions, and time of its core for each.
#[derive(Default)]
pub(crate) struct Reached {
    pub(crate) rates: Samples,
    pub(crate) cpu_ns: Samples,
}

/// The load, in words.
pub(crate) fn describe() -> String {
    let requests = describe_requests();
    format!("key-value: {requests}; {CLIENTS} clients with {IN_FLIGHT} requests in flight")
}

/// A description of the requests.
pub(crate) fn describe_requests() -> String {
    format!("1 set in {MIX} requests, keys of {KEY} bytes")
}

/// Adds the keys `kv_vs_kernel` and `kv_1024_vs_kernel`, with `_library` for the stack in the program. Without
/// memcached the others are measured alone.
pub(super) fn measure(rig: &Rig, plan: Plan, report: &mut Report) -> Result<(), BenchError> {
    let has_memcached = server::has_memcached();
    if !has_memcached {
        report.setup("kv_vs_kernel is left out: there is no memcached (Debian: memcached)");
    }
    report.setup(describe());
    let present = |(name, _): &&(&str, Body)| *name != MEMCACHED || has_memcached;
    for len in VALUES {
        let mut reached: [Reached; CONTENDERS.len()] = Default::default();
        for _ in plan.rounds() {
            for (contender, reached) in CONTENDERS.iter().filter(present).zip(&mut reached) {
                reached.add(rig, *contender, len, plan.each)?;
            }
        }
        rows(report, len, CONTENDERS.iter().filter(present).map(|(name, _)| *name), &reached);
    }
    Ok(())
}

fn rows<'n>(
    report: &mut Report,
    len: usize,
    names: impl Iterator<Item = &'n str> + Clone,
    reached: &[Reached],
) {
    let of = |wanted: &str| {
        let at = names.clone().position(|name| name == wanted);
        at.map_or_else(Samples::default, |at| reached[at].rates.clone())
    };
    for (name, reached) in names.clone().zip(reached) {
        report.row(&format!("store {len} B, {name}"), "M/s", &reached.rates);
        if name != LIMIT {
            report.row(&format!("store {len} B, {name}: its core, each"), "ns", &reached.cpu_ns);
            let headroom = of(LIMIT).ratio(&reached.rates);
            report.row(&format!("store {len} B, {LIMIT} : {name}"), "ratio", &headroom);
        }
    }
    let key = if len == VALUES[0] { "kv_vs_kernel".into() } else { format!("kv_{len}_vs_kernel") };
    report.ratio(&key, "", &of("process").ratio(&of(MEMCACHED)));
    report.ratio(&format!("{key}_library"), "", &of("library").ratio(&of(MEMCACHED)));
}

impl Reached {
    /// Drives a store with values of this length.
    pub(crate) fn add(
        &mut self,
        rig: &Rig,
        (name, body): (&'static str, impl FnOnce(&Gate) -> Result<(), BenchError> + Send + 'static),
        len: usize,
        each: Duration,
    ) -> Result<(), BenchError> {
        rig.receive_returns(Receiver::Generator)?;
        let host_mac = rig.contender_end()?.mac;
        let contender = Contender::start(rig, body)?;
        let (core, server_core, load) = (rig.generator_core, rig.contender_core, load(len));
        let (served, busy) = rig.fixture.left.run(move || {
            pin_to(core).map_err(BenchError::of("clients"))?;
            let mut clients = Clients::new(Client::open(host_mac)?, &load)?;
            for _ in 0..SETTLED {
                let served = clients.run(WARM_UP)?;
                // The first gets find no value yet.
                if served.iter().all(|client| client.answers > 0 && client.wrong == 0) {
                    break;
                }
            }
            let before = server::busy_ns(server_core)?;
            let served = clients.run(each)?;
            Ok::<_, BenchError>((served, server::busy_ns(server_core)? - before))
        })?;
        contender.finish()?;
        let sum = |of: fn(&Served) -> u64| served.iter().map(of).sum::<u64>();
        let (answers, wrong) = (sum(|client| client.answers), sum(|client| client.wrong));
        if answers == 0 {
            return Err(BenchError::of(name)("gets and sets are not answered"));
        }
        if name != LIMIT && wrong > answers / 100 {
            let problem = format!("{wrong} of {answers} answers to gets and sets are wrong");
            return Err(BenchError::of(name)(problem));
        }
        self.rates.push(answers as f64 / each.as_secs_f64() / 1e6);
        self.cpu_ns.push(busy as f64 / answers as f64);
        Ok(())
    }
}

fn load(len: usize) -> ClosedLoop {
    ClosedLoop {
        clients: CLIENTS,
        in_flight: IN_FLIGHT,
        requests: requests(len),
        port: port_of_client,
    }
}

/// Gets and sets of one key, with values of this length.
pub(crate) fn requests(len: usize) -> Vec<Request> {
    let key = "k".repeat(KEY);
    let get = request(&format!("get {key}\r\n"), b"VALUE ");
    let set = request(&format!("set {key} 0 0 {len}\r\n{}\r\n", "v".repeat(len)), b"STORED");
    let mut requests = vec![get; MIX - 1];
    requests.push(set);
    requests
}

/// With memcached's eight bytes in front: number, place among the datagrams of the request, their number, and two
/// that are reserved.
fn request(text: &str, answer: &'static [u8]) -> Request {
    Request { payload: [&[0, 0, 0, 0, 0, 1, 0, 0], text.as_bytes()].concat(), answer: (8, answer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_answers_gets_and_sets() {
        weever_testbed::require_net_admin!();
        let rig = Rig::new("app").unwrap();
        rig.kernel_host().unwrap();
        let mut reached = Reached::default();
        // Long enough for a machine whose cores are busy with other tests.
        reached.add(&rig, CONTENDERS[2], 1024, Duration::from_millis(500)).unwrap();
        assert!(reached.rates.0[0] > 0.0);
        let (Some(get), Some(set)) = (load(64).requests.first().cloned(), load(64).requests.pop())
        else {
            panic!("a mix has both")
        };
        assert!(get.payload[8..].starts_with(b"get k") && set.payload[8..].starts_with(b"set k"));
    }

    #[test]
    fn a_store_that_answers_wrongly_is_no_figure() {
        weever_testbed::require_net_admin!();
        let rig = Rig::new("app").unwrap();
        rig.kernel_host().unwrap();
        let echo = |gate: &Gate| server::library(gate, Kind::Echo);
        // Long enough for a machine whose cores are busy with other tests.
        let each = Duration::from_secs(1);
        let error = Reached::default().add(&rig, ("echo", echo), 64, each).unwrap_err();
        assert!(error.to_string().contains("are wrong"), "{error}");
    }
}
