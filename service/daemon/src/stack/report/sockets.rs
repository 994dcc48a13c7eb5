//! Applications' open sockets, as the control socket tells them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use weever_app_server::{AppServer, Identity, LINK_NAME, SocketCounts as Counted};
use weever_net::demux::Binding;
use weever_service_api::{
    AppQueueStatus, ClassShare, ConnectionStatus, QueueStatus, SocketCounts, SocketStatus, Sockets,
};

use crate::stack::run::shared::Shared;

impl Shared {
    pub(in crate::stack) fn sockets(&self, most: usize) -> Sockets {
        let path = self.config.apps.as_ref().map(|path| path.display().to_string());
        let answer = Sockets { uptime_ns: self.uptime_ns(), path, ..Sockets::default() };
        let Some(server) = self.applications.get() else { return answer };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        let (connections, connections_total) = server.connections(most);
        let held = server
            .held_listeners()
            .map(|status| SocketStatus { state: "held".into(), ..socket(status) });
        Sockets {
            connections_total: connections_total as u64,
            connections: connections.into_iter().map(connection).collect(),
            queues: queues(&server),
            total: (server.socket_count() + server.held_count()) as u64,
            sockets: server.sockets().map(socket).chain(held).take(most).collect(),
            ..answer
        }
    }
}

impl Shared {
    /// Has the applications' rows name them, with how many sockets each has.
    pub(in crate::stack) fn name_applications(&self, rows: &mut [QueueStatus]) {
        let Some(server) = self.applications.get() else { return };
        let server = server.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sockets: BTreeMap<String, u64> = BTreeMap::new();
        for queue in server.queues() {
            *sockets.entry(queue.owner.name).or_default() += queue.sockets as u64;
        }
        let shares = sockets.into_iter().map(|(name, flows)| ClassShare { name, flows });
        let shares: Vec<ClassShare> = shares.collect();
        for row in rows.iter_mut().filter(|row| row.link == LINK_NAME) {
            row.classes.clone_from(&shares);
        }
    }
}

fn queues(server: &AppServer) -> Vec<AppQueueStatus> {
    let queue = |queue: weever_app_server::QueueStatus| {
        let Identity { name, pid, uid, .. } = queue.owner;
        AppQueueStatus {
            queue: queue.id,
            application: name,
            pid,
            uid,
            sockets: queue.sockets as u64,
            counts: counts(&queue.counts),
            zero_copy: queue.trusted,
        }
    };
    server.queues().map(queue).collect()
}

fn socket(status: weever_app_server::SocketStatus) -> SocketStatus {
    let Identity { name, pid, uid, .. } = status.owner;
    let local = Binding { remote_addr: None, remote_port: None, ..status.binding };
    let state = match status.peer {
        _ if status.listens => "listening",
        Some(_) => "connected",
        None => "open",
    };
    SocketStatus {
        socket: status.id,
        queue: status.queue,
        application: name,
        pid,
        uid,
        state: state.into(),
        local: local.to_string(),
        peer: status.peer.map(|peer| peer.to_string()),
        groups: status.groups.iter().map(|(group, name)| format!("{group}%{name}")).collect(),
        counts: counts(&status.counts),
    }
}

fn connection(status: weever_app_server::ConnectionStatus) -> ConnectionStatus {
    let weever_app_server::ConnectionStatus { worker, owner, local, remote, info } = status;
    let owner = owner.map(|(_, identity)| identity);
    ConnectionStatus {
        worker: worker as u64,
        application: owner.as_ref().map(|owner| owner.name.clone()),
        pid: owner.map(|owner| owner.pid),
        state: info.state_name().into(),
        local: local.to_string(),
        peer: remote.to_string(),
        receive_queue: info.unread.into(),
        send_queue: info.send_queue(),
        received: info.received,
        acknowledged: info.acknowledged,
        retransmissions: info.retransmissions.into(),
        round_trip_ns: u64::from(info.round_trip.0) * 1000,
        window: info.window.0.into(),
        congestion: info.congestion.into(),
    }
}

fn counts(counted: &Counted) -> SocketCounts {
    SocketCounts {
        received: counted.delivered,
        sent: counted.sent,
        dropped: counted.ring_full + counted.no_frame,
        refused: counted.refused,
        errors: counted.errors,
    }
}
