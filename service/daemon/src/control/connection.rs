//! One client.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weever_service_api::{
    ApiError, Call, ErrorKind, LineError, LineReader, Reply, Request, Response, Stopping,
    decode_request,
};

use super::{Source, capture};

/// A client that has asked nothing for so long is sent away.
const IDLE: Duration = Duration::from_secs(60);
/// A client that does not read its answers for so long, too.
const SLOW: Duration = Duration::from_secs(5);

/// Answers one client until it leaves, misbehaves or idles. A message that cannot be understood
/// gets an error and the connection goes on; one whose end cannot be found ends it.
pub(super) fn serve(stream: UnixStream, source: &dyn Source) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(SLOW))?;
    let mut writer = stream.try_clone()?;
    let mut reader = LineReader::new(stream);
    loop {
        let request = match reader.next_line() {
            Ok(Some(line)) => decode_request(line),
            Err(LineError::TooLong) => {
                send(&mut writer, &Response::<Reply>::new(None, Err(ApiError::too_long())))?;
                return drain(reader);
            }
            // Half a message at the end, or an idle client: there is nobody to tell.
            Ok(None) | Err(_) => return Ok(()),
        };
        match request {
            Ok(Request { id, call: Call::Capture(wanted), .. }) => match source.capture(&wanted) {
                Ok(capturing) => {
                    let socket = writer.try_clone()?;
                    capture::serve(&mut writer, &socket, id, &wanted, capturing)?;
                }
                Err(error) => {
                    send(&mut writer, &Response::<Reply>::new(Some(id), Err(error)))?;
                }
            },
            Ok(request) => answer(&mut writer, source, request)?,
            Err(rejection) => {
                let refusal = Response::<Reply>::new(rejection.id, Err(rejection.error));
                send(&mut writer, &refusal)?;
            }
        }
    }
}

/// Tells a client that there is no room for it.
pub(super) fn turn_away(mut stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let error = ApiError::new(
        ErrorKind::Busy,
        "as many clients are connected as the stack serves at once",
        "close a connection and try again",
    );
    send(&mut stream, &Response::<Reply>::new(None, Err(error)))
}

fn answer(writer: &mut UnixStream, source: &dyn Source, request: Request) -> io::Result<()> {
    let stops = request.call == Call::Stop;
    let result = match request.call {
        Call::Counters => Ok(Reply::Counters(source.counters())),
        Call::Status => Ok(Reply::Status(Box::new(source.status()))),
        Call::Flows { most } => Ok(Reply::Flows(source.flows(most))),
        Call::Queues { filters } => Ok(Reply::Queues(source.queues(filters))),
        Call::Stop => Ok(Reply::Stopping(Stopping { pid: std::process::id() })),
        Call::Apply { name, text } => source.apply(&name, &text).map(Reply::Changed),
        Call::Set(request) => source.set(&request.assignments()).map(Reply::Changed),
        Call::Graph(wanted) => source.graph(&wanted).map(Reply::Graph),
        _ => Err(ApiError::new(
            ErrorKind::UnknownMethod,
            "the method is not implemented here",
            "use a client of the stack's own release",
        )),
    };
    let sent = send(writer, &Response::new(Some(request.id), result));
    if stops {
        source.stop();
    }
    sent
}

pub(super) fn send(writer: &mut UnixStream, response: &Response<Reply>) -> io::Result<()> {
    let mut line = response.encode();
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
