//! `weever sockets`.

use std::io::{self, Write};

use clap::Args;
use weever_service_api::{
    AppQueueStatus, ConnectionStatus, SocketCounts, SocketStatus, Sockets, SocketsRequest,
};

use crate::CliError;
use crate::table::{Align, Table, grouped, span};
use crate::watch::Repeated;

/// Shows the applications of a running stack, their queues, sockets and TCP connections, with their counts.
#[derive(Args, Clone, Debug, Default)]
pub struct SocketsArgs {
    #[command(flatten)]
    repeated: Repeated,
    /// The most sockets to show, and the most connections; up to 2000
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    most: usize,
}

impl SocketsArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        self.repeated
            .run(out, &SocketsRequest { most: self.most }, |out, sockets, _| write(out, sockets))
    }
}

fn write(out: &mut dyn Write, now: &Sockets) -> io::Result<()> {
    let Some(path) = &now.path else {
        return writeln!(out, "no applications are served: `weever up --apps PATH` serves them");
    };
    let (queues, sockets) = (grouped(now.queues.len() as u64), grouped(now.total));
    writeln!(out, "up {}, {path}: {queues} queues, {sockets} sockets", span(now.uptime_ns))?;
    if !now.queues.is_empty() {
        writeln!(out)?;
        of_queues(&now.queues).write(out)?;
    }
    if !now.sockets.is_empty() {
        writeln!(out)?;
        of_sockets(&now.sockets).write(out)?;
    }
    and_more(out, now.total, now.sockets.len())?;
    if !now.connections.is_empty() {
        writeln!(out, "\n{} TCP connections", grouped(now.connections_total))?;
        of_connections(&now.connections).write(out)?;
    }
    and_more(out, now.connections_total, now.connections.len())
}

fn and_more(out: &mut dyn Write, total: u64, listed: usize) -> io::Result<()> {
    let more = total.saturating_sub(listed as u64);
    if more > 0 { writeln!(out, "and {} more", grouped(more)) } else { Ok(()) }
}

fn of_connections(connections: &[ConnectionStatus]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("worker", right),
        ("application", left),
        ("pid", right),
        ("state", left),
        ("local", left),
        ("peer", left),
        ("unread", right),
        ("unacked", right),
        ("received", right),
        ("acked", right),
        ("resent", right),
        ("rtt us", right),
        ("window", right),
        ("control", left),
    ]);
    for there in connections {
        let rtt = there.round_trip_ns;
        table.row([
            there.worker.to_string(),
            there.application.clone().unwrap_or_else(|| "-".into()),
            there.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
            there.state.clone(),
            there.local.clone(),
            there.peer.clone(),
            grouped(there.receive_queue),
            grouped(there.send_queue),
            grouped(there.received),
            grouped(there.acknowledged),
            grouped(there.retransmissions),
            if rtt > 0 { grouped(rtt / 1000) } else { "-".into() },
            grouped(there.window),
            there.congestion.clone(),
        ]);
    }
    table
}

const COUNTS: [(&str, Align); 5] = [
    ("received", Align::Right),
    ("sent", Align::Right),
    ("dropped", Align::Right),
    ("refused", Align::Right),
    ("errors", Align::Right),
];

fn counted(counts: &SocketCounts) -> [String; 5] {
    let SocketCounts { received, sent, dropped, refused, errors } = *counts;
    [received, sent, dropped, refused, errors].map(grouped)
}

fn of_queues(queues: &[AppQueueStatus]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let own = [
        ("queue", right),
        ("application", left),
        ("pid", right),
        ("uid", right),
        ("sockets", right),
    ];
    // The workers in whose frames a queue works.
    let zero_copy = |queue: &AppQueueStatus| match &queue.zero_copy[..] {
        [] => "-".to_owned(),
        workers => workers.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    };
    let mut table = Table::new(&[&own[..], &COUNTS, &[("zero-copy", left)]].concat());
    for queue in queues {
        let numbers = [queue.pid.to_string(), queue.uid.to_string(), grouped(queue.sockets)];
        let own = [queue.queue.to_string(), queue.application.clone()].into_iter().chain(numbers);
        table.row(own.chain(counted(&queue.counts)).chain([zero_copy(queue)]));
    }
    table
}

fn of_sockets(sockets: &[SocketStatus]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let own = [
        ("socket", right),
        ("queue", right),
        ("application", left),
        ("state", left),
        ("local", left),
        ("peer", left),
    ];
    let mut table = Table::new(&[&own[..], &COUNTS, &[("groups", left)]].concat());
    for socket in sockets {
        let own = [
            socket.socket.to_string(),
            socket.queue.to_string(),
            socket.application.clone(),
            socket.state.clone(),
            socket.local.clone(),
            socket.peer.clone().unwrap_or_else(|| "*".into()),
        ];
        let cells = own.into_iter().chain(counted(&socket.counts));
        table.row(cells.chain([socket.groups.join(" ")]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(now: &Sockets) -> String {
        let mut out = Vec::new();
        write(&mut out, now).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sockets_in_words() {
        let counts =
            SocketCounts { received: 1000, sent: 7, dropped: 3, ..SocketCounts::default() };
        let queue = AppQueueStatus {
            queue: 1,
            application: "resolver".into(),
            pid: 42,
            uid: 1000,
            sockets: 2,
            counts,
            zero_copy: vec![0, 1],
        };
        let socket = SocketStatus {
            socket: 4,
            queue: 1,
            application: "resolver".into(),
            pid: 42,
            uid: 1000,
            state: "open".into(),
            local: "*:5353".into(),
            groups: vec!["224.0.0.251%eth0".into()],
            counts,
            ..SocketStatus::default()
        };
        let connection = ConnectionStatus {
            worker: 1,
            application: Some("httpd".into()),
            pid: Some(42),
            state: "established".into(),
            local: "192.0.2.1:80".into(),
            peer: "192.0.2.9:50000".into(),
            receive_queue: 3,
            send_queue: 14_480,
            retransmissions: 2,
            round_trip_ns: 80_000,
            window: 14_480,
            congestion: "cubic".into(),
            ..ConnectionStatus::default()
        };
        let now = Sockets {
            uptime_ns: 1_000_000_000,
            path: Some("/run/apps".into()),
            queues: vec![queue],
            total: 2,
            sockets: vec![socket],
            connections_total: 2,
            connections: vec![connection],
        };
        let expected = "\
up 1.0 s, /run/apps: 1 queues, 2 sockets

queue  application  pid   uid  sockets  received  sent  dropped  refused  errors  zero-copy
    1  resolver      42  1000        2     1,000     7        3        0       0  0,1

socket  queue  application  state  local   peer  received  sent  dropped  refused  errors  groups
     4      1  resolver     open   *:5353  *        1,000     7        3        0       0  224.0.0.251%eth0
and 1 more

2 TCP connections
worker  application  pid  state        local         peer             unread  unacked  received  acked  resent  rtt us  window  control
     1  httpd         42  established  192.0.2.1:80  192.0.2.9:50000       3   14,480         0      0       2      80  14,480  cubic
and 1 more
";
        assert_eq!(text(&now), expected);
        assert!(text(&Sockets::default()).starts_with("no applications are served"));
    }
}
