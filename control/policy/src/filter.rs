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
    match label(&predicate) {
        None => Ok(predicate),
        Some(label) => Err(FilterError {
            message: format!("`{label}` is no field or property of a packet"),
            help: did_you_mean(label, WORDS),
        }),
    }
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

fn label(predicate: &Predicate) -> Option<&str> {
    match predicate {
        Predicate::Atom { label, .. } => Some(label),
        Predicate::Match { field, .. } | Predicate::Range { field, .. } if field.is_derived() => {
            Some(field.name())
        }
        Predicate::Compare { left, .. } => Some(left.name()),
        Predicate::Member { set, .. } => Some(set.name()),
        Predicate::Not(inner) => label(inner),
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().find_map(label),
        _ => None,
    }
}
