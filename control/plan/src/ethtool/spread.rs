//! The table of the hash as `ethtool -X`.

use weever_graph::nic::RssFields;

use crate::config::{Configuration, Rss};
use crate::nic::Nic;

/// `ethtool -X DEV equal 8`, or with weights where the queues are not the first ones or not equal.
pub(super) fn command(nic: &Nic, rss: &Rss, device: &str) -> Option<String> {
    nic.rss.as_ref()?;
    spread(&rss.table, rss.key.as_deref(), device)
}

/// The command that makes `device` spread over the queues of `table`, by this key if there is one;
/// nothing for an empty table.
pub fn spread(table: &[u32], key: Option<&[u8]>, device: &str) -> Option<String> {
    let last = *table.iter().max()?;
    let mut weights = vec![0usize; last as usize + 1];
    table.iter().for_each(|q| weights[*q as usize] += 1);
    let key = key.map(|key| format!(" hkey {}", hex(key))).unwrap_or_default();
    let (least, most) = (weights.iter().min()?, weights.iter().max()?);
    // Entries seldom divide evenly; `equal` also leaves a difference of one.
    if most - least <= 1 {
        return Some(format!("ethtool -X {device} equal {}{key}", weights.len()));
    }
    let listed: Vec<String> =
        weights.iter().map(|w| usize::from(*w > 0)).map(|w| w.to_string()).collect();
    let exact = uneven(&weights).then(|| weights.iter().map(|w| w.to_string()).collect());
    let listed = exact.unwrap_or(listed);
    Some(format!("ethtool -X {device} weight {}{key}", listed.join(" ")))
}

/// The commands that create the used contexts. The device assigns the number of each; a device without
/// contexts assigns those of [`number`].
pub(super) fn contexts(nic: &Nic, configuration: &Configuration, device: &str) -> Vec<String> {
    let used = (0..configuration.contexts.len() as u32)
        .filter(|c| !configuration.contexts[*c as usize].is_empty());
    let line = |context| {
        let table = configuration.context(nic, context).table;
        spread(&table, None, device).map(|command| format!("{command} context new"))
    };
    used.filter_map(line).collect()
}

/// The number of a context on a device without earlier contexts.
pub(super) fn number(configuration: &Configuration, context: u32) -> usize {
    let before = configuration.contexts.iter().take(context as usize + 1);
    before.filter(|queues| !queues.is_empty()).count()
}

/// The hashed fields of a flow type, where they are not the device's own choice.
pub(super) fn fields(rss: &Rss, device: &str) -> Vec<String> {
    let line = |(flow_type, fields): &(weever_graph::nic::FlowType, RssFields)| {
        let letters = match fields {
            RssFields::FourTuple => "sdfn",
            RssFields::Addresses => "sd",
            RssFields::None => {
                return format!("# cannot be expressed: nothing of {flow_type} is to be hashed");
            }
        };
        format!("ethtool -N {device} rx-flow-hash {flow_type} {letters}")
    };
    rss.fields.iter().map(line).collect()
}

/// Whether the queues that are used are used unequally.
fn uneven(weights: &[usize]) -> bool {
    let used = || weights.iter().filter(|w| **w > 0);
    used().max().zip(used().min()).is_some_and(|(most, least)| most - least > 1)
}

fn hex(key: &[u8]) -> String {
    key.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}
