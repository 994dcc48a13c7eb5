//! Scripts in packetdrill's language, on a virtual clock.

mod parse;
mod run;
mod sockets;

/// Runs a script.
pub(crate) fn run(text: &str) -> Result<(), String> {
    let (settings, steps) = parse::parse(text)?;
    let (config, tolerance) = run::config(&settings)?;
    let mut run = run::Run::new(config, tolerance);
    for step in &steps {
        run.step(step).map_err(|why| format!("line {}: {why}", step.line))?;
    }
    run.finish()
}
