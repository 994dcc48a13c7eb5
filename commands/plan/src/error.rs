//! Errors that keep a plan from being made.

use std::process::ExitCode;

use weever_policy::Problems;

use crate::Format;

/// The formats to use instead.
fn either(formats: &[Format; 2]) -> String {
    let [one, other] = formats;
    format!("`--format {one}` or `--format {other}`")
}

/// Why there is no plan. A policy that cannot be satisfied is none of these: it has a plan, which
/// says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanToolError {
    /// The device of `--nic auto` cannot be read.
    #[error(transparent)]
    Device(#[from] weever_device::ethtool::EthtoolError),
    /// The format cannot show the requested part.
    #[error("`--format {format}` has no room for what `{option}` asks for; use {}", either(.formats))]
    Misfit {
        /// The asking option.
        option: &'static str,
        /// The format that was asked for.
        format: Format,
        /// Those that would do.
        formats: [Format; 2],
    },
    /// A part of the plan is asked for, and the graph of a queue instead of the plan.
    #[error(
        "`--graph` shows a graph instead of the plan, and `{option}` belongs to the plan; ask for one of them"
    )]
    NoPlanShown {
        /// The option that asks for a part of the plan.
        option: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {source}; is the path right, and may you read it?")]
    Read {
        /// The path as given.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file is too long.
    #[error("{file} is longer than {most} MiB; is the path right?")]
    TooLong {
        /// The path as given.
        file: String,
        /// The limit.
        most: u64,
    },
    /// A file is not UTF-8.
    #[error("{file} is not UTF-8 text: byte {at} cannot be decoded")]
    NotText {
        /// The path as given.
        file: String,
        /// The first byte that is wrong.
        at: usize,
    },
    /// There is neither a model nor a file of the name.
    #[error("{0}; or name a Unicorn file")]
    NoModel(weever_models::NicModelError),
    /// The model's text is wrong.
    #[error("{file} is no model:\n{errors}")]
    Model {
        /// The path as given.
        file: String,
        /// The mistakes, each in its place.
        errors: weever_unicorn::Errors,
    },
    /// The host's graph cannot be made; a bug of its model.
    #[error("the host's graph: {reason}")]
    Host {
        /// The mistake.
        reason: String,
    },
    /// There is no graph behind a queue that gets nothing.
    #[error("nothing arrives at queue {queue}; there are graphs of queues {known}")]
    NoArrivals {
        /// The queue that was asked for.
        queue: u32,
        /// Those at which something arrives.
        known: String,
    },
    /// The model is no NIC.
    #[error("{file}: {source}")]
    Nic {
        /// The model.
        file: String,
        /// Why not.
        source: weever_plan::nic::NicError,
    },
    /// Flows cannot be read.
    #[error("{file}: {count} of {all} flows cannot be read:\n{problems}\n{help}")]
    Flows {
        /// The path as given.
        file: String,
        /// How many mistakes there are.
        count: usize,
        /// How many flows there would be.
        all: usize,
        /// The mistakes.
        problems: Problems,
        /// The remedy.
        help: &'static str,
    },
    /// The policy is wrong.
    #[error("{file}: the policy is wrong:\n{problems}")]
    Policy {
        /// The path as given.
        file: String,
        /// The mistakes.
        problems: Problems,
    },
    /// The hash's key is wrong.
    #[error("`{text}` is no key: {}", key_help(*bytes))]
    Key {
        /// The given text.
        text: String,
        /// How many bytes the NIC's key has.
        bytes: u32,
    },
    /// The picture would show nothing.
    #[error(
        "a picture of {filters} filters shows nothing, {most} is the most; use `--format text`"
    )]
    TooLarge {
        /// How many there are.
        filters: usize,
        /// The limit.
        most: usize,
    },
    /// The picture cannot be drawn.
    #[error("the plan does not fit the model: {0}")]
    Picture(weever_graph::ConfigError),
    /// The result cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// Where to.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl PlanToolError {
    /// The exit status for such errors: 2.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

fn key_help(bytes: u32) -> String {
    match bytes {
        0 => "the model's hash has no key; leave out --rss-key".into(),
        _ => format!("write {bytes} bytes in hexadecimal, with or without colons"),
    }
}
