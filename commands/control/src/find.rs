//! The stack that a command asks, and the reasons why a command fails.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use weever_service_api::socket::{self, FoundSocket};
use weever_service_api::{Client, ClientError, Method};

/// The running stack to ask. Without an option: the only one in this network namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// Ask the stack that listens on this control socket
    #[arg(long, value_name = "PATH", conflicts_with = "dev")]
    pub socket: Option<PathBuf>,
    /// Ask the stack on this device, in this network namespace
    #[arg(long, value_name = "DEVICE")]
    pub dev: Option<String>,
}

impl Target {
    /// A connection to the stack.
    ///
    /// # Errors
    /// When it does not run, or it is not clear which one is meant.
    pub fn connect(&self) -> Result<Client, CliError> {
        self.connect_in(&socket::directories())
    }

    /// The stack's answer, over a connection of its own: the stack closes idle ones.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); when the stack refuses, or does not answer.
    pub fn ask<M: Method>(&self, request: &M) -> Result<M::Answer, CliError> {
        Ok(self.connect()?.call(request)?)
    }

    /// The stacks that run beside the one that listens on `path`, with the option that asks each.
    pub(crate) fn others(path: &Path) -> Vec<String> {
        let mut alive = living(socket::list(&socket::directories())).0;
        alive.retain(|(found, _)| found.path != path);
        named(&alive)
    }

    fn connect_in(&self, directories: &[PathBuf]) -> Result<Client, CliError> {
        match (&self.socket, &self.dev) {
            (Some(path), _) => Ok(Client::connect(path)?),
            (None, Some(dev)) => on_device(directories, dev),
            (None, None) => only_one(directories),
        }
    }
}

fn on_device(directories: &[PathBuf], dev: &str) -> Result<Client, CliError> {
    let mut failure = CliError::NothingRuns { looked_in: directories.to_vec() };
    for directory in directories {
        match Client::connect(socket::in_directory(directory, dev)) {
            Ok(client) => return Ok(client),
            Err(e @ ClientError::NotRunning { .. }) => failure = e.into(),
            Err(e) => return Err(e.into()),
        }
    }
    let mut elsewhere = living(socket::list(directories)).0;
    elsewhere.retain(|(found, _)| found.device == dev);
    if elsewhere.is_empty() { Err(failure) } else { Err(CliError::Elsewhere(named(&elsewhere))) }
}

fn only_one(directories: &[PathBuf]) -> Result<Client, CliError> {
    let sockets = socket::list(directories);
    if sockets.is_empty() {
        return Err(nothing_found(directories));
    }
    let paths = sockets.iter().map(|found| found.path.clone()).collect();
    let (alive, unusable) = living(sockets);
    let (mut here, elsewhere): (Vec<_>, Vec<_>) =
        alive.into_iter().partition(|(found, _)| found.is_here());
    match here.len() {
        // A stack that may not be asked may still run.
        0 => Err(match (unusable, elsewhere.is_empty()) {
            (Some(unusable), _) => unusable.into(),
            (None, true) => CliError::OnlyDeadSockets { sockets: paths },
            (None, false) => CliError::Elsewhere(named(&elsewhere)),
        }),
        1 => Ok(here.remove(0).1),
        _ => {
            let devices = here.into_iter().map(|(found, _)| found.device).collect();
            Err(CliError::Several { devices })
        }
    }
}

/// The stacks that accept connections, and the error of the first socket here that exists but does not.
fn living(sockets: Vec<FoundSocket>) -> (Vec<(FoundSocket, Client)>, Option<ClientError>) {
    let (mut alive, mut unusable) = (Vec::new(), None);
    for found in sockets {
        match Client::connect(&found.path) {
            Ok(client) => alive.push((found, client)),
            Err(ClientError::NotRunning { .. }) => {}
            Err(e) if found.is_here() => drop(unusable.get_or_insert(e)),
            Err(_) => {}
        }
    }
    (alive, unusable)
}

/// Stacks with the option that asks each.
fn named(stacks: &[(FoundSocket, Client)]) -> Vec<String> {
    let name = |(found, _): &(FoundSocket, Client)| match found.namespace {
        _ if found.is_here() => format!("{} (--dev {})", found.device, found.device),
        None => format!("{} (--socket {})", found.device, found.path.display()),
        Some(number) => {
            let (device, path) = (&found.device, found.path.display());
            format!("{device} in network namespace {number} (--socket {path})")
        }
    };
    stacks.iter().map(name).collect()
}

/// Why no socket was found: there is none, or a directory may not be read.
fn nothing_found(directories: &[PathBuf]) -> CliError {
    for directory in directories {
        match std::fs::read_dir(directory) {
            Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                return CliError::Unreadable { directory: directory.clone(), source };
            }
            _ => {}
        }
    }
    CliError::NothingRuns { looked_in: directories.to_vec() }
}

/// Why a control command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// No stack was found.
    #[error(
        "no stack is running: no control socket in {}\nstart one with `weever up --dev DEVICE --addr ADDRESS`, or name its socket with --socket",
        joined(looked_in)
    )]
    NothingRuns {
        /// The directories that were searched.
        looked_in: Vec<PathBuf>,
    },
    /// A directory of control sockets may not be read.
    #[error(
        "cannot look for control sockets in {}: {source}\nonly the user who started a stack, and root, may ask it: try `sudo weever`",
        directory.display()
    )]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// Only sockets of stacks that were killed were found.
    #[error(
        "no stack is running: nobody answers on {}\nstart one with `weever up --dev DEVICE --addr ADDRESS`",
        joined(sockets)
    )]
    OnlyDeadSockets {
        /// The sockets.
        sockets: Vec<PathBuf>,
    },
    /// Stacks run, but none in the network namespace of the command.
    #[error("no stack is running in this network namespace, but elsewhere: {}", .0.join(", "))]
    Elsewhere(
        /// These stacks, with the option that asks each.
        Vec<String>,
    ),
    /// Several stacks run, and no option says which is meant.
    #[error("several stacks are running: choose one with --dev {}", devices.join(" or --dev "))]
    Several {
        /// Their devices.
        devices: Vec<String>,
    },
    /// The stack could not be asked.
    #[error("{0}{hint}", hint = hint(.0))]
    Client(#[from] ClientError),
    /// The answer could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(" or ")
}

fn hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::NotRunning { .. } => {
            "\nstart a stack with `weever up`, or name another one's socket with --socket or --dev"
        }
        ClientError::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "\nonly the user who started the stack, and root, may ask it: try `sudo weever`"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory that is removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("weever-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Directory(path)
        }

        fn listen(&self, device: &str) -> UnixListener {
            UnixListener::bind(socket::in_directory(&self.0, device)).unwrap()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn find(directory: &Path, dev: Option<&str>) -> Result<Client, CliError> {
        let target = Target { socket: None, dev: dev.map(str::to_owned) };
        target.connect_in(&["/nonexistent".into(), directory.to_owned()])
    }

    #[test]
    fn nothing_runs() {
        let directory = Directory::new("nothing");
        let error = find(&directory.0, None).unwrap_err().to_string();
        assert!(error.contains("/nonexistent") && error.contains("weever up"), "{error}");
        let error = find(&directory.0, Some("eth7")).unwrap_err().to_string();
        assert!(error.contains("eth7.sock") && error.contains("weever up"), "{error}");
        drop(directory.listen("dead"));
        let error = find(&directory.0, None).unwrap_err().to_string();
        assert!(error.contains("dead.sock"), "{error}");
    }

    /// Root may use every socket, so one that nobody may use is made of a path that is too long.
    #[test]
    fn a_stack_that_cannot_be_asked_is_not_one_that_does_not_run() {
        let directory = Directory::new("unusable");
        drop(directory.listen("dead"));
        std::fs::write(socket::in_directory(&directory.0, &"x".repeat(120)), "").unwrap();
        let error = find(&directory.0, None).unwrap_err();
        assert!(matches!(error, CliError::Client(ClientError::Connect { .. })), "{error}");
        assert!(error.to_string().contains("xxx.sock"), "{error}");
    }

    #[test]
    fn the_only_living_one_is_found_and_of_several_one_must_be_named() {
        let directory = Directory::new("several");
        drop(directory.listen("dead"));
        let _first = directory.listen("eth0");
        assert!(find(&directory.0, None).unwrap().path().ends_with("eth0.sock"));
        let _second = directory.listen("eth1");
        let error = find(&directory.0, None).unwrap_err().to_string();
        assert!(error.contains("--dev eth0 or --dev eth1"), "{error}");
        assert!(find(&directory.0, Some("eth1")).unwrap().path().ends_with("eth1.sock"));
        let path = socket::in_directory(&directory.0, "eth0");
        let target = Target { socket: Some(path.clone()), dev: None };
        assert_eq!(target.connect().unwrap().path(), path);
    }
}
