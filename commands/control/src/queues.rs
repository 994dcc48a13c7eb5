//! `weever queues`, and `weever queue set`.

use std::io::{self, Write};

use clap::{Args, Subcommand};
use weever_service_api::{Assignment, QueueStatus, Queues, QueuesRequest};

use crate::set::SetArgs;
use crate::table::{Align, Table, counted, grouped, per_second, span};
use crate::watch::Repeated;
use crate::{CliError, Target};

/// Shows the traffic of each worker of a running stack: packets, classes, filters and their hits.
#[derive(Args, Clone, Debug, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct QueuesArgs {
    #[command(subcommand)]
    change: Option<Change>,
    #[command(flatten)]
    repeated: Repeated,
    /// Also show filters of each worker, the busiest first: at most this many, up to 2000
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    filters: usize,
}

#[derive(Subcommand, Clone, Debug)]
enum Change {
    Set(SetQueueArgs),
}

/// Changes settings of a device's queues while packets flow: short for `weever set queue.DEVICE.…`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  weever queue set eth0 threads=2")]
struct SetQueueArgs {
    /// The device
    #[arg(value_name = "DEVICE")]
    queues_of: String,
    /// `threads`: how many workers receive together from each queue, 1 to the number of workers; `ordered`: on or off,
    /// whether they send in the order of reception
    #[arg(required = true, value_name = "SETTING=VALUE")]
    assignments: Vec<Assignment>,
    #[command(flatten)]
    target: Target,
}

impl SetQueueArgs {
    /// The same as `weever set` takes it.
    fn in_full(&self) -> SetArgs {
        let mut assignments = self.assignments.clone();
        for one in &mut assignments {
            one.path = format!("queue.{}.{}", self.queues_of, one.path);
        }
        SetArgs { assignments, target: self.target.clone() }
    }
}

impl QueuesArgs {
    /// Asks and prints; with `--watch` until the stack ends, which is then an error.
    ///
    /// # Errors
    /// When the stack cannot be asked, or refuses a change, or `out` cannot be written.
    pub fn run(&self, out: &mut dyn Write) -> Result<(), CliError> {
        if let Some(Change::Set(args)) = &self.change {
            return args.in_full().run(out);
        }
        self.repeated.run(out, &QueuesRequest { filters: self.filters }, write)
    }
}

fn write(out: &mut dyn Write, now: &Queues, earlier: Option<&Queues>) -> io::Result<()> {
    writeln!(out, "up {}\n", span(now.uptime_ns))?;
    let (left, right) = (Align::Left, Align::Right);
    let mut columns = vec![
        ("link", left),
        ("worker", right),
        ("core", right),
        ("threads", right),
        ("received", right),
        ("sent", right),
        ("dropped", right),
        ("share", right),
        ("nodes", right),
        ("filters", right),
    ];
    let has_rates = has_rates(now);
    columns.extend(has_rates.then_some(("registered/s", right)));
    columns.extend(keeps_order(now).then_some(("order lost", right)));
    if earlier.is_some() {
        columns.extend([("rx/s", right), ("tx/s", right), ("sleeps/s", right)]);
    }
    columns.push(("classes", left));
    let mut table = Table::new(&columns);
    for queue in &now.queues {
        table.row(row(now, earlier, queue));
    }
    table.write(out)?;
    let mut shown = now.queues.iter().filter(|queue| !queue.filters.is_empty());
    shown.try_for_each(|queue| filters(out, queue))?;
    if !now.problems.is_empty() {
        writeln!(out)?;
    }
    now.problems.iter().try_for_each(|problem| writeln!(out, "problem: {problem}"))
}

/// Whether flows were registered with rates.
fn has_rates(now: &Queues) -> bool {
    now.queues.iter().any(|queue| queue.registered_rate.is_some())
}

/// Whether workers that share queues keep order.
fn keeps_order(now: &Queues) -> bool {
    now.queues.iter().any(|queue| queue.order_given_up.is_some())
}

fn same<'a>(of: &'a Queues, queue: &QueueStatus) -> Option<&'a QueueStatus> {
    of.queues.iter().find(|q| q.link == queue.link && q.queue == queue.queue)
}

fn row(now: &Queues, earlier: Option<&Queues>, queue: &QueueStatus) -> Vec<String> {
    let before = |queue: &QueueStatus| earlier.and_then(|earlier| same(earlier, queue));
    let fresh = |queue: &QueueStatus| {
        queue.received.saturating_sub(before(queue).map_or(0, |before| before.received))
    };
    let of_link = now.queues.iter().filter(|other| other.link == queue.link);
    let all: u64 = of_link.map(fresh).sum();
    let share = 100.0 * fresh(queue) as f64 / all.max(1) as f64;
    let mut cells = vec![
        queue.link.clone(),
        queue.queue.to_string(),
        queue.core.map_or_else(|| "any".into(), |core| core.to_string()),
        queue.threads.map_or_else(|| "-".into(), |threads| threads.to_string()),
        grouped(queue.received),
        grouped(queue.sent),
        grouped(queue.dropped),
        format!("{share:.0} %"),
        nodes(queue),
        grouped(queue.filters_total),
    ];
    cells.extend(has_rates(now).then(|| counted(queue.registered_rate)));
    cells.extend(keeps_order(now).then(|| counted(queue.order_given_up)));
    if let Some(earlier) = earlier {
        let time = now.uptime_ns.saturating_sub(earlier.uptime_ns);
        let rate = |of: fn(&QueueStatus) -> u64| {
            let before = before(queue).map_or(0, of);
            grouped(per_second(of(queue).saturating_sub(before), time))
        };
        cells.extend([rate(|q| q.received), rate(|q| q.sent), rate(|q| q.sleeps)]);
    }
    cells.push(classes(queue));
    cells
}

/// The part of the graph that its worker runs.
fn nodes(queue: &QueueStatus) -> String {
    match queue.nodes == queue.nodes_of_all {
        true => queue.nodes.to_string(),
        false => format!("{} of {}", queue.nodes, queue.nodes_of_all),
    }
}

fn classes(queue: &QueueStatus) -> String {
    let classes = queue.classes.iter().map(|class| format!("{} {}", class.name, class.flows));
    let applications = queue.applications.iter().map(|name| format!("application {name}"));
    let all = classes.chain(applications).chain(queue.other.then(|| "other".into()));
    all.collect::<Vec<_>>().join(", ")
}

fn filters(out: &mut dyn Write, queue: &QueueStatus) -> io::Result<()> {
    writeln!(out, "\nworker {} on {}", queue.queue, queue.link)?;
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[("filter", left), ("hits", right), ("for", left)]);
    for filter in &queue.filters {
        let flow = filter.flow.clone().unwrap_or_else(|| "nobody any more".into());
        table.row([filter.filter.clone(), counted(filter.hits), flow]);
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weever_service_api::{ClassShare, FilterStatus};

    use super::*;

    fn queues(uptime_ns: u64, received: u64) -> Queues {
        let gold = ClassShare { name: "gold".into(), flows: 3 };
        let filter = FilterStatus { filter: "udp4".into(), flow: None, hits: Some(70) };
        let queue = |queue| QueueStatus {
            link: "eth0".into(),
            queue,
            core: Some(1),
            threads: Some(2),
            received: received * u64::from(queue + 1),
            nodes: 127,
            nodes_of_all: 127,
            other: queue == 0,
            ..QueueStatus::default()
        };
        let steered = QueueStatus {
            threads: None,
            nodes: 60,
            classes: vec![gold],
            filters: vec![filter],
            filters_total: 9,
            ..queue(1)
        };
        Queues { uptime_ns, queues: vec![queue(0), steered], problems: Vec::new() }
    }

    fn text(now: &Queues, earlier: Option<&Queues>) -> String {
        let mut out = Vec::new();
        write(&mut out, now, earlier).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn queues_in_words() {
        let expected = "\
up 1.0 s

link  worker  core  threads  received  sent  dropped  share      nodes  filters  classes
eth0       0     1        2     1,000     0        0   33 %        127        0  other
eth0       1     1        -     2,000     0        0   67 %  60 of 127        9  gold 3

worker 1 on eth0
filter  hits  for
udp4      70  nobody any more
";
        let mut queues = queues(1_000_000_000, 1000);
        assert_eq!(text(&queues, None), expected);
        queues.queues[1].filters[0].hits = None;
        queues.problems = vec!["eth0: cannot take a rule".into()];
        let expected = expected.replace("  70  ", "   -  ");
        assert_eq!(text(&queues, None), format!("{expected}\nproblem: eth0: cannot take a rule\n"));
    }

    #[test]
    fn settings_of_a_device_are_short_for_paths() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: QueuesArgs,
        }
        let parsed = |words: &[&str]| Line::try_parse_from([&["queues"], words].concat());
        let line = parsed(&["set", "eth0", "threads=2", "--dev", "eth1"]).unwrap();
        let Some(Change::Set(set)) = line.args.change else { panic!("it is a change") };
        let SetArgs { assignments, target } = set.in_full();
        assert_eq!(assignments, ["queue.eth0.threads=2".parse().unwrap()]);
        assert_eq!(target.dev.as_deref(), Some("eth1"));
        for words in [&["set", "eth0"][..], &["set", "eth0", "threads"], &["--filters", "2", "set"]]
        {
            assert!(parsed(words).is_err(), "{words:?}");
        }
        assert!(parsed(&["--filters", "2"]).unwrap().args.change.is_none());
    }

    #[test]
    fn lost_order_is_a_column_where_order_is_kept() {
        let mut queues = queues(1_000_000_000, 1000);
        assert!(!text(&queues, None).contains("order"));
        queues.queues[0].order_given_up = Some(1_234);
        let text = text(&queues, None);
        let cells: Vec<_> =
            text.lines().skip(2).take(3).map(|line| line.split_whitespace()).collect();
        assert!(cells[0].clone().any(|cell| cell == "order"), "{text}");
        assert!(cells[1].clone().any(|cell| cell == "1,234"), "{text}");
    }

    #[test]
    fn the_rates_of_registered_flows_are_a_column_where_there_are_some() {
        let mut queues = queues(1_000_000_000, 1000);
        queues.queues[1].registered_rate = Some(50_000);
        queues.queues[1].filters.clear();
        let expected = "\
up 1.0 s

link  worker  core  threads  received  sent  dropped  share      nodes  filters  registered/s  classes
eth0       0     1        2     1,000     0        0   33 %        127        0             -  other
eth0       1     1        -     2,000     0        0   67 %  60 of 127        9        50,000  gold 3
";
        assert_eq!(text(&queues, None), expected);
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let (before, now) = (queues(1_000_000_000, 1000), queues(1_500_000_000, 1500));
        let text = text(&now, Some(&before));
        let row = text.lines().find(|line| line.starts_with("eth0       1")).unwrap();
        assert!(row.contains("67 %") && row.contains(" 2,000 "), "{text}");
    }
}
