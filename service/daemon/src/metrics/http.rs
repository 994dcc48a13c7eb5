//! As much of HTTP/1.1 (RFC 9112) as a scraper needs: one request, one answer, and the end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The most bytes of a request that are read.
const LONGEST: usize = 8 << 10;
/// The longest time for a request to come, and for its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// The content type that Prometheus asks for, and gets.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request.
///
/// # Errors
/// When the client is gone, or too slow.
pub(super) fn serve(stream: &TcpStream, page: impl FnOnce() -> String) -> io::Result<()> {
    let (status, format, body) = match read(stream)? {
        Wanted::Page => ("200 OK", FORMAT, page()),
        Wanted::OtherPath => ("404 Not Found", PLAIN, "ask for /metrics\n".into()),
        Wanted::OtherMethod => ("405 Method Not Allowed", PLAIN, "use GET\n".into()),
        Wanted::Nonsense => ("400 Bad Request", PLAIN, "this is no HTTP request\n".into()),
        Wanted::TooLong => {
            ("431 Request Header Fields Too Large", PLAIN, "the request is too long\n".into())
        }
        Wanted::Nothing => return Ok(()),
    };
    write(stream, answer(status, format, &body).as_bytes(), PATIENCE)
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// Tells a client that the server is full.
pub(super) fn turn_away(stream: &TcpStream) {
    // It must not block the accepting thread.
    drop(stream.set_nonblocking(true));
    let answer = answer("503 Service Unavailable", PLAIN, "too many clients\n");
    drop((&*stream).write(answer.as_bytes()).and_then(|_| stream.shutdown(Shutdown::Write)));
}

fn answer(status: &str, format: &str, body: &str) -> String {
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {format}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Writes an answer within this time in all, however slowly it is read: a client that takes a byte
/// now and then would renew a time limit of each write for ever.
fn write(mut stream: &TcpStream, mut answer: &[u8], patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    while !answer.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(answer)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => answer = &answer[n..],
        }
    }
    stream.shutdown(Shutdown::Write)
}

/// The remaining time, never zero: zero would mean no limit.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

enum Wanted {
    Page,
    OtherPath,
    OtherMethod,
    Nonsense,
    TooLong,
    /// The client left without a word.
    Nothing,
}

/// Reads a request's head within this time in all, however slowly it comes.
fn read(mut stream: &TcpStream) -> io::Result<Wanted> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !ends(&head) {
        if head.len() > LONGEST {
            return Ok(Wanted::TooLong);
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut piece)? {
            0 if head.is_empty() => return Ok(Wanted::Nothing),
            0 => return Ok(Wanted::Nonsense),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    Ok(wanted(&head))
}

fn ends(head: &[u8]) -> bool {
    head.windows(4).any(|w| w == b"\r\n\r\n") || head.windows(2).any(|w| w == b"\n\n")
}

fn wanted(head: &[u8]) -> Wanted {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Wanted::Nonsense };
    let mut words = line.trim_end().split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some(version), None) if version.starts_with("HTTP/1.") => {
            let path = target.split('?').next().unwrap_or_default();
            match (method, path) {
                ("GET", "/metrics") => Wanted::Page,
                ("GET", _) => Wanted::OtherPath,
                _ => Wanted::OtherMethod,
            }
        }
        _ => Wanted::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A reader that takes a little now and then, within the time limit of each write.
    #[test]
    fn a_slow_reader_does_not_hold_a_connection_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let sips = std::thread::spawn(move || {
            let (mut sip, mut all) = (vec![0; 64 << 10], 0);
            while let Ok(n @ 1..) = reader.read(&mut sip) {
                all += n;
                std::thread::sleep(Duration::from_millis(10));
            }
            all
        });
        let answer = vec![0; 64 << 20];
        write(&stream, &answer, Duration::from_millis(300)).unwrap_err();
        drop(stream);
        assert!(sips.join().unwrap() < answer.len());
    }
}
