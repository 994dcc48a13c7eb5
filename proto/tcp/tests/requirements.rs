//! `docs/tcp-requirements.md` has each numbered requirement of RFC 9293 once, and the files that it names are there.
//! Requirements that no other test shows are tested here.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weever_tcp::{
    ConnectError, Ecn, Endpoint, Failure, ListenerConfig, Reject, Segment, State, TcpConfig, Tuple,
};
use weever_wire::tcp::{Seq, TcpOptions, flag};

/// The kinds of requirements in appendix B, and the last number of each.
const LAST: [(&str, u32); 4] = [("MUST", 69), ("SHLD", 31), ("MAY", 18), ("REC", 1)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the tables, without their headings.
fn rows() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/tcp-requirements.md")).unwrap();
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let all = text.lines().filter(|line| line.starts_with('|')).map(cells);
    all.filter(|row: &Vec<_>| row[0] != "number" && !row[0].starts_with("---")).collect()
}

#[test]
fn each_requirement_stands_in_one_row() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows() {
        assert_eq!(row.len(), 4, "{row:?}");
        for number in row[0].split(", ") {
            *found.entry(number.to_owned()).or_default() += 1;
        }
    }
    for (kind, last) in LAST {
        for number in 1..=last {
            assert_eq!(found.remove(&format!("{kind}-{number}")), Some(1), "{kind}-{number}");
        }
    }
    assert!(found.is_empty(), "RFC 9293 has none of {found:?}");
}

#[test]
fn the_files_that_rows_name_are_there() {
    for row in rows() {
        for name in row[2..].iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            let name = name.trim_end_matches('/');
            if !(name.contains('/') || name.ends_with(".rs") || name.ends_with(".pkt")) {
                continue;
            }
            let places = ["", "proto/tcp/src", "proto/tcp/tests", "filetests/tcp"];
            let there = places.iter().any(|place| root().join(place).join(name).exists());
            assert!(there, "{name} in the row of {}", row[0]);
        }
    }
}

const SECOND: u64 = 1_000_000_000;

fn endpoint() -> Endpoint {
    Endpoint::new(TcpConfig::default(), [7, 9], 0)
}

/// A SYN, whoever sends it.
fn syn() -> Segment<'static> {
    Segment {
        seq: Seq(1000),
        ack: Seq(0),
        flags: flag::SYN,
        window: 0xffff,
        urgent: 0,
        options: TcpOptions::default(),
        payload: &[],
        joined: 0,
        ecn: Ecn::NotEct,
    }
}

/// MUST-46, MUST-57, MUST-63.
#[test]
fn groups_and_broadcasts_have_no_connections() {
    let mut endpoint = endpoint();
    endpoint.listen(ListenerConfig::new(80)).unwrap();
    let host = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
    for (of, none) in
        [(0, "224.0.0.9"), (0, "255.255.255.255"), (0, "0.0.0.0"), (1, "ff02::1"), (1, "::")]
    {
        let (host, none) = (host[of], none.parse().unwrap());
        let remote = SocketAddr::new(none, 80);
        let refused = endpoint.connect(SocketAddr::new(host, 0), remote, SECOND);
        assert_eq!(refused, Err(ConnectError::NoHost), "to {none}");
        for (local, remote) in [(none, host), (host, none)] {
            let tuple = Tuple { local, remote, local_port: 80, remote_port: 5000 };
            let handled = endpoint.handle(&tuple, &syn(), SECOND);
            assert_eq!(handled, Err(Reject::NoConnection), "{remote} to {local}");
            assert_eq!(endpoint.poll_transmit(SECOND), None, "not even a reset");
        }
    }
    assert!(endpoint.is_empty());
}

/// MUST-54, MUST-56, SHLD-26, as `docs/rfc-exceptions.md` has them.
#[test]
fn an_error_ends_only_a_connection_that_is_being_opened() {
    let mut endpoint = endpoint();
    let ends = ["192.0.2.1:0", "192.0.2.2:80"].map(|end| end.parse::<SocketAddr>().unwrap());
    let id = endpoint.connect(ends[0], ends[1], SECOND).unwrap();
    let sent = endpoint.poll_transmit(SECOND).unwrap();
    let (tuple, iss) = (sent.tuple, sent.header.seq);
    assert!(!endpoint.handle_unreachable(&tuple, iss.wrapping_add(9), SECOND), "it was never sent");
    assert_eq!(endpoint.get(id).unwrap().state(), State::SynSent);
    assert!(endpoint.handle_unreachable(&tuple, iss, SECOND));
    let connection = endpoint.get(id).unwrap();
    assert_eq!(
        (connection.state(), connection.failure()),
        (State::Closed, Some(Failure::Unreachable))
    );
}
