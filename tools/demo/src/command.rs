//! The command line of `weever demo`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weever_service_api::{Client, GraphFormat};

use crate::error::DemoError;
use crate::outcome::Outcome;
use crate::stage::{PORT, Stage};
use crate::{exercises, in_memory, layers, on_kernel};

/// Arguments of `weever demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Use a memory link and smoltcp even where AF_XDP and the kernel could be had
    #[arg(long)]
    memory: bool,
    /// How many datagrams to verify
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    datagrams: u64,
    /// Where to write the picture of the graph
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

/// Sets up a stack and a peer, tries the stack out and prints what happened. Fails when any check
/// did.
pub fn run(args: &DemoArgs) -> ExitCode {
    let outcome = match demonstrate(args) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("weever demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    let text = if args.json { outcome.to_json() + "\n" } else { outcome.to_string() };
    // A reader that has seen enough (`weever demo | head`) is no failure.
    drop(std::io::stdout().write_all(text.as_bytes()));
    if outcome.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn demonstrate(args: &DemoArgs) -> Result<Outcome, DemoError> {
    // Of this process alone, so that demonstrations run side by side.
    let control = std::env::temp_dir().join(format!("weever-demo-{}.sock", std::process::id()));
    let stage = match args.memory || !weever_testbed::privileged() {
        true => in_memory::stage(&control)?,
        false => on_kernel::stage(&control)?,
    };
    let outcome = perform(args, stage, &control);
    drop(std::fs::remove_file(&control));
    outcome
}

fn perform(
    args: &DemoArgs,
    mut stage: Stage,
    control: &std::path::Path,
) -> Result<Outcome, DemoError> {
    let mut client = Client::connect(control)?;
    let mut outcome = Outcome { setup: stage.setup.clone(), ..Outcome::default() };
    outcome.setup.push(format!("{} tries the stack out", stage.peer.name()));
    let peer = stage.peer.as_mut();
    exercises::ping(peer, &mut outcome)?;
    exercises::every_length(peer, &mut outcome)?;
    exercises::stream(peer, args.datagrams, &mut outcome)?;
    let before = layers::drops(&client.counters()?);
    exercises::bad_frames(peer, PORT, &mut || client.counters(), &mut outcome)?;
    let counters = client.counters()?;
    let sent = exercises::BAD_FRAMES;
    outcome.compare(
        "drops while bad frames came, all told",
        sent,
        layers::drops(&counters) - before,
    );
    outcome.layers = layers::layers(&counters);
    outcome.dot = Some(write_dot(args, &client.graph(GraphFormat::Dot)?.text)?);
    let report = stage.stack.stop();
    let failure = report.failure.map_or_else(|| "none".to_owned(), |f| f.to_string());
    outcome.compare("failed workers", "none", &failure);
    Ok(outcome)
}

fn write_dot(args: &DemoArgs, text: &str) -> Result<String, DemoError> {
    let default = || std::env::temp_dir().join("weever-demo.dot");
    let path = args.dot.clone().unwrap_or_else(default);
    let shown = path.display().to_string();
    std::fs::write(&path, text)
        .map_err(|source| DemoError::Write { path: shown.clone(), source })?;
    Ok(shown)
}
