//! One client.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weever_service_api::{ApiError, ErrorKind, Handler, LineError, LineReader, Response, answer};

/// A client that has asked nothing for so long is sent away.
const IDLE: Duration = Duration::from_secs(60);
/// A client that does not read its answers for so long, too.
const SLOW: Duration = Duration::from_secs(5);

/// Answers one client until it leaves, misbehaves or idles. A message that cannot be understood
/// gets an error and the connection goes on; one without a recognizable end closes it.
pub(super) fn serve(stream: UnixStream, handler: &dyn Handler) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(SLOW))?;
    let writer = stream.try_clone()?;
    let mut reader = LineReader::new(stream);
    loop {
        match reader.next_line() {
            Ok(Some(line)) => answer(handler, line, &writer)?,
            Err(LineError::TooLong) => {
                refuse(&writer, ApiError::too_long())?;
                return drain(reader);
            }
            // Half a message at the end, or an idle client: no answer would be read.
            Ok(None) | Err(_) => return Ok(()),
        }
    }
}

/// Tells a client that the server is full.
pub(super) fn turn_away(stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let error = ApiError::new(
        ErrorKind::Busy,
        "as many clients are connected as the stack serves at once",
        "close a connection and try again",
    );
    refuse(&stream, error)
}

fn refuse(mut writer: &UnixStream, error: ApiError) -> io::Result<()> {
    let mut line = Response::<()>::new(None, Err(error)).encode();
    line.push('\n');
    writer.write_all(line.as_bytes())
}

/// Reads on for a little before closing: closing a socket with unread input can cost the client
/// the answer that explains it.
fn drain(mut reader: LineReader<UnixStream>) -> io::Result<()> {
    let stream = reader.stream();
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut rest = io::Read::take(stream, 64 << 20);
    drop(io::copy(&mut rest, &mut io::sink()));
    Ok(())
}
