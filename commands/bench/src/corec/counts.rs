//! What the kernels at both ends of a path count of their TCP: what was sent again, and what came out of order.

use weever_testbed::Namespace;

use super::path::Path;
use crate::BenchError;

/// Counts since a namespace began, or over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Segments that the client has sent again.
    pub(super) again: u64,
    /// Of these, segments that the server had already, and said so (DSACK, RFC 2883).
    pub(super) in_vain: u64,
    /// Segments that came to the server before an earlier one.
    pub(super) early: u64,
    /// Segments that the server sent: acknowledgements.
    pub(super) acknowledgements: u64,
}

impl Counts {
    /// Of all connections so far.
    pub(super) fn of(path: &Path) -> Result<Counts, BenchError> {
        let (client, server) = (Tables::of(&path.client)?, Tables::of(&path.server)?);
        Ok(Counts {
            again: client.get("Tcp:", "RetransSegs")?,
            in_vain: client.get("TcpExt:", "TCPDSACKRecv")?,
            early: server.get("TcpExt:", "TCPOFOQueue")?,
            acknowledgements: server.get("Tcp:", "OutSegs")?,
        })
    }

    pub(super) fn since(self, before: Counts) -> Counts {
        Counts {
            again: self.again - before.again,
            in_vain: self.in_vain - before.in_vain,
            early: self.early - before.early,
            acknowledgements: self.acknowledgements - before.acknowledgements,
        }
    }
}

/// A namespace's `/proc/net/snmp` and `/proc/net/netstat`.
struct Tables(String);

impl Tables {
    fn of(namespace: &Namespace) -> Result<Tables, BenchError> {
        // The thread's own: `/proc/net` is that of the process's first thread.
        let read = |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        let tables = namespace.run(|| Ok(read("snmp")? + &read("netstat")?));
        tables.map(Tables).map_err(|error: std::io::Error| BenchError::of("snmp")(error))
    }

    /// A counter of a protocol: there is a line of names, and one of values.
    fn get(&self, protocol: &str, name: &str) -> Result<u64, BenchError> {
        let mut lines = self.0.lines().filter(|line| line.split(' ').next() == Some(protocol));
        let value = lines.next().zip(lines.next()).and_then(|(names, values)| {
            let place = names.split_ascii_whitespace().position(|other| other == name)?;
            values.split_ascii_whitespace().nth(place)?.parse().ok()
        });
        value.ok_or_else(|| BenchError::of("snmp")(format!("the kernel does not count {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_protocol_and_name() {
        let text =
            "Ip: A\nIp: 7\nTcp: ActiveOpens RetransSegs\nTcp: 3 41\nTcpExt: A B\nTcpExt: 5 6\n";
        let tables = Tables(text.into());
        assert_eq!(tables.get("Tcp:", "RetransSegs").unwrap(), 41);
        assert_eq!(tables.get("TcpExt:", "B").unwrap(), 6);
        let error = tables.get("Tcp:", "B").unwrap_err().to_string();
        assert!(error.contains("count B"), "{error}");
        assert!(Tables(String::new()).get("Tcp:", "RetransSegs").is_err());
    }

    #[test]
    fn counts_are_of_the_time_between() {
        let before = Counts { again: 1, in_vain: 2, early: 3, acknowledgements: 4 };
        let after = Counts { again: 5, in_vain: 7, early: 9, acknowledgements: 11 };
        let between = Counts { again: 4, in_vain: 5, early: 6, acknowledgements: 7 };
        assert_eq!(after.since(before), between);
    }
}
