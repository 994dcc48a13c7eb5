//! `weever up`, and its last lines.

use std::io::{self, Write};
use std::process::ExitCode;

use weever_daemon::{Report, UpArgs};

use super::Failure;

pub(super) fn run(args: &UpArgs) -> Result<ExitCode, Failure> {
    let report = args.run(&mut io::stdout().lock())?;
    let mut out = io::stdout().lock();
    // There may be nobody left to read it.
    drop(describe(&mut out, &report, args.counters));
    match report.failure {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::Ended(why)),
    }
}

fn describe(out: &mut dyn Write, report: &Report, with_counters: bool) -> io::Result<()> {
    let (received, sent, dropped) = report.totals();
    writeln!(
        out,
        "weever has stopped: {received} packets received, {sent} sent, {dropped} dropped"
    )?;
    if with_counters {
        weever_commands_control::write_counters(out, &report.counters)?;
    }
    out.flush()
}
