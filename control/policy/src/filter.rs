//! Filters as people write them: pcap-filter and field comparisons, about packets only.

use weever_graph::Predicate;
use weever_plan::flow::{Conj, MAX_PARTS, conjunctions};
use weever_suggest::did_you_mean;
use weever_unicorn::predicate;

/// Words to suggest for an unknown one.
const WORDS: [&str; 12] =
    ["udp", "tcp", "sctp", "icmp", "icmp6", "igmp", "ip", "ip6", "arp", "vlan", "port", "host"];

/// The fault of a filter, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct FilterError {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// The predicate of a filter. Opaque labels, which graphs may use, say nothing of packets.
pub(crate) fn parse(text: &str) -> Result<Predicate, FilterError> {
    let predicate = predicate::parse(text).map_err(|e| FilterError {
        message: format!("{} (at byte {} of the filter)", e.message, e.at + 1),
        help: e.help,
    })?;
    unfit(&predicate).map_or(Ok(predicate), Err)
}

/// The packets of a filter; an empty set is an error.
pub(crate) fn packets(predicate: &Predicate) -> Result<Vec<Conj>, FilterError> {
    let error = |message: String, help: &str| FilterError { message, help: Some(help.into()) };
    let parts = conjunctions(predicate, MAX_PARTS)
        .map_err(|e| error(e.to_string(), "split the filter into simpler ones"))?;
    match parts.is_empty() {
        true => Err(error(
            "no packet matches: the conditions contradict each other".into(),
            "join alternatives by `or` instead of `and`",
        )),
        false => Ok(parts),
    }
}

/// What is in a predicate that graphs understand and rules of no NIC do.
fn unfit(predicate: &Predicate) -> Option<FilterError> {
    let error = |message, help| Some(FilterError { message, help });
    let unknown = |word: &str| {
        error(format!("`{word}` is no field or property of a packet"), did_you_mean(word, WORDS))
    };
    match predicate {
        Predicate::Match { field, .. } | Predicate::Range { field, .. } if field.is_derived() => {
            error(
                format!("no NIC tests `{field}`: only a stack that looks at the packet knows it"),
                None,
            )
        }
        Predicate::Compare { left, right, .. } => {
            error(format!("no NIC compares fields, as `{left}` with `{right}`"), None)
        }
        Predicate::Atom { label: word, .. } => unknown(word),
        Predicate::Member { set, .. } => unknown(set.name()),
        Predicate::Not(inner) => unfit(inner),
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().find_map(unfit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_nic_tests_is_refused_by_name() {
        for (filter, name) in [
            ("vlan 2 and vlan 3 and udp", "no NIC tests `vlan.inner`"),
            ("udp or not ip[1] = 0x10", "no NIC tests `ip4.tos`"),
            ("ip4.src = ip4.dst", "`ip4.src` with `ip4.dst`"),
            ("ip4.dst in ours", "`ours` is no field"),
            ("udp and Unknown", "`Unknown` is no field"),
        ] {
            let said = parse(filter).expect_err(filter).message;
            assert!(said.contains(name), "{filter}: {said}");
        }
        assert!(parse("vlan 2 and udp dst port 53").is_ok());
    }
}
