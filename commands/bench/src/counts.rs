//! Instructions for one packet alone, beside those of a fixed commit: figures that know no phases of the machine.
//!
//! callgrind runs this program once more with a scenario of `weever bench instructions`. Without valgrind, and
//! for a build without optimisation, there are no figures, and the report says so.

use std::io::ErrorKind;
use std::process::Command;

use crate::{BenchError, Report, Samples};

/// Each key with its scenario and the instructions for a packet at `ee84f82`, with the scenarios put in.
const BEFORE: [(&str, &str, f64); 2] =
    [("graph_instructions", "receive-1", 6487.0), ("echo_instructions", "echo-1", 10_473.0)];
/// The function that callgrind counts, by a pattern that any mangling of its name matches.
const COUNTED: &str = "*instructions*counted*";

/// Adds the ratios to a report, or the reason why there are none.
pub(crate) fn add_to(report: &mut Report) -> Result<(), BenchError> {
    if cfg!(debug_assertions) {
        report.setup("instructions: not counted, for this build is without optimisation");
        return Ok(());
    }
    for (key, scenario, before) in BEFORE {
        match count(scenario)? {
            Some(now) => {
                report.row(&format!("{scenario}, instructions"), "per packet", &Samples(vec![now]));
                report.ratio(key, "ratio", &Samples(vec![now / before]));
            }
            None => {
                report.setup("instructions: not counted, for valgrind is not installed");
                return Ok(());
            }
        }
    }
    report.setup("graph_instructions, echo_instructions: one packet alone, against ee84f82");
    Ok(())
}

/// Instructions for a packet of a scenario, about ten seconds long; `None` without valgrind.
fn count(scenario: &str) -> Result<Option<f64>, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::of("this program"))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(program)
        .args(["bench", "instructions", scenario]);
    let output = match valgrind.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BenchError::of("valgrind")(error)),
    };
    let (said, log) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let per_packet = per_packet(&said, &log).filter(|_| output.status.success());
    let wrong = || BenchError::of("valgrind")(format!("it counted nothing in {scenario}: {log}"));
    per_packet.map(Some).ok_or_else(wrong)
}

/// From what a scenario says, its packets, and callgrind's last line, the instructions.
fn per_packet(said: &str, log: &str) -> Option<f64> {
    let packets: f64 = said.split_whitespace().next()?.parse().ok()?;
    let (_, collected) = log.lines().find_map(|line| line.split_once("Collected :"))?;
    let instructions: f64 = collected.trim().parse().ok()?;
    (packets > 0.0 && instructions > 0.0).then(|| instructions / packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_divided_by_the_packets_and_missing_ones_are_seen() {
        let log = "==7== Events    : Ir\n==7== Collected : 40960\n";
        assert_eq!(per_packet("4096 packet\n", log), Some(10.0));
        assert_eq!(per_packet("4096 packet\n", "==7== Collected : 0\n"), None);
        assert_eq!(per_packet("", log), None);
        assert_eq!(per_packet("0 packet", log), None);
    }

    #[test]
    fn a_build_without_optimisation_is_not_counted() {
        let mut report = Report::new("engine");
        add_to(&mut report).unwrap();
        if cfg!(debug_assertions) {
            assert!(report.ratios.is_empty() && report.setup[0].contains("not counted"));
        }
    }
}
