//! Two kernels with weever between them, which forwards by threads on one receive queue or with a queue each.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weever_host::{HostBuilder, InterfaceConfig, Prefix, RunningHost};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, ReceiveThreads};
use weever_packet::{Pool, PoolConfig};
use weever_testbed::{Namespace, Veth, VethEnd};

use crate::BenchError;
use crate::crossing::{FAR, NEAR, SINK, SOURCE};

const PREFIX: u8 = 24;
const FRAMES: u32 = 16_384;
/// The router's link to the client, which it opens first.
const CLIENTS_LINK: u16 = 0;
/// The client's end of that link.
const CLIENTS_DEVICE: &str = "client0";
/// What a kernel leaves to a device, or does late for it: a packet on the way is one that was sent.
const OFFLOADS: [&str; 4] =
    ["tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro"];

/// How the router's threads receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    /// So many on the one queue of each device.
    Shared(u16),
    /// The same, and they send in the order in which packets came.
    Ordered(u16),
    /// So many, each on a queue of its own of each device; the senders' kernels spread flows by a hash.
    ScaleOut(u16),
}

impl Serving {
    pub(super) fn name(self) -> String {
        match self {
            Serving::Shared(1) | Serving::ScaleOut(1) => "one thread".into(),
            Serving::Shared(threads) => format!("{threads} threads share a queue"),
            Serving::Ordered(1) => "one thread in order".into(),
            Serving::Ordered(threads) => format!("{threads} threads share a queue in order"),
            Serving::ScaleOut(threads) => format!("{threads} threads, a queue each"),
        }
    }
}

/// Client, router and server.
pub(super) struct Path {
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    router: RunningHost,
    /// How its threads share the queue to the client.
    threads: Arc<ReceiveThreads>,
    _veths: [Veth; 2],
}

impl Path {
    /// Builds it and starts the router.
    pub(super) fn new(serving: Serving) -> Result<Path, BenchError> {
        let (client, router, server) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        let queues = match serving {
            Serving::Shared(_) | Serving::Ordered(_) => 1,
            Serving::ScaleOut(threads) => threads.into(),
        };
        let near = Veth::create(&client, CLIENTS_DEVICE, &router, "near0", queues)?;
        let far = Veth::create(&router, "far0", &server, "server0", queues)?;
        end_host(&near.left, SOURCE, (FAR, NEAR))?;
        end_host(&far.right, SINK, (NEAR, FAR))?;
        let (router, threads) = router.run(|| start(serving))?;
        Ok(Path { client, server, router, threads, _veths: [near, far] })
    }

    /// Limits what the client sends, as a link of so many megabits a second would.
    pub(super) fn set_rate(&self, megabits: u32) -> Result<(), BenchError> {
        Ok(self.client.set_rate(CLIENTS_DEVICE, megabits)?)
    }

    /// Stops the router, and says what became of the client's packets there.
    ///
    /// # Errors
    /// When one of its workers had failed.
    pub(super) fn finish(self) -> Result<Received, BenchError> {
        let workers = Arc::clone(&self.router.handle().workers);
        let given_up = self.threads.given_up();
        if let Some(failure) = self.router.stop().failure {
            return Err(BenchError::of("router")(failure));
        }
        let mut received = Received { given_up, ..Received::default() };
        for worker in workers.iter() {
            let queues = worker.stats.queues().into_iter();
            let near = queues.filter(|(link, _)| *link == CLIENTS_LINK);
            let (taken, lost) = near.fold((0, 0), |(taken, lost), (_, queue)| {
                (taken + queue.rx_packets, lost + queue.rx_dropped)
            });
            received.by_worker.push(taken);
            received.lost += lost;
        }
        Ok(received)
    }
}

/// What became of the client's packets at the router.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    by_worker: Vec<u64>,
    /// Packets that found no room in the router's ring.
    pub(super) lost: u64,
    /// How often a thread did not wait any longer for what was received before its own packets.
    pub(super) given_up: u64,
}

impl Received {
    /// The share of packets that were not taken by the worker that took most.
    pub(super) fn share_of_helpers(&self) -> f64 {
        let all: u64 = self.by_worker.iter().sum();
        let most = self.by_worker.iter().copied().max().unwrap_or_default();
        (all - most) as f64 / all.max(1) as f64
    }
}

/// A kernel's address, and its way to the other network.
fn end_host(
    end: &VethEnd,
    own: Ipv4Addr,
    (network, router): (Ipv4Addr, Ipv4Addr),
) -> Result<(), BenchError> {
    end.add_address(own, PREFIX)?;
    let network = Ipv4Addr::from_bits(network.to_bits() & (u32::MAX << (32 - PREFIX)));
    end.namespace().add_route(network, PREFIX, router)?;
    for offload in OFFLOADS {
        end.namespace().set_feature(&end.name, offload, false)?;
    }
    Ok(())
}

fn start(serving: Serving) -> Result<(RunningHost, Arc<ReceiveThreads>), BenchError> {
    let config = PoolConfig { frames: FRAMES, ..PoolConfig::default() };
    let pool = Pool::new(config).map_err(BenchError::of("pool"))?;
    let mut builder = HostBuilder::new(pool.clone());
    let (threads, sockets) = match serving {
        Serving::Shared(threads) | Serving::Ordered(threads) => (threads, threads),
        Serving::ScaleOut(threads) => (threads, 1),
    };
    builder.workers(threads.into());
    builder.network().settings.forwarding = true;
    let mut of_links = Vec::new();
    for (dev, address) in [("near0", NEAR), ("far0", FAR)] {
        let settings = AfXdpConfig {
            sockets_per_queue: sockets,
            threads_per_queue: sockets,
            ordered: matches!(serving, Serving::Ordered(_)),
            rotated: true,
            ..AfXdpConfig::new(dev, pool.clone())
        };
        let link = AfXdp::open(&settings).map_err(BenchError::of("router"))?;
        of_links.push(Arc::clone(link.threads()));
        let link = builder.link(Box::new(link));
        let prefix = Prefix::new(address.into(), PREFIX).expect("IPv4 prefixes have up to 32 bits");
        let interface = InterfaceConfig::new(dev, link).address(prefix);
        builder.interface(interface).map_err(BenchError::of("router"))?;
    }
    let router = builder.start().map_err(BenchError::of("router"))?;
    Ok((router, of_links.swap_remove(CLIENTS_LINK.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_all_but_the_one_that_took_most() {
        let share = |by_worker: &[u64]| {
            let by_worker = by_worker.to_vec();
            Received { by_worker, ..Received::default() }.share_of_helpers()
        };
        assert_eq!([share(&[]), share(&[9]), share(&[0, 0])], [0.0; 3]);
        assert_eq!([share(&[1, 3]), share(&[2, 1, 1])], [0.25, 0.5]);
    }
}
