//! A client on a connection to the server that has its stack in its thread, over a cable in memory.

use weever_app_library::Library;
use weever_app_sockets::AppQueue;
use weever_tcp::Id;

use super::generator::Generator;
use super::server::{Server, listening};
use super::service::{Service, request, response};
use crate::BenchError;
use crate::app::{Exchange, cable, queue_on};
use crate::contender::Gate;

/// Octets of a request and of a response.
const OCTETS: (usize, usize) = (30, 64);
/// Rounds in which a connection has to be established.
const ROUNDS: usize = 1000;

/// One connection, with a request in flight.
pub(crate) struct Conversation {
    queue: AppQueue,
    _library: Library,
    gate: Gate,
    service: Service,
    client: Generator,
    connection: Option<Id>,
}

impl Conversation {
    pub(crate) fn new() -> Result<Conversation, BenchError> {
        let (builder, far) = cable()?;
        let (queue, _library) = queue_on(builder)?;
        listening(&queue)?;
        let (request, response) = (request(OCTETS.0), response(OCTETS.1));
        let client = Generator::over(far.queue, &far.pool, far.host_mac, (&request, &response));
        let gate = Gate::default();
        let service = Service::Web(response);
        let mut there = Conversation { queue, _library, gate, service, client, connection: None };
        there.client.receive()?;
        there.client.connect(0)?;
        there.client.send()?;
        for _ in 0..ROUNDS {
            there.serve()?;
            there.client.receive()?;
            there.connection = there.client.next_established();
            there.client.send()?;
            if there.connection.is_some() {
                return there.warmed_up();
            }
        }
        Err(BenchError::of("cable in memory")("the connection was not established"))
    }

    /// After the first exchange, which may wait for what comes only once, as timers of the stack's beginning.
    fn warmed_up(mut self) -> Result<Conversation, BenchError> {
        self.ask(1)?;
        for _ in 0..ROUNDS {
            self.serve()?;
            if self.answered()? > 0 {
                return Ok(self);
            }
        }
        Err(BenchError::of("cable in memory")("the first request was not answered"))
    }
}

impl Exchange for Conversation {
    /// A request for each answer that came: so the answer is acknowledged by the request.
    fn ask(&mut self, _one: usize) -> Result<(), BenchError> {
        if let Some(connection) = self.connection {
            self.client.ask(connection);
        }
        self.client.send()
    }

    fn serve(&mut self) -> Result<(), BenchError> {
        let turned = Server::new(&self.queue, &self.service).turn(&self.gate);
        turned.map_err(BenchError::of("weever"))
    }

    fn answered(&mut self) -> Result<usize, BenchError> {
        self.client.receive()?;
        Ok(self.client.next_answered().into_iter().count())
    }
}
