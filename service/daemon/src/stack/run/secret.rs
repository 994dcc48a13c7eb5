//! Secrets that outlive the process: that of stable interface identifiers (RFC 7217 §5), by which the same network sees
//! the same address after every start, and that of applications' credentials.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use weever_net::random::Secret;

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
    match kept(&directory.join(FILE), Readers::Any) {
        Ok(secret) => Some(secret),
        Err(error) => {
            let directory = directory.display();
            tracing::warn!(%directory, %error, "addresses will be others after the next start");
            fresh().ok()
        }
    }
}

/// The secret of the credentials of applications that are served at `path`, made at the first call; beside their
/// socket, since it is of the programs that run now.
pub(in crate::stack) fn of_applications(path: &Path) -> io::Result<Secret> {
    if let Some(folder) = path.parent() {
        // It is the socket's, which others may have to reach.
        fs::create_dir_all(folder)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".key");
    Ok(Secret::new(kept(Path::new(&name), Readers::Owner)?))
}

/// Who may have access to a secret's file.
#[derive(Clone, Copy)]
enum Readers {
    /// Whom the administrator gives it to.
    Any,
    /// The stack's user and root alone.
    Owner,
}

/// The secret of a file, which is made if it is not there.
fn kept(path: &Path, readers: Readers) -> io::Result<[u64; 2]> {
    let read = || match readers {
        Readers::Any => fs::read_to_string(path),
        Readers::Owner => read_own(path),
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            keep(path, fresh()?)?;
            // Another stack may have been first.
            parse(path, &read()?)
        }
        text => parse(path, &text?),
    }
}

/// The text of a file that nobody else can have read or written: in a folder that others may write to, such as `/tmp`,
/// somebody else may have left a secret that he knows.
fn read_own(path: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !about.is_file() || about.mode() & 0o077 != 0 || ![0, own].contains(&about.uid()) {
        let path = path.display();
        let problem =
            format!("{path} can be read or written by others; remove it to get another secret");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn parse(path: &Path, text: &str) -> io::Result<[u64; 2]> {
    let bits =
        u128::from_str_radix(text.trim_end(), 16).ok().filter(|_| text.trim_end().len() == LEN);
    let path = path.display();
    let problem =
        format!("{path} has no {LEN} hexadecimal digits; remove it to get another secret");
    let bits = bits.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    Ok([(bits >> 64) as u64, bits as u64])
}

/// Writes the file whole or not at all; an existing one is never replaced.
fn keep(path: &Path, [high, low]: [u64; 2]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let unfinished = path.with_added_extension(std::process::id().to_string());
    // One that another process has left is not written to: it may be a link, or somebody's.
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
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
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        let mode = fs::metadata(directory.join(FILE)).unwrap().mode();
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
        let file = directory.join(FILE);
        let told = kept(&file, Readers::Any).unwrap_err().to_string();
        assert!(told.contains("hexadecimal"), "{told}");
        let mut config = Config::new("eth0", "2001:db8::1/64".parse().unwrap());
        config.state = Some(directory.clone());
        assert_ne!(of(&config), of(&config));
        assert_eq!(fs::read_to_string(directory.join(FILE)).unwrap(), "not a secret\n");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn addresses_stay_with_a_file_that_others_may_read() {
        let directory = directory("readable");
        let mut config = Config::new("eth0", "2001:db8::1/64".parse().unwrap());
        config.state = Some(directory.clone());
        let first = of(&config);
        let file = directory.join(FILE);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(of(&config), first);
        fs::rename(&file, directory.join("another")).unwrap();
        symlink(directory.join("another"), &file).unwrap();
        assert_eq!(of(&config), first);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn one_that_somebody_else_could_have_left_is_not_used() {
        let directory = directory("planted");
        let apps = directory.join("apps.sock");
        let first = of_applications(&apps).unwrap();
        assert_eq!(of_applications(&apps).unwrap(), first, "programs come back with it");
        let key = directory.join("apps.sock.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let told = of_applications(&apps).unwrap_err().to_string();
        assert!(told.contains("by others"), "{told}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&key, directory.join("another")).unwrap();
        symlink(directory.join("another"), &key).unwrap();
        assert!(of_applications(&apps).is_err(), "a link may lead anywhere");
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
