//! Applications.

use weever_tcp::{Endpoint, Events, Failure, Id, Region};

/// The actions of an application on its connection.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Octets to send.
    pub(crate) send: u64,
    /// Octets in one call.
    pub(crate) write: u64,
    /// Octets to be received before the connection is closed.
    pub(crate) expect: u64,
    /// Which octets they are: the peer's job has the same.
    pub(crate) pattern: u8,
    /// Octets read at once, and nanoseconds between reads.
    pub(crate) read: u64,
    pub(crate) pause: u64,
    /// FIN follows the sent octets.
    pub(crate) close: bool,
    pub(crate) no_delay: bool,
    pub(crate) region: usize,
}

impl Job {
    pub(crate) fn new(send: u64, expect: u64) -> Self {
        Self {
            send,
            write: u64::MAX,
            expect,
            pattern: 1,
            read: u64::MAX,
            pause: 0,
            close: true,
            no_delay: false,
            region: 1 << 20,
        }
    }
}

fn octet(offset: u64, pattern: u8) -> u8 {
    let mixed = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed as u8 ^ (offset as u8).wrapping_mul(pattern)
}

/// An application's end of a connection.
pub(crate) struct Stream {
    pub(crate) id: Id,
    job: Job,
    pub(crate) send: Region,
    pub(crate) receive: Region,
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) events: Events,
    pub(crate) finished: bool,
    pub(crate) shut: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) gone: bool,
    next_read: u64,
}

impl Stream {
    pub(crate) fn new(id: Id, job: Job) -> Self {
        let (send, receive) = (Region::new(job.region), Region::new(4 << 20));
        Self {
            id,
            job,
            send,
            receive,
            written: 0,
            read: 0,
            events: Events::default(),
            finished: false,
            shut: false,
            failure: None,
            gone: false,
            next_read: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.failure.is_some()
            || (self.read >= self.job.expect
                && self.written >= self.job.send
                && (!self.job.close || (self.shut && self.finished)))
    }

    pub(crate) fn next_read(&self) -> Option<u64> {
        (self.next_read > 0).then_some(self.next_read)
    }

    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: u64) {
        let Some(connection) = endpoint.get(self.id) else {
            self.gone = true;
            return;
        };
        if connection.failure().is_some() {
            self.failure = connection.failure();
        }
        if self.job.no_delay && !connection.settings().no_delay {
            let settings = weever_tcp::Settings { no_delay: true, ..connection.settings() };
            endpoint.set(self.id, settings, now);
        }
        if self.events.has(Events::CRAMPED) {
            let connection = endpoint.get(self.id).unwrap();
            endpoint.enlarge_receive(self.id, connection.wanted_receive(), now);
            self.events = Events::default();
        }
        while self.read_some(endpoint, now) && self.job.pause == 0 {}
        self.write_some(endpoint, now);
    }

    /// Whether anything was read.
    fn read_some(&mut self, endpoint: &mut Endpoint, now: u64) -> bool {
        let connection = endpoint.get(self.id).unwrap();
        let readable = connection.readable();
        assert_eq!(readable.start, self.read);
        self.finished |= connection.is_finished();
        if now < self.next_read {
            return false;
        }
        self.next_read = 0;
        if readable.is_empty() {
            return false;
        }
        let len = (readable.end - readable.start).min(self.job.read);
        let (first, second) = self.receive.slices(self.read..self.read + len);
        for (at, got) in (self.read..).zip(first.iter().chain(second)) {
            assert_eq!(*got, octet(at, self.job.pattern), "octet {at} differs from the sent one");
        }
        self.read += len;
        assert!(self.read <= self.job.expect, "no more is received than was sent");
        if self.job.pause > 0 {
            self.next_read = now + self.job.pause;
        }
        endpoint.consume(self.id, len, now);
        self.finished |= endpoint.get(self.id).unwrap().is_finished();
        if self.finished {
            self.next_read = 0;
        }
        true
    }

    fn write_some(&mut self, endpoint: &mut Endpoint, now: u64) {
        loop {
            let connection = endpoint.get(self.id).unwrap();
            let free = self.send.capacity() as u64 - (self.written - connection.acknowledged());
            let len = (self.job.send - self.written).min(free).min(self.job.write);
            if len == 0 {
                break;
            }
            let octets: Vec<u8> =
                (self.written..self.written + len).map(|at| octet(at, self.job.pattern)).collect();
            self.send.write(self.written, &octets);
            let taken = endpoint.queue(self.id, len, now);
            self.written += taken;
            if taken < len {
                break;
            }
        }
        // CLOSE before the connection is established would give it up (RFC 9293 §3.10.4).
        let open = endpoint.get(self.id).unwrap().state() != weever_tcp::State::SynSent;
        if self.job.close && self.written == self.job.send && !self.shut && open {
            self.shut = true;
            endpoint.shutdown(self.id, now);
        }
    }
}
