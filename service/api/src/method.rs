//! Methods, and both ends of a call.
//!
//! A method is the type of its request: [`Method`] joins it with a name and the type of the answer. The
//! client sends one with [`Client::call`](crate::Client::call); the stack implements [`Handle`] for every
//! type in the list of methods, and [`answer`](crate::answer) leads a message to the right one.

use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{Rejection, Request};
use crate::{ApiError, Response, VERSION};

/// A method of the control socket: the type of its request, whose fields are the parameters.
pub trait Method: Serialize + DeserializeOwned {
    /// The method's name in messages.
    const NAME: &'static str;

    /// The stack's answer.
    type Answer: Serialize + DeserializeOwned;
}

/// A request as a line, without its end.
pub(crate) fn encode_request<M: Method>(id: u64, request: &M) -> String {
    #[derive(Serialize)]
    struct Message<'a, M> {
        version: u32,
        id: u64,
        method: &'static str,
        #[serde(flatten)]
        parameters: &'a M,
    }
    let message = Message { version: VERSION, id, method: M::NAME, parameters: request };
    serde_json::to_string(&message).expect("a request has no map with keys that are not text")
}

/// The stack's side of a method. Called from several threads; may block briefly.
pub trait Handle<M: Method> {
    /// Carries out the request.
    ///
    /// # Errors
    /// The error to answer with when the request is refused; then nothing has changed.
    fn handle(&self, request: M) -> Result<Reply<M::Answer>, ApiError>;
}

/// An answer, and the handler's work once it has been sent.
pub struct Reply<A> {
    answer: A,
    then: Option<FollowUp<A>>,
}

type FollowUp<A> = Box<dyn FnOnce(Answers<'_, A>) -> io::Result<()>>;

impl<A> From<A> for Reply<A> {
    fn from(answer: A) -> Reply<A> {
        Reply { answer, then: None }
    }
}

impl<A> Reply<A> {
    /// Sends `answer`, then runs `follow_up`, which may send more answers. It runs also when the client
    /// is gone.
    pub fn followed_by(
        answer: A,
        follow_up: impl FnOnce(Answers<'_, A>) -> io::Result<()> + 'static,
    ) -> Reply<A> {
        Reply { answer, then: Some(Box::new(follow_up)) }
    }
}

/// Answers to one request, on their way to the client.
pub struct Answers<'a, A> {
    id: u64,
    stream: &'a UnixStream,
    text: String,
    answer: PhantomData<A>,
}

impl<A: Serialize> Answers<'_, A> {
    /// Adds an answer to those that [`flush`](Self::flush) sends.
    pub fn push(&mut self, answer: &A) {
        self.text.push_str(&Response::new(Some(self.id), Ok(answer)).encode());
        self.text.push('\n');
    }

    /// Sends the answers added so far. Blocks at most for the stream's timeout.
    ///
    /// # Errors
    /// When the client does not read, or is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(self.text.as_bytes());
        self.text.clear();
        sent
    }

    /// The connection, to see whether the client asks for something else or leaves.
    pub fn stream(&self) -> &UnixStream {
        self.stream
    }
}

/// Hands a request to the handler of its method, and sends the answer.
pub(crate) fn serve<M: Method, H: Handle<M> + ?Sized>(
    handler: &H,
    request: Request,
    stream: &UnixStream,
) -> io::Result<()> {
    let id = request.id;
    let handled = request.parameters::<M>().and_then(|request| handler.handle(request));
    let Reply { answer, then } = match handled {
        Ok(reply) => reply,
        Err(error) => return refuse(stream, Rejection { id: Some(id), error }),
    };
    let mut answers = Answers { id, stream, text: String::new(), answer: PhantomData };
    answers.push(&answer);
    let sent = answers.flush();
    let followed = then.map_or(Ok(()), |follow_up| follow_up(answers));
    sent.and(followed)
}

/// Sends a refusal.
pub(crate) fn refuse(mut stream: &UnixStream, rejection: Rejection) -> io::Result<()> {
    let mut line = Response::<()>::new(rejection.id, Err(rejection.error)).encode();
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Makes the parts common to all methods from a list of request types: their names, the methods that a
/// stack implements, and the way from a message to its handler.
macro_rules! methods {
    ($($request:ty),+ $(,)?) => {
        /// The names of all methods.
        pub const METHODS: &[&str] = &[$(<$request as Method>::NAME),+];

        /// The handler of a control socket: implements [`Handle`] for every method.
        pub trait Handler: Send + Sync $(+ Handle<$request>)+ {}

        impl<T: Send + Sync $(+ Handle<$request>)+> Handler for T {}

        /// Answers one message, without its line end, on `stream`. Never panics, whatever the bytes
        /// are. Blocks while the handler does, and while the client does not read.
        ///
        /// # Errors
        /// When the client cannot be written to. A message that cannot be understood is answered with
        /// an error, and the connection can go on.
        pub fn answer(
            handler: &dyn Handler,
            line: &[u8],
            stream: &std::os::unix::net::UnixStream,
        ) -> std::io::Result<()> {
            let request = match message::decode_request(line, METHODS) {
                Ok(request) => request,
                Err(rejection) => return method::refuse(stream, rejection),
            };
            match request.method.as_str() {
                $(<$request as Method>::NAME => {
                    method::serve::<$request, dyn Handler>(handler, request, stream)
                })+
                _ => method::refuse(stream, request.unknown_method(METHODS)),
            }
        }
    };
}

pub(crate) use methods;
