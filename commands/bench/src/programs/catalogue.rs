//! The programs: how each is started, what clients ask, and what it answers.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::rig::{HOST, PORT, Rig};
use crate::tcp::{ANY, Exchange};

/// Octets of keys and of values.
const KEY: usize = 64;
const VALUE: usize = 64;
/// How long a program may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer is whole when nothing has followed for so long.
const QUIET: Duration = Duration::from_millis(100);

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    /// memcached's datagrams.
    MemcachedUdp,
    /// memcached's connections.
    MemcachedTcp,
    /// nginx.
    Nginx,
    /// redis-server.
    Redis,
    /// One call on a ready socket.
    Shim,
}

/// A server of connections.
pub(super) struct Program {
    pub(super) part: Only,
    /// Its command.
    pub(super) name: &'static str,
    /// Its name among the keys.
    pub(super) key: &'static str,
    /// Its name in the rows.
    pub(super) what: &'static str,
    /// The command that starts it, with its files in a folder.
    pub(super) command: fn(&Folder) -> Result<Vec<String>, BenchError>,
    /// A request that has to come first, and the beginning of its answer.
    before: Option<Ask>,
    /// The request, and the beginning of its answer.
    ask: Ask,
}

/// A request, and how its answer begins.
type Ask = (fn() -> String, &'static str);

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        part: Only::Nginx,
        name: "nginx",
        key: "nginx",
        what: "nginx",
        command: nginx,
        before: None,
        ask: (|| "GET / HTTP/1.1\r\nHost: weever\r\n\r\n".into(), "HTTP/1.1 200"),
    },
    Program {
        part: Only::Redis,
        name: "redis-server",
        key: "redis",
        what: "redis",
        command: redis,
        before: Some((|| resp(&["SET", &"k".repeat(KEY), &"v".repeat(VALUE)]), "+OK")),
        ask: (|| resp(&["GET", &"k".repeat(KEY)]), "$64\r\nvvvv"),
    },
    Program {
        part: Only::MemcachedTcp,
        name: "memcached",
        key: "memcached_tcp",
        what: "memcached by TCP",
        command: |_| Ok(memcached(["-p", &PORT.to_string(), "-U", "0"])),
        before: Some((set, "STORED")),
        ask: (|| format!("get {}\r\n", "k".repeat(KEY)), "VALUE k"),
    },
];

/// memcached for datagrams.
pub(super) fn datagrams() -> Vec<String> {
    memcached(["-p", "0", "-U", &PORT.to_string()])
}

fn memcached(ports: [&str; 4]) -> Vec<String> {
    ["memcached", "-u", "root", "-t", "1"].iter().chain(&ports).map(ToString::to_string).collect()
}

fn set() -> String {
    format!("set {} 0 0 {VALUE}\r\n{}\r\n", "k".repeat(KEY), "v".repeat(VALUE))
}

/// A command in redis' protocol.
fn resp(words: &[&str]) -> String {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>())
}

fn redis(folder: &Folder) -> Result<Vec<String>, BenchError> {
    let (port, folder) = (PORT.to_string(), folder.0.display().to_string());
    let words = [
        "redis-server",
        "--port",
        &port,
        "--bind",
        "0.0.0.0",
        "--protected-mode",
        "no",
        "--save",
        "",
        "--appendonly",
        "no",
        "--loglevel",
        "warning",
        "--dir",
        &folder,
    ];
    Ok(words.map(str::to_owned).into())
}

fn nginx(folder: &Folder) -> Result<Vec<String>, BenchError> {
    let (path, body) = (folder.0.display(), "w".repeat(VALUE));
    let text = format!(
        "daemon off; worker_processes 1; user root; pid {path}/pid; error_log {path}/errors crit;
         events {{ worker_connections 1024; }}
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600;
           client_body_temp_path {path}/1; proxy_temp_path {path}/2; fastcgi_temp_path {path}/3;
           uwsgi_temp_path {path}/4; scgi_temp_path {path}/5;
           server {{ listen {PORT}; location / {{ return 200 {body}; }} }} }}"
    );
    let config = folder.0.join("nginx.conf");
    fs::write(&config, text).map_err(BenchError::of("nginx"))?;
    Ok(["nginx", "-c", &config.display().to_string()].map(str::to_owned).into())
}

/// A folder for a program's files, which goes with this value.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Folder, BenchError> {
        let path = std::env::temp_dir().join(format!("weever-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(BenchError::of("folder"))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(Path::new(&self.0)));
    }
}

impl Program {
    /// Asks the running program as a client of the kernel's, again until it answers as it should, and returns what
    /// clients are to ask and expect.
    pub(super) fn learn(&self, rig: &Rig) -> Result<Exchange, BenchError> {
        let since = Instant::now();
        rig.fixture.left.run(|| {
            loop {
                match self.ask_once() {
                    Err(_) if since.elapsed() < PATIENCE => {}
                    asked => return asked,
                }
            }
        })
    }

    fn ask_once(&self) -> Result<Exchange, BenchError> {
        let mut stream = connect().map_err(BenchError::of(self.name))?;
        if let Some(before) = self.before {
            self.exchange(&mut stream, before)?;
        }
        let request = self.ask.0().into_bytes();
        let mut response = self.exchange(&mut stream, self.ask)?;
        hide_date(&mut response);
        Ok(Exchange::fixed(request, response))
    }

    fn exchange(
        &self,
        stream: &mut TcpStream,
        (request, begins): Ask,
    ) -> Result<Vec<u8>, BenchError> {
        let failed = BenchError::of(self.name);
        stream.write_all(request().as_bytes()).map_err(&failed)?;
        let (mut answer, since) = (Vec::new(), Instant::now());
        loop {
            let mut more = [0; 4096];
            match stream.read(&mut more) {
                Ok(0) => break,
                Ok(len) => answer.extend_from_slice(&more[..len]),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(failed(error));
                }
                Err(_) if answer.is_empty() && since.elapsed() < PATIENCE => {}
                Err(_) => break,
            }
        }
        if !answer.starts_with(begins.as_bytes()) {
            let answer = String::from_utf8_lossy(&answer).into_owned();
            return Err(BenchError::of(self.name)(format!(
                "it answers {answer:?}, not {begins:?}"
            )));
        }
        Ok(answer)
    }
}

/// A connection to the program, tried until it listens.
fn connect() -> std::io::Result<TcpStream> {
    let since = Instant::now();
    loop {
        match TcpStream::connect_timeout(&(HOST, PORT).into(), QUIET) {
            Ok(stream) => {
                stream.set_read_timeout(Some(QUIET))?;
                return Ok(stream);
            }
            Err(error) if since.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The date of a response is another one later.
fn hide_date(response: &mut [u8]) {
    const NAME: &[u8] = b"\r\nDate: ";
    let Some(at) = response.windows(NAME.len()).position(|part| part == NAME) else { return };
    let value = response[at + NAME.len()..].iter_mut();
    value.take_while(|octet| **octet != b'\r').for_each(|octet| *octet = ANY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_date_is_hidden() {
        let mut response = *b"HTTP/1.1 200 OK\r\nDate: now\r\nServer: x\r\n\r\n";
        hide_date(&mut response);
        assert_eq!(&response, b"HTTP/1.1 200 OK\r\nDate: \0\0\0\r\nServer: x\r\n\r\n");
        assert_eq!(resp(&["GET", "key"]), "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    }
}
