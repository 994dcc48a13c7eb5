//! Which stack is meant.

use std::path::PathBuf;

use clap::Args;
use weever_service_api::{Client, ClientError, Method, socket};

use crate::CliError;

/// Which running stack to ask. Without an option: the only one there is.
#[derive(Args, Clone, Debug, Default)]
pub struct Target {
    /// Ask the stack that listens on this control socket
    #[arg(long, value_name = "PATH", conflicts_with = "dev")]
    pub socket: Option<PathBuf>,
    /// Ask the stack on this device
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
    Err(failure)
}

fn only_one(directories: &[PathBuf]) -> Result<Client, CliError> {
    let sockets = socket::list(directories);
    if sockets.is_empty() {
        return Err(nothing_found(directories));
    }
    let (mut alive, mut unusable) = (Vec::new(), None);
    for path in &sockets {
        match Client::connect(path) {
            Ok(client) => alive.push(client),
            Err(ClientError::NotRunning { .. }) => {}
            Err(e) => drop(unusable.get_or_insert(e)),
        }
    }
    match (alive.pop(), alive.is_empty()) {
        // A stack that may not be asked is not one that does not run.
        (None, _) => Err(unusable.map_or(CliError::OnlyDeadSockets { sockets }, CliError::from)),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            alive.push(last);
            Err(CliError::Several { devices: alive.iter().map(device).collect() })
        }
    }
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

fn device(client: &Client) -> String {
    let stem = client.path().file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

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
