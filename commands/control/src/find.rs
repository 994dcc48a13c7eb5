//! Which stack is meant.

use std::path::PathBuf;

use clap::Args;
use weever_service_api::{Client, ClientError, socket};

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
        return Err(CliError::NothingRuns { looked_in: directories.to_vec() });
    }
    let mut alive = Vec::new();
    for path in &sockets {
        match Client::connect(path) {
            Ok(client) => alive.push(client),
            Err(ClientError::NotRunning { .. }) => {}
            // One that may not be used is no answer to "which is the only one".
            Err(e) if sockets.len() == 1 => return Err(e.into()),
            Err(_) => {}
        }
    }
    match (alive.pop(), alive.is_empty()) {
        (None, _) => Err(CliError::OnlyDeadSockets { sockets }),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            alive.push(last);
            Err(CliError::Several { devices: alive.iter().map(device).collect() })
        }
    }
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
