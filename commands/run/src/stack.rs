//! The stack of a program: one that serves applications, or one inside the program.

use std::ffi::OsStr;
use std::path::PathBuf;

use weever_app_sockets::{Error, Process, QueueConfig};

use crate::library;

/// How the name of a stack inside begins, as applications that bring their stack along know it.
const INSIDE: &str = "library:";

/// Where a program's stack is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// In a process that serves applications (`weever up --apps`)
    #[default]
    Daemon,
    /// Inside the program
    Inside,
}

/// The options that name a stack.
#[derive(clap::Args, Clone, Debug)]
pub struct StackArgs {
    /// The stack's socket; by default the value of WEEVER_APPS, or /run/weever/apps.sock
    #[arg(long, value_name = "PATH")]
    pub apps: Option<PathBuf>,
    /// Where the stack is: a process that serves applications (the default), or inside the program, which then must
    /// be one process
    #[arg(long, value_enum, value_name = "WHERE")]
    pub stack: Option<Where>,
    /// The device of a stack inside
    #[arg(long, value_name = "DEVICE")]
    pub dev: Option<String>,
    /// An address of a stack inside, with the length of its prefix; any number of times
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    pub addr: Vec<String>,
    /// The default router of a stack inside, at most one of each family
    #[arg(long, value_name = "ADDRESS")]
    pub via: Vec<String>,
}

impl StackArgs {
    /// Whether an option says which stack.
    pub(crate) fn names_a_stack(&self) -> bool {
        let names = self.apps.is_some() || self.stack.is_some() || self.dev.is_some();
        names || !self.addr.is_empty() || !self.via.is_empty()
    }
}

/// Options that name no stack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The stack inside lacks a device or an address.
    #[error(
        "--stack inside needs a device of its own and an address: add --dev eth0 --addr 192.0.2.10/24, or set \
         WEEVER_APPS=library:dev=eth0,addr=192.0.2.10/24"
    )]
    Incomplete,
    /// An option is for a stack inside.
    #[error("{0} is for a stack inside the program: add --stack inside, or leave it out")]
    OnlyInside(&'static str),
    /// A stack in another process has no place beside one inside.
    #[error("--apps names a stack in another process: leave it or --stack inside out")]
    Both,
    /// A value would be read as several.
    #[error("{0:?}: a device or an address has no comma")]
    Comma(String),
}

/// A stack by its name in `WEEVER_APPS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    name: PathBuf,
}

impl Stack {
    /// The stack that the options name, or the environment.
    pub(crate) fn of(args: &StackArgs) -> Result<Stack, StackError> {
        let named = QueueConfig::default().path;
        if args.stack == Some(Where::Inside) {
            if args.apps.is_some() {
                return Err(StackError::Both);
            }
            let is_named = named.to_str().is_some_and(|name| name.starts_with(INSIDE));
            return match &args.dev {
                None if args.addr.is_empty() && is_named => Ok(Stack { name: named }),
                Some(dev) if !args.addr.is_empty() => inside(dev, &args.addr, &args.via),
                _ => Err(StackError::Incomplete),
            };
        }
        let strays = [
            ("--dev", args.dev.is_some()),
            ("--addr", !args.addr.is_empty()),
            ("--via", !args.via.is_empty()),
        ];
        if let Some((stray, _)) = strays.into_iter().find(|(_, is_there)| *is_there) {
            return Err(StackError::OnlyInside(stray));
        }
        Ok(Stack { name: args.apps.clone().unwrap_or(named) })
    }

    pub(crate) fn name(&self) -> &OsStr {
        self.name.as_os_str()
    }

    fn is_inside(&self) -> bool {
        self.name.to_str().is_some_and(|name| name.starts_with(INSIDE))
    }

    /// An error if it serves no applications. One inside starts with the program's first socket.
    pub(crate) fn is_there(&self) -> Result<(), Error> {
        if self.is_inside() {
            return Ok(());
        }
        let config = QueueConfig { path: self.name.clone(), ..QueueConfig::default() };
        Process::connect(&config).map(drop)
    }

    /// The library that programs on it need.
    pub(crate) fn library(&self) -> &'static str {
        if self.is_inside() { library::INSIDE } else { library::PRELOAD }
    }
}

fn inside(dev: &str, addresses: &[String], routers: &[String]) -> Result<Stack, StackError> {
    let all = || std::iter::once(dev).chain(addresses.iter().chain(routers).map(String::as_str));
    if let Some(bad) = all().find(|value| value.contains(',')) {
        return Err(StackError::Comma(bad.into()));
    }
    let mut name = format!("{INSIDE}dev={dev}");
    addresses.iter().for_each(|address| name.push_str(&format!(",addr={address}")));
    routers.iter().for_each(|router| name.push_str(&format!(",via={router}")));
    Ok(Stack { name: name.into() })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: StackArgs,
    }

    fn of(words: &str) -> Result<Stack, String> {
        let words = std::iter::once("run").chain(words.split(' '));
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Stack::of(&line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn a_stack_inside_is_named_by_its_device_and_addresses() {
        let stack =
            of("--stack inside --dev e0 --addr 10.0.0.1/24 --addr fd00::1/64 --via 10.0.0.2")
                .unwrap();
        assert_eq!(stack.name(), "library:dev=e0,addr=10.0.0.1/24,addr=fd00::1/64,via=10.0.0.2");
        assert_eq!(stack.library(), "libweever_inside.so");
        let daemon = of("--apps /run/x.sock").unwrap();
        assert_eq!(
            (daemon.name(), daemon.library()),
            (OsStr::new("/run/x.sock"), "libweever_preload.so")
        );
    }

    #[test]
    fn options_that_name_no_stack_say_what_is_missing() {
        for (words, part) in [
            ("--stack inside --dev e0", "--addr 192.0.2.10/24"),
            ("--stack inside --addr 10.0.0.1/24", "--dev eth0"),
            ("--stack inside --apps /x --dev e0 --addr 10.0.0.1/24", "--apps"),
            ("--stack inside --dev e0,addr=1 --addr 10.0.0.1/24", "no comma"),
            ("--dev e0", "--dev is for a stack inside"),
            ("--stack elsewhere", "elsewhere"),
        ] {
            let error = of(words).unwrap_err();
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
