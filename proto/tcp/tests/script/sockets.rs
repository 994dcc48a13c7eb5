//! System calls of scripts.

use std::net::SocketAddr;

use weever_tcp::{
    ConnectError, Failure, Id, KeepAlive, ListenerConfig, ListenerId, Settings, State,
};

use super::parse::Call;
use super::run::Run;

/// The object behind a descriptor of a script.
pub(crate) enum Socket {
    Fresh,
    Listening(ListenerId),
    Connection(Id),
}

type Outcome = Result<i64, &'static str>;

impl Run {
    /// Does a call and compares its result with the script's.
    pub(crate) fn call(&mut self, call: &Call) -> Result<(), String> {
        let got = match call.name.as_str() {
            "socket" => Ok(self.descriptor(Socket::Fresh)),
            "bind" | "fcntl" => Ok(0),
            "listen" => self.listen(call)?,
            "accept" => self.accept(call)?,
            "connect" => self.connect(call)?,
            "write" | "send" => self.write(call)?,
            "sendto" => self.send_to(call)?,
            "read" | "recv" => self.read(call)?,
            "close" => self.close(call)?,
            "shutdown" => self.shutdown(call)?,
            "setsockopt" => self.set_option(call)?,
            other => return Err(format!("`{other}` is no call that is understood here")),
        };
        let want = match call.errno.as_deref() {
            Some(errno) => Err(errno),
            None => Ok(call.result),
        };
        match got == want {
            true => Ok(()),
            false => Err(format!("{} gave {got:?}, not {want:?}", call.name)),
        }
    }

    /// The lowest free descriptor from 3 on, as a process has it that opened nothing else.
    fn descriptor(&mut self, socket: Socket) -> i64 {
        let free = (3..).find(|number| !self.sockets.contains_key(number)).unwrap_or(3);
        self.sockets.insert(free, socket);
        free
    }

    fn argument<'c>(&self, call: &'c Call, at: usize) -> Result<&'c str, String> {
        call.arguments.get(at).map(String::as_str).ok_or(format!("{} lacks an argument", call.name))
    }

    fn number(&self, call: &Call, at: usize) -> Result<i64, String> {
        let text = self.argument(call, at)?;
        text.trim_matches(['[', ']']).parse().map_err(|_| format!("`{text}` is no number"))
    }

    fn id(&self, call: &Call) -> Result<Option<Id>, String> {
        match self.sockets.get(&self.number(call, 0)?) {
            Some(Socket::Connection(id)) => Ok(Some(*id)),
            Some(_) => Ok(None),
            None => Err(format!("{}: there is no such descriptor", call.name)),
        }
    }

    fn listen(&mut self, call: &Call) -> Result<Outcome, String> {
        let (number, backlog) = (self.number(call, 0)?, self.number(call, 1)?);
        let accept_queue = usize::try_from(backlog).unwrap_or(0).max(1);
        let config = ListenerConfig { accept_queue, ..ListenerConfig::new(self.local_port) };
        let listener = self.endpoint.listen(config).map_err(|error| error.to_string())?;
        self.sockets.insert(number, Socket::Listening(listener));
        Ok(Ok(0))
    }

    fn accept(&mut self, call: &Call) -> Result<Outcome, String> {
        let number = self.number(call, 0)?;
        let Some(Socket::Listening(listener)) = self.sockets.get(&number) else {
            return Ok(Err("EINVAL"));
        };
        match self.endpoint.accept(*listener) {
            Some(id) => Ok(Ok(self.descriptor(Socket::Connection(id)))),
            None => Ok(Err("EAGAIN")),
        }
    }

    fn connect(&mut self, call: &Call) -> Result<Outcome, String> {
        let number = self.number(call, 0)?;
        if let Some(Socket::Connection(id)) = self.sockets.get(&number) {
            let connection = self.endpoint.get(*id);
            return Ok(match connection.map(|it| (it.state(), it.failure())) {
                Some((State::SynSent | State::SynReceived, _)) => Err("EALREADY"),
                Some((State::Closed, Some(failure))) => Err(errno(failure)),
                Some(_) => Err("EISCONN"),
                None => Err("EBADF"),
            });
        }
        let from = SocketAddr::new(Self::local(), 0);
        match self.endpoint.connect(from, Self::remote(), self.now) {
            Ok(id) => {
                self.sockets.insert(number, Socket::Connection(id));
                Ok(Err("EINPROGRESS"))
            }
            Err(ConnectError::PortsExhausted | ConnectError::InUse) => Ok(Err("EADDRNOTAVAIL")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// With `MSG_FASTOPEN`: connects, and writes before the SYN is sent.
    fn send_to(&mut self, call: &Call) -> Result<Outcome, String> {
        if !self.argument(call, 3)?.contains("MSG_FASTOPEN") {
            return Err("sendto connects, with MSG_FASTOPEN".to_owned());
        }
        let number = self.number(call, 0)?;
        if !matches!(self.sockets.get(&number), Some(Socket::Fresh)) {
            return Ok(Err("EISCONN"));
        }
        let from = SocketAddr::new(Self::local(), 0);
        let id = self.endpoint.connect(from, Self::remote(), self.now);
        let id = id.map_err(|error| error.to_string())?;
        self.sockets.insert(number, Socket::Connection(id));
        self.endpoint.set_fast_open(id, self.now);
        self.write(call)
    }

    fn write(&mut self, call: &Call) -> Result<Outcome, String> {
        let Some(id) = self.id(call)? else { return Ok(Err("ENOTCONN")) };
        let octets = u64::try_from(self.number(call, 2)?).unwrap_or(0);
        let flags = if call.name == "write" { "0" } else { self.argument(call, 3)? };
        let Some(connection) = self.endpoint.get(id) else { return Ok(Err("EBADF")) };
        if let Some(failure) = connection.failure() {
            return Ok(Err(errno(failure)));
        }
        let settings = connection.settings();
        if flags.contains("MSG_MORE") {
            self.endpoint.set(id, Settings { cork: true, ..settings }, self.now);
        }
        let taken = match flags.contains("MSG_OOB") {
            true => self.endpoint.queue_urgent(id, octets, self.now),
            false => self.endpoint.queue(id, octets, self.now),
        };
        // A send without MSG_MORE releases the data held back.
        if settings.cork && flags == "0" && call.name == "send" {
            self.endpoint.set(id, Settings { cork: false, ..settings }, self.now);
        }
        Ok(if taken == 0 && octets > 0 { Err("EPIPE") } else { Ok(taken as i64) })
    }

    fn read(&mut self, call: &Call) -> Result<Outcome, String> {
        let Some(id) = self.id(call)? else { return Ok(Err("ENOTCONN")) };
        let most = u64::try_from(self.number(call, 2)?).unwrap_or(0);
        let Some(connection) = self.endpoint.get(id) else { return Ok(Err("EBADF")) };
        let readable = connection.readable();
        let len = (readable.end - readable.start).min(most);
        if len == 0 {
            return Ok(match connection.failure() {
                Some(failure) => Err(errno(failure)),
                None if connection.is_finished() => Ok(0),
                None => Err("EAGAIN"),
            });
        }
        self.endpoint.consume(id, len, self.now);
        Ok(Ok(len as i64))
    }

    fn close(&mut self, call: &Call) -> Result<Outcome, String> {
        let number = self.number(call, 0)?;
        Ok(match self.sockets.remove(&number) {
            Some(Socket::Connection(id)) => {
                self.endpoint.close(id, self.now);
                Ok(0)
            }
            Some(Socket::Listening(listener)) => {
                self.endpoint.stop_listening(listener, self.now);
                Ok(0)
            }
            Some(Socket::Fresh) => Ok(0),
            None => Err("EBADF"),
        })
    }

    fn shutdown(&mut self, call: &Call) -> Result<Outcome, String> {
        let Some(id) = self.id(call)? else { return Ok(Err("ENOTCONN")) };
        match self.argument(call, 1)? {
            "SHUT_WR" | "SHUT_RDWR" => self.endpoint.shutdown(id, self.now),
            other => return Err(format!("shutdown: `{other}`: SHUT_WR or SHUT_RDWR")),
        }
        Ok(Ok(0))
    }

    fn set_option(&mut self, call: &Call) -> Result<Outcome, String> {
        const SECOND: u64 = 1_000_000_000;
        let name = self.argument(call, 2)?;
        if name == "SO_REUSEADDR" {
            return Ok(Ok(0));
        }
        if let (Some(Socket::Listening(listener)), "TCP_FASTOPEN") =
            (self.sockets.get(&self.number(call, 0)?), name)
        {
            let pending = u32::try_from(self.number(call, 3)?).unwrap_or(0);
            self.endpoint.set_listener_fast_open(*listener, pending);
            return Ok(Ok(0));
        }
        let Some(id) = self.id(call)? else {
            return Err("options are set on connections here, TCP_FASTOPEN on listeners".into());
        };
        if name == "SO_LINGER" {
            // `{onoff=1, linger=0}`: close() aborts then.
            self.endpoint.abort(id, self.now);
            return Ok(Ok(0));
        }
        let value = self.number(call, 3)?;
        let Some(connection) = self.endpoint.get(id) else { return Ok(Err("EBADF")) };
        let mut settings = connection.settings();
        let mut keep_alive = settings.keep_alive.unwrap_or_default();
        let amount = u64::try_from(value).unwrap_or(0);
        match name {
            "TCP_NODELAY" => settings.no_delay = value != 0,
            "TCP_CORK" => settings.cork = value != 0,
            "TCP_USER_TIMEOUT" => settings.user_timeout = amount * 1_000_000,
            "SO_KEEPALIVE" => settings.keep_alive = (value != 0).then(KeepAlive::default),
            "TCP_KEEPIDLE" => keep_alive.idle = amount * SECOND,
            "TCP_KEEPINTVL" => keep_alive.interval = amount * SECOND,
            "TCP_KEEPCNT" => keep_alive.probes = amount as u8,
            other => return Err(format!("`{other}` is no option that is understood here")),
        }
        if name.starts_with("TCP_KEEP") {
            settings.keep_alive = Some(keep_alive);
        }
        self.endpoint.set(id, settings, self.now);
        Ok(Ok(0))
    }
}

fn errno(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "ECONNREFUSED",
        Failure::Reset => "ECONNRESET",
        Failure::TimedOut => "ETIMEDOUT",
        Failure::Unreachable => "EHOSTUNREACH",
        _ => "ECONNABORTED",
    }
}
