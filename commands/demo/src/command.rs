//! The command line of `weever demo`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weever_service_api::{Client, GraphFormat};

use crate::error::DemoError;
use crate::outcome::Outcome;
use crate::peer::Over;
use crate::stage::{PORT, Stage};
use crate::{exercises, in_memory, layers, on_kernel, scenes};

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
    /// Where to write the picture of the graph: SVG, or Graphviz's language for FILE.dot; by default
    /// among the temporary files
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
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
    // Before anything else: a picture that cannot be written should not cost the whole table.
    let mut picture = Picture::create(args.picture.as_deref())?;
    // Of this process alone, so that demonstrations run side by side.
    let control = std::env::temp_dir().join(format!("weever-demo-{}.sock", std::process::id()));
    let with_kernel = !args.memory && weever_testbed::privileged();
    let stage = match (args.memory, with_kernel) {
        (true, _) => in_memory::stage(&control, "as you wish")?,
        (false, false) => in_memory::stage(&control, "no privileges for AF_XDP (it needs root)")?,
        (false, true) => on_kernel::stage(&control)?,
    };
    let client = Client::connect(&control);
    // Nobody else is to connect, and if we are interrupted it should not stay.
    drop(std::fs::remove_file(&control));
    let mut outcome = perform(args, stage, client?, &mut picture)?;
    if with_kernel {
        scenes::router(&control, &mut outcome)?;
        scenes::workers(&control, &mut outcome)?;
    }
    Ok(outcome)
}

fn perform(
    args: &DemoArgs,
    mut stage: Stage,
    mut client: Client,
    picture: &mut Picture,
) -> Result<Outcome, DemoError> {
    let mut outcome = Outcome { setup: stage.setup.clone(), ..Outcome::default() };
    outcome.setup.push(format!("{} tries the stack out", stage.peer.name()));
    let peer = stage.peer.as_mut();
    exercises::settle(peer)?;
    for over in Over::ALL {
        exercises::ping(peer, over, &mut outcome)?;
        exercises::every_length(peer, over, &mut outcome)?;
        if peer.sends_long(over) {
            exercises::long(peer, over, &mut || client.counters(), &mut outcome)?;
        }
    }
    exercises::stream(peer, Over::V4, args.datagrams, &mut outcome)?;
    exercises::stream(peer, Over::V6, args.datagrams.div_ceil(5), &mut outcome)?;
    exercises::changes_under_load(peer, &mut client, &mut outcome)?;
    let before = layers::drops(&client.counters()?);
    exercises::bad_frames(peer, PORT, &mut || client.counters(), &mut outcome)?;
    let dropped = layers::drops(&client.counters()?) - before;
    outcome.compare("drops while bad frames came, all told", exercises::BAD_FRAMES, dropped);
    picture.write(&client.graph(picture.format())?.text)?;
    outcome.picture = Some(picture.name());
    let report = stage.stack.stop();
    // Only now are the link's counters final: while it runs they are up to 100 ms old.
    outcome.layers = layers::layers(&report.counters);
    let failure = report.failure.map_or_else(|| "none".to_owned(), |f| f.to_string());
    outcome.compare("failed workers", "none", &failure);
    Ok(outcome)
}

/// The file that the picture of the graph goes to.
struct Picture {
    path: PathBuf,
    file: File,
}

impl Picture {
    /// Makes the file: `wanted`, or a new one among the temporary files.
    fn create(wanted: Option<&Path>) -> Result<Picture, DemoError> {
        let name = format!("weever-demo-{}.svg", std::process::id());
        let path = wanted.map_or_else(|| std::env::temp_dir().join(name), Path::to_owned);
        let mut options = OpenOptions::new();
        options.write(true);
        // A name that can be guessed must not be a link that somebody else has laid.
        match wanted {
            Some(_) => options.create(true).truncate(true),
            None => options.create_new(true),
        };
        match options.open(&path) {
            Ok(file) => Ok(Picture { path, file }),
            Err(source) => Err(failed(&path, source)),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), DemoError> {
        self.file.write_all(text.as_bytes()).map_err(|source| failed(&self.path, source))
    }

    fn format(&self) -> GraphFormat {
        match self.path.extension().is_some_and(|ending| ending == "dot") {
            true => GraphFormat::Dot,
            false => GraphFormat::Svg,
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn failed(path: &Path, source: std::io::Error) -> DemoError {
    DemoError::Write { path: path.display().to_string(), source }
}
