//! Servers with the stack in their thread, on a cable in memory: what a request costs there, without a device, is
//! counted in instructions (`weever bench instructions library-…`).

use std::time::Duration;

use weever_app_library::Library;
use weever_app_sockets::{AppQueue, Event, QueueConfig};
use weever_host::{HostBuilder, InterfaceConfig, Prefix, Route};
use weever_link::memory::{MemoryConfig, pair};
use weever_link::{Link, LinkQueue};
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::Fixture;
use weever_wire::MacAddr;

use crate::BenchError;
use crate::rig::{GENERATOR_MAC, HOST, PORT, REMOTE};
use crate::traffic::udp_frame;

const FAILED: &str = "cable in memory";
/// No keeper takes part.
const NEVER: Duration = Duration::from_secs(3600);

/// The far end of a cable.
pub(crate) struct Cable {
    pub(crate) queue: Box<dyn LinkQueue>,
    pub(crate) pool: Pool,
    pub(crate) host_mac: [u8; 6],
}

/// A host at one end of a cable, and the other end.
pub(crate) fn cable() -> Result<(HostBuilder, Cable), BenchError> {
    cable_of(&MemoryConfig::default())
}

fn cable_of(config: &MemoryConfig) -> Result<(HostBuilder, Cable), BenchError> {
    let pool = Pool::shareable(PoolConfig::default()).map_err(BenchError::of(FAILED))?;
    let (ours, mut theirs) = pair(config).map_err(BenchError::of(FAILED))?;
    let queue = theirs.take_queues().pop();
    let queue = queue.ok_or_else(|| BenchError::of(FAILED)("it has no queue"))?;
    // A cable in memory carries frames as they are: like those of a device, they are of the host's pool.
    let far = Cable { queue, pool: pool.clone(), host_mac: ours.info().mac };
    let mut builder = HostBuilder::new(pool);
    let link = builder.link(Box::new(ours));
    let address = format!("{HOST}/{}", Fixture::PREFIX).parse().map_err(BenchError::of(FAILED))?;
    let interface = InterfaceConfig::new("eth0", link).address(address);
    builder.interface(interface).map_err(BenchError::of(FAILED))?;
    builder.neighbour(Fixture::LEFT.into(), MacAddr(GENERATOR_MAC));
    let remote = Prefix::new(REMOTE.0.into(), REMOTE.1).expect("IPv4 prefixes have up to 32 bits");
    let route = Route::via(remote, Fixture::LEFT.into());
    builder.route(&route).map_err(BenchError::of(FAILED))?;
    Ok((builder, far))
}

/// Starts the host as a stack in this thread, and opens a queue on it.
pub(crate) fn queue_on(builder: HostBuilder) -> Result<(AppQueue, Library), BenchError> {
    let library = Library::start(builder, NEVER).map_err(BenchError::of(FAILED))?;
    let queue = library.queue(&QueueConfig::default()).map_err(BenchError::of(FAILED))?;
    Ok((queue, library))
}

/// Work in both halves of an exchange: only the server's is counted.
pub(crate) trait Exchange {
    /// Sends so many requests.
    fn ask(&mut self, requests: usize) -> Result<(), BenchError>;
    /// Has the server go round its loop once.
    fn serve(&mut self) -> Result<(), BenchError>;
    /// Takes answers off the cable, and returns how many there were.
    fn answered(&mut self) -> Result<usize, BenchError>;
}

/// Datagrams to an echo server.
pub(crate) struct Datagrams {
    queue: AppQueue,
    _library: Library,
    far: Cable,
    frames: PoolCache,
    request: Vec<u8>,
}

impl Datagrams {
    pub(crate) fn new() -> Result<Datagrams, BenchError> {
        Datagrams::of(60, false)
    }

    /// Of frames of this length, whose checksums the link completes if the host leaves that to it.
    pub(crate) fn of(frame: usize, partial_checksums: bool) -> Result<Datagrams, BenchError> {
        let config = MemoryConfig { partial_checksums, ..MemoryConfig::default() };
        let (builder, far) = cable_of(&config)?;
        let (queue, _library) = queue_on(builder)?;
        queue.bind_udp(([0; 4], PORT).into()).map_err(BenchError::of(FAILED))?;
        let ends = (MacAddr(GENERATOR_MAC), Fixture::LEFT, MacAddr(far.host_mac), HOST);
        let request = udp_frame(ends, PORT, frame).map_err(BenchError::of("frame"))?;
        Ok(Datagrams { queue, _library, frames: far.pool.cache(), far, request })
    }
}

impl Exchange for Datagrams {
    fn ask(&mut self, requests: usize) -> Result<(), BenchError> {
        let mut packets = (0..requests).filter_map(|_| self.frames.alloc()).collect();
        for packet in &mut packets {
            let _it_fits = weever_packet::Buffer::append(packet, &self.request);
        }
        let sent = self.far.queue.tx(&mut self.frames, &mut packets);
        sent.map(drop).map_err(BenchError::of(FAILED))
    }

    /// The loop of the echo server in `examples/apps`.
    fn serve(&mut self) -> Result<(), BenchError> {
        let turn = || {
            self.queue.wait(Some(Duration::ZERO))?;
            while let Some(event) = self.queue.next()? {
                if let Event::Datagram(datagram) = event {
                    datagram.reply()?;
                }
            }
            Ok(())
        };
        turn().map_err(|error: weever_app_sockets::Error| BenchError::of(FAILED)(error))
    }

    fn answered(&mut self) -> Result<usize, BenchError> {
        let mut burst = Burst::new();
        let count = self.far.queue.rx(&mut self.frames, &mut burst, 64);
        let count = count.map_err(BenchError::of(FAILED))?;
        (0..count).filter_map(|at| burst.take(at)).for_each(|packet| self.frames.free(packet));
        Ok(count)
    }
}
