//! The link, as a worker's assembly sees it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};

use atomic_refcell::AtomicRefCell;
use rtrb::RingBuffer;
use rustix::event::{EventfdFlags, eventfd};
use weever_link::{Link, LinkInfo, LinkQueue, Offload};
use weever_net::demux::SocketTable;
use weever_net::stream::StreamPort;
use weever_packet::Pool;

use crate::channels::Channels;
use crate::network::HostNetwork;
use crate::passage::Peer;
use crate::port::Port;
use crate::queue::AppLinkQueue;
use crate::request::ServerError;
use crate::server::AppServer;
use crate::streams::{Ends, SharedEnds, Streams};
use crate::worker::SharedTable;
use crate::worker::WorkerHandle;

/// The link's name.
pub const LINK_NAME: &str = "applications";
/// Commands that wait for a worker at the most.
const COMMANDS: usize = 4096;

/// Applications as a link: one queue for each worker.
pub struct AppLink {
    info: LinkInfo,
    queues: Vec<Box<dyn LinkQueue>>,
    tables: Vec<SharedTable>,
    ports: Vec<Arc<dyn StreamPort>>,
}

impl AppLink {
    /// A link for `workers` workers, and the server that opens queues and sockets on it. Datagrams
    /// longer than an ordinary frame are copied to frames of `large`. `network` is the host's; `secret` keys the workers'
    /// tables and the choice of ephemeral ports; `max_sockets` bounds the tables.
    ///
    /// # Errors
    /// [`ServerError::System`] when an eventfd cannot be had.
    pub fn new(
        workers: u16,
        large: Option<Pool>,
        network: Box<dyn HostNetwork>,
        secret: [u64; 4],
        max_sockets: usize,
    ) -> Result<(AppLink, AppServer), ServerError> {
        let mut queues: Vec<Box<dyn LinkQueue>> = Vec::new();
        let (mut tables, mut handles) = (Vec::new(), Vec::new());
        let mut ports: Vec<Arc<dyn StreamPort>> = Vec::new();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (mut peers, mut inboxes) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let wake = Arc::new(eventfd(0, flags).map_err(ServerError::system("eventfd"))?);
            let (mail, inbox) = mpsc::channel();
            peers.push(Peer::new(mail, Arc::clone(&wake)));
            inboxes.push((wake, inbox));
        }
        let peers: Arc<[Peer]> = peers.into();
        for (worker, (wake, inbox)) in (0..workers).zip(inboxes) {
            let table = SocketTable::new(secret, max_sockets);
            let table: SharedTable = Arc::new(AtomicRefCell::new(table));
            let (sender, commands) = RingBuffer::new(COMMANDS);
            let done = Arc::<AtomicU64>::default();
            let (own, theirs) = (Arc::clone(&wake), Arc::clone(&done));
            handles.push(WorkerHandle { commands: sender, wake: own, sent: 0, done: theirs });
            let streams = Streams::new(worker, max_sockets, Arc::clone(&peers));
            let ends = Ends { channels: Channels::default(), streams };
            let ends: SharedEnds = Arc::new(AtomicRefCell::new(ends));
            ports.push(Arc::new(Port(Arc::clone(&ends))));
            let shared = (Arc::clone(&table), ends);
            let queue =
                AppLinkQueue::new(worker, (commands, done), (wake, inbox), shared, large.clone());
            queues.push(Box::new(queue));
            tables.push(table);
        }
        let info = LinkInfo {
            name: LINK_NAME.into(),
            mac: [0; 6],
            mtu: u16::MAX,
            queues: workers,
            partial_checksums: false,
            offload: Offload::default(),
            mode: "application queues".into(),
        };
        let server = AppServer::new(handles, large, network, secret, max_sockets);
        Ok((AppLink { info, queues, tables, ports }, server))
    }

    /// The workers' tables, for their demux nodes.
    pub fn tables(&self) -> &[SharedTable] {
        &self.tables
    }

    /// The workers' ports for streams, for their transport.
    pub fn stream_ports(&self) -> &[Arc<dyn StreamPort>] {
        &self.ports
    }
}

impl Link for AppLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        std::mem::take(&mut self.queues)
    }
}
