//! Our end of a connection, and the octets it sends.

use weever_tcp::{Endpoint, Events, Failure, Id, Region, State};

/// The octet at an offset of any stream.
pub(crate) fn octet(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 ^ at as u8
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// FIN behind the sent data, at once.
    Shut,
    /// FIN once the peer's has come.
    Follow,
    /// RST once all has been received.
    Abort,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) send: u64,
    pub(crate) expect: u64,
    pub(crate) end: End,
}

const REGION: usize = 1 << 20;

pub(crate) struct Stream {
    pub(crate) id: Id,
    job: Job,
    pub(crate) send: Region,
    pub(crate) receive: Region,
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) finished: bool,
    shut: bool,
    pub(crate) failure: Option<Failure>,
}

impl Stream {
    pub(crate) fn new(id: Id, job: Job) -> Self {
        // A megabyte for jobs that move megabytes, little for a thousand small ones.
        let size = (job.send.max(job.expect) as usize).clamp(4096, REGION);
        let (send, receive) = (Region::new(size), Region::new(REGION.min(size.max(65_536) * 2)));
        let (written, read, finished, shut, failure) = (0, 0, false, false, None);
        Self { id, job, send, receive, written, read, finished, shut, failure }
    }

    pub(crate) fn capacity(job: &Job) -> u32 {
        ((job.send.max(job.expect) as usize).clamp(65_536, REGION / 2)) as u32
    }

    /// Handles the events; returns whether it has let go of the connection.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, events: Events, now: u64) -> bool {
        self.take(endpoint, now);
        self.write(endpoint, now);
        let Some(connection) = endpoint.get(self.id) else { return true };
        self.failure = connection.failure();
        self.finished |= connection.is_finished();
        let all = self.written == self.job.send && connection.state() != State::SynSent;
        if all
            && !self.shut
            && (self.job.end == End::Shut || (self.job.end == End::Follow && self.finished))
        {
            self.shut = true;
            endpoint.shutdown(self.id, now);
        }
        if self.job.end == End::Abort && all && self.read == self.job.expect {
            endpoint.abort(self.id, now);
        }
        let acked = endpoint.get(self.id).is_none_or(|it| it.acknowledged() == self.job.send);
        let over = events.has(Events::CLOSED) || (self.shut && self.finished && acked);
        if over {
            endpoint.close(self.id, now);
        }
        over
    }

    fn take(&mut self, endpoint: &mut Endpoint, now: u64) {
        let Some(connection) = endpoint.get(self.id) else { return };
        let readable = connection.readable();
        let (first, second) = self.receive.slices(readable.clone());
        for (at, got) in (self.read..).zip(first.iter().chain(second)) {
            assert!(*got == octet(at), "octet {at} differs from the kernel's");
        }
        let len = readable.end - readable.start;
        self.read += len;
        assert!(self.read <= self.job.expect, "no more than was sent");
        if len > 0 {
            endpoint.consume(self.id, len, now);
        }
    }

    fn write(&mut self, endpoint: &mut Endpoint, now: u64) {
        let Some(connection) = endpoint.get(self.id) else { return };
        let free = self.send.capacity() as u64 - (self.written - connection.acknowledged());
        let len = (self.job.send - self.written).min(free);
        if len > 0 && connection.failure().is_none() {
            let octets: Vec<u8> = (self.written..self.written + len).map(octet).collect();
            self.send.write(self.written, &octets);
            self.written += endpoint.queue(self.id, len, now);
        }
    }
}
