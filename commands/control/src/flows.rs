//! `weever flows`.

use std::io::{self, Write};

use clap::Args;
use weever_service_api::{FlowStatus, Flows, FlowsRequest};

use crate::CliError;
use crate::table::{Align, Table, counted, grouped, span};
use crate::watch::Repeated;

/// Shows the worker of each flow of a running stack, with its filter, the busiest flow first.
#[derive(Args, Clone, Debug, Default)]
pub struct FlowsArgs {
    #[command(flatten)]
    repeated: Repeated,
    /// The most flows to show; up to 2000
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    most: usize,
}

impl FlowsArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or `out` not be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        self.repeated.run(out, &FlowsRequest { most: self.most }, |out, flows, _| write(out, flows))
    }
}

fn write(out: &mut dyn Write, flows: &Flows) -> io::Result<()> {
    let Flows { total, unplaced, refused, searches, slowest_ns, .. } = *flows;
    writeln!(out, "up {}, {} flows", span(flows.uptime_ns), grouped(total))?;
    if searches == 0 {
        return writeln!(out, "no policy: `weever up --policy FILE` gives flows to workers");
    }
    let slowest = slowest_ns as f64 / 1e6;
    writeln!(out, "{} searches, the longest took {slowest:.1} ms", grouped(searches))?;
    for (count, what) in [(unplaced, "for which the policy has no place"), (refused, "too many")] {
        if count > 0 {
            writeln!(out, "{} flows were seen {what}", grouped(count))?;
        }
    }
    if flows.asked_for + flows.too_soon > 0 {
        let (asked_for, too_soon) = (grouped(flows.asked_for), grouped(flows.too_soon));
        writeln!(out, "applications asked for {asked_for} of them, and {too_soon} times too soon")?;
    }
    if flows.flows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    table(flows).write(out)?;
    let more = total.saturating_sub(flows.flows.len() as u64);
    if more > 0 { writeln!(out, "and {} more", grouped(more)) } else { Ok(()) }
}

fn table(flows: &Flows) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let has_rates = flows.flows.iter().any(|flow| flow.registered_rate.is_some());
    let mut columns = vec![
        ("flow", left),
        ("class", left),
        ("worker", right),
        ("packets", right),
        ("rate/s", right),
    ];
    columns.extend(has_rates.then_some(("registered/s", right)));
    columns.extend([("told by", left), ("filter", left)]);
    let mut table = Table::new(&columns);
    for flow in &flows.flows {
        table.row(row(flow, has_rates));
    }
    table
}

fn row(flow: &FlowStatus, has_rates: bool) -> Vec<String> {
    let FlowStatus { name, class, origin, packets, rate, .. } = flow.clone();
    let queues: Vec<String> = flow.queues.iter().map(u32::to_string).collect();
    let filters = match flow.filters.len() {
        0 => "none".into(),
        _ => flow.filters.join("; "),
    };
    let mut cells = vec![name, class, queues.join(" "), counted(packets), counted(rate)];
    cells.extend(has_rates.then(|| counted(flow.registered_rate)));
    cells.extend([origin, filters]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(flows: &Flows) -> String {
        let mut out = Vec::new();
        write(&mut out, flows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn flows_in_words() {
        let flow = FlowStatus {
            name: "udp 10.0.0.2:5 -> 10.0.0.1:7".into(),
            class: "gold".into(),
            origin: "traffic".into(),
            queues: vec![1],
            filters: vec!["udp4, l4.dst = 7".into()],
            packets: Some(12_345),
            rate: Some(1000),
            ..FlowStatus::default()
        };
        let spread = FlowStatus {
            name: "service:echo".into(),
            class: "default".into(),
            origin: "service".into(),
            queues: vec![0, 1],
            ..FlowStatus::default()
        };
        let flows = Flows {
            uptime_ns: 1_500_000_000,
            total: 5,
            flows: vec![flow, spread],
            unplaced: 2,
            searches: 3,
            slowest_ns: 1_250_000,
            ..Flows::default()
        };
        let expected = "\
up 1.5 s, 5 flows
3 searches, the longest took 1.2 ms
2 flows were seen for which the policy has no place

flow                          class    worker  packets  rate/s  told by  filter
udp 10.0.0.2:5 -> 10.0.0.1:7  gold          1   12,345   1,000  traffic  udp4, l4.dst = 7
service:echo                  default     0 1        -       -  service  none
and 3 more
";
        assert_eq!(text(&flows), expected);
    }

    #[test]
    fn registered_rates_and_requests_for_searches_are_shown_where_there_are_some() {
        let flow = |name: &str, registered_rate| FlowStatus {
            name: name.into(),
            class: "default".into(),
            origin: "application".into(),
            queues: vec![0],
            registered_rate,
            ..FlowStatus::default()
        };
        let flows = Flows {
            uptime_ns: 1_500_000_000,
            total: 2,
            flows: vec![flow("kv: udp dst port 7", Some(50_000)), flow("kv: udp dst port 8", None)],
            searches: 3,
            asked_for: 2,
            too_soon: 1,
            ..Flows::default()
        };
        let expected = "\
up 1.5 s, 2 flows
3 searches, the longest took 0.0 ms
applications asked for 2 of them, and 1 times too soon

flow                class    worker  packets  rate/s  registered/s  told by      filter
kv: udp dst port 7  default       0        -       -        50,000  application  none
kv: udp dst port 8  default       0        -       -             -  application  none
";
        assert_eq!(text(&flows), expected);
    }

    #[test]
    fn a_stack_without_a_policy_says_so() {
        assert!(text(&Flows::default()).contains("--policy"));
    }
}
