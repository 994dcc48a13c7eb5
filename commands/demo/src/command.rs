//! The command line of `weever demo`, and the order of its steps.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use weever_service_api::{GraphFormat, GraphRequest};

use crate::outcome::DemoError;
use crate::peer::Over;
use crate::stage::{self, PORT, Stage};
use crate::steps::{BOUND, Finding, Steps};
use crate::{exercises, layers, scenes};

/// Arguments of `weever demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Print the findings as JSON, and progress on standard error
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

/// Sets up a stack and a peer, tries the stack out, and prints each step as it runs. Blocks for
/// about half a minute. Fails when any step did; a step that this machine cannot do is skipped. To
/// be called before other threads are started, since it takes over signals for all of them.
pub fn run(args: &DemoArgs) -> ExitCode {
    // Before anything else: a picture that cannot be written should not cost the whole demo.
    let picture = match Picture::create(args.picture.as_deref()) {
        Ok(picture) => picture,
        Err(error) => {
            // Nobody may read it.
            let _ = writeln!(std::io::stderr(), "weever demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Of this process alone, so that demonstrations run side by side.
    let control = std::env::temp_dir().join(format!("weever-demo-{}.sock", std::process::id()));
    let mut steps = Steps::begin(args.json, control.clone());
    demonstrate(args, &mut steps, &control, picture);
    steps.report()
}

fn demonstrate(args: &DemoArgs, steps: &mut Steps, control: &Path, picture: Picture) {
    let lacks_namespaces = match args.memory {
        true => Some("--memory uses no namespaces".to_owned()),
        false => weever_testbed::Namespace::new().err().map(|error| error.to_string()),
    };
    let Some(reason) = lacks_namespaces else { return with_kernel(args, steps, control, picture) };
    steps.skip("AF_XDP on a veth pair, with the kernel as the peer", &reason);
    steps.say("weever on a memory link, with smoltcp at the other end");
    if let Some(stage) = stage::in_memory(steps, control.to_owned()) {
        perform(args, stage, None, steps, picture);
    }
    steps.skip(scenes::ROUTER, &reason);
    steps.skip(scenes::WORKERS, &reason);
}

fn with_kernel(args: &DemoArgs, steps: &mut Steps, control: &Path, picture: Picture) {
    let lacks_ipv6 = stage::lacks_ipv6();
    steps.say("weever by AF_XDP on one end of a veth pair, the Linux kernel at the other");
    match stage::on_kernel(steps, control.to_owned(), lacks_ipv6.is_none()) {
        Some(stage) => perform(args, stage, lacks_ipv6.as_deref(), steps, picture),
        None => {
            steps.say("without AF_XDP: weever on a memory link, smoltcp at the other end");
            if let Some(stage) = stage::in_memory(steps, control.to_owned()) {
                perform(args, stage, None, steps, picture);
            }
        }
    }
    steps.say(scenes::ROUTER);
    scenes::router(steps, control, lacks_ipv6.as_deref());
    steps.say(scenes::WORKERS);
    scenes::workers(steps, control);
}

/// Everything that two hosts on one link show. `lacks_ipv6` is why there is none.
fn perform(
    args: &DemoArgs,
    stage: Stage,
    lacks_ipv6: Option<&str>,
    steps: &mut Steps,
    picture: Picture,
) {
    let Stage { stack, mut control, mut peer, network } = stage;
    let peer = peer.as_mut();
    for over in Over::ALL {
        match lacks_ipv6.filter(|_| over != Over::V4) {
            None => exercises::over(over, peer, &mut control, steps),
            Some(reason) => steps.skip(over.name(), reason),
        }
    }
    exercises::stream(peer, Over::V4, args.datagrams, steps);
    if lacks_ipv6.is_none() {
        exercises::stream(peer, Over::V6, args.datagrams.div_ceil(5), steps);
    }
    exercises::changes_under_load(peer, &mut control, steps);
    exercises::bad_frames(peer, PORT, &mut control, steps);
    let format = picture.format();
    let path = steps.attempt(BOUND, "a picture of the graph", |_| {
        let path =
            picture.write(&control.ask(|client| client.call(&GraphRequest::from(format)))?.text)?;
        Ok((path.clone(), Finding::ok(path)))
    });
    path.into_iter().for_each(|path| steps.keep_picture(path));
    let counted = steps.attempt(BOUND, "weever stops, and no worker has failed", |_| {
        // Only now are the link's counters final: while it runs they are up to 100 ms old.
        let report = stack.stop();
        let failure = report.failure.map_or_else(|| "none failed".to_owned(), |f| f.to_string());
        Ok((report.counters, Finding::compare("none failed", &failure)))
    });
    counted.into_iter().for_each(|counters| steps.keep_layers(layers::layers(&counters)));
    drop(network);
}

/// The file that the picture of the graph goes to.
struct Picture {
    path: PathBuf,
    /// Of a path that the user wants; one of our own is made when it is written, so that a demo that
    /// ends early leaves nothing behind.
    file: Option<File>,
}

impl Picture {
    fn create(wanted: Option<&Path>) -> Result<Picture, DemoError> {
        let Some(path) = wanted else {
            let name = format!("weever-demo-{}.svg", std::process::id());
            return Ok(Picture { path: std::env::temp_dir().join(name), file: None });
        };
        let file = File::create(path).map_err(|source| failed(path, source))?;
        Ok(Picture { path: path.to_owned(), file: Some(file) })
    }

    /// Writes it and returns its path.
    fn write(self, text: &str) -> Result<String, DemoError> {
        let path = &self.path;
        // A name that can be guessed must not be a link that somebody else has laid.
        let new = || OpenOptions::new().write(true).create_new(true).open(path);
        let written = self.file.map_or_else(new, Ok);
        let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| failed(path, source))?;
        Ok(path.display().to_string())
    }

    fn format(&self) -> GraphFormat {
        match self.path.extension().is_some_and(|ending| ending == "dot") {
            true => GraphFormat::Dot,
            false => GraphFormat::Svg,
        }
    }
}

fn failed(path: &Path, source: std::io::Error) -> DemoError {
    DemoError::Write { path: path.display().to_string(), source }
}
