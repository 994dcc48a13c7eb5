//! The secret of stable interface identifiers (RFC 7217 §5), which outlives the process: the same
//! network sees the same address after every start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::config::Config;

const FILE: &str = "secret";
/// Its length, in hexadecimal digits.
const LEN: usize = 32;

/// The state directory that systemd names, or the usual one.
pub(in crate::stack) fn usual_directory() -> PathBuf {
    let told = std::env::var_os("STATE_DIRECTORY");
    told.map_or_else(|| PathBuf::from("/var/lib/weever"), PathBuf::from)
}

/// The secret of this host, made at the first call. `None` if no directory is configured: addresses
/// are then made from the link address. If it cannot be stored, one for this run only.
pub(in crate::stack) fn of(config: &Config) -> Option<[u64; 2]> {
    let directory = config.state.as_deref()?;
    if !config.interfaces.iter().any(|interface| interface.has_v6()) {
        return fresh().ok();
    }
    match kept(directory) {
        Ok(secret) => Some(secret),
        Err(error) => {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "addresses will be others after the next start");
            fresh().ok()
        }
    }
}

fn kept(directory: &Path) -> io::Result<[u64; 2]> {
    let path = directory.join(FILE);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            keep(directory, &path, fresh()?)?;
            // Another stack may have been first.
            parse(&fs::read_to_string(&path)?)
        }
        text => parse(&text?),
    }
}

fn parse(text: &str) -> io::Result<[u64; 2]> {
    let bits =
        u128::from_str_radix(text.trim_end(), 16).ok().filter(|_| text.trim_end().len() == LEN);
    let problem = "the file `secret` has no 32 hexadecimal digits; remove it to get another one";
    let bits = bits.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    Ok([(bits >> 64) as u64, bits as u64])
}

/// Writes the file whole or not at all; an existing one is never replaced.
fn keep(directory: &Path, path: &Path, [high, low]: [u64; 2]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let unfinished = directory.join(format!("{FILE}.{}", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let written = writeln!(file, "{high:016x}{low:016x}").and_then(|()| file.sync_all());
    let linked = written.and_then(|()| fs::hard_link(&unfinished, path));
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn fresh() -> io::Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    let mut source = File::open("/dev/urandom")?;
    bytes.iter_mut().try_for_each(|bytes| source.read_exact(bytes))?;
    Ok(bytes.map(u64::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weever-secret-{name}-{}", std::process::id()))
    }

    #[test]
    fn it_is_made_once_and_kept_for_its_owner() {
        let directory = directory("kept");
        let mut config = Config::new("eth0", "2001:db8::1/64".parse().unwrap());
        assert_eq!(of(&config), None);
        config.state = Some(directory.clone());
        let first = of(&config).unwrap();
        assert_eq!(of(&config), Some(first));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(directory.join(FILE)).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
        assert_ne!(of(&config), Some(first));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_damaged_file_is_left_alone_and_named() {
        let directory = directory("damaged");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(FILE), "not a secret\n").unwrap();
        assert!(kept(&directory).unwrap_err().to_string().contains("remove it"));
        let mut config = Config::new("eth0", "2001:db8::1/64".parse().unwrap());
        config.state = Some(directory.clone());
        assert_ne!(of(&config), of(&config));
        assert_eq!(fs::read_to_string(directory.join(FILE)).unwrap(), "not a secret\n");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn without_ipv6_nothing_is_written() {
        let directory = directory("unused");
        let mut config = Config::new("eth0", "10.0.0.1/24".parse().unwrap());
        config.state = Some(directory.clone());
        assert!(of(&config).is_some() && !directory.exists());
    }
}
