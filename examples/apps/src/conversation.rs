//! Servers of TCP: what is the same for all that answer requests on connections.

use std::collections::HashMap;

use weever_app_sockets::{AppQueue, Error, Event, TcpStream};

/// Octets of answers that wait for a peer that does not read. With more it is reset.
const MOST_WAITING: usize = 8 << 20;

/// One connection's requests.
pub(crate) trait Conversation {
    /// Takes the next octets, and adds the answers to the requests that are whole now. False ends the conversation,
    /// after the answers.
    fn take(&mut self, octets: &[u8], answers: &mut Vec<u8>) -> bool;
}

/// A connection: its conversation, and the part of the answers that has not gone.
#[derive(Debug)]
struct Open<C> {
    conversation: C,
    answers: Vec<u8>,
    /// No further request is answered.
    ends: bool,
}

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Conversations<C> {
    open: HashMap<TcpStream, Open<C>>,
}

impl<C> Default for Conversations<C> {
    fn default() -> Conversations<C> {
        Conversations { open: HashMap::new() }
    }
}

impl<C: Conversation> Conversations<C> {
    /// Does what an event of a stream asks for; other events are ignored. `begin` makes the conversation of a
    /// connection that is accepted.
    ///
    /// # Errors
    /// Those of [`AppQueue::write`], but not that there is no room or that the connection is gone.
    pub(crate) fn handle(
        &mut self,
        queue: &AppQueue,
        event: Event<'_>,
        begin: impl FnOnce() -> C,
    ) -> Result<(), Error> {
        let stream = match event {
            Event::Accepted(_, stream) => {
                let open = Open { conversation: begin(), answers: Vec::new(), ends: false };
                self.open.insert(stream, open);
                return Ok(());
            }
            Event::Octets(octets) => {
                let stream = octets.stream();
                let Some(open) = self.open.get_mut(&stream).filter(|open| !open.ends) else {
                    return Ok(());
                };
                open.ends = !open.conversation.take(octets.octets(), &mut open.answers);
                stream
            }
            Event::Finished(stream) => {
                let Some(open) = self.open.get_mut(&stream) else { return Ok(()) };
                open.ends = true;
                stream
            }
            Event::Writable(stream) => stream,
            Event::StreamClosed(stream) => {
                self.open.remove(&stream);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let Some(open) = self.open.get_mut(&stream) else { return Ok(()) };
        let done = match open.write(queue, stream) {
            Ok(all) if all && open.ends => queue.close_stream(stream),
            Ok(_) if open.answers.len() > MOST_WAITING => queue.abort(stream),
            Ok(_) => return Ok(()),
            // It has failed meanwhile.
            Err(Error::NoSocket) => Ok(()),
            Err(error) => return Err(error),
        };
        self.open.remove(&stream);
        done
    }
}

impl<C> Open<C> {
    /// Writes as much as there is room for; [`Event::Writable`] follows if that is not all. Whether it was.
    fn write(&mut self, queue: &AppQueue, stream: TcpStream) -> Result<bool, Error> {
        let mut done = 0;
        while done < self.answers.len() {
            match queue.write(stream, &self.answers[done..]) {
                Ok(written) => done += written,
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        self.answers.drain(..done);
        Ok(self.answers.is_empty())
    }
}
