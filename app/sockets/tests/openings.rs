//! Answers to the request for a queue that do not make one: the library says so, and takes nothing for granted.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use weever_app_ring::control::{Request, Response};
use weever_app_ring::{Geometry, StackEnd};
use weever_app_sockets::{Answer, AppQueue, Backend, Error, QueueConfig};

/// A stack that has its answers ready.
struct Prepared(VecDeque<Answer>);

impl Backend for Prepared {
    fn send(&mut self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }
    fn receive(&mut self, _blocking: bool) -> Result<Option<Answer>, Error> {
        Ok(self.0.pop_front())
    }
    fn sleep(&mut self, _wake: BorrowedFd<'_>, _timeout: Option<Duration>) -> Result<(), Error> {
        Ok(())
    }
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn restart(&mut self) -> Result<(), Error> {
        Err(Error::Disconnected)
    }
}

fn open(answers: impl IntoIterator<Item = Answer>) -> Result<AppQueue, Error> {
    AppQueue::over(Box::new(Prepared(answers.into_iter().collect())), &QueueConfig::default())
}

fn queue(channels: u32, descriptors: Vec<OwnedFd>) -> Result<AppQueue, Error> {
    open([(
        Response::Queue { queue: 1, channels, key: 1, shares_ports: false, trusted: Vec::new() },
        descriptors,
    )])
}

fn nothing() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

fn channel() -> OwnedFd {
    let geometry = Geometry { ring_len: 64, frames: 64, frame_size: 2048 };
    StackEnd::create(geometry).unwrap().fd().try_clone_to_owned().unwrap()
}

#[test]
fn an_answer_with_too_few_or_too_many_descriptors_is_an_error_that_counts_them() {
    for (channels, count) in [(1, 0), (1, 1), (1, 2), (1, 4), (2, 3), (0, 1), (u32::MAX, 3)] {
        let error = queue(channels, (0..count).map(|_| nothing()).collect()).unwrap_err();
        let Error::Protocol(text) = error else { panic!("{error:?}") };
        assert_eq!(text, format!("{count} descriptors for {channels} channels"));
    }
}

#[test]
fn a_descriptor_that_is_no_channel_is_an_error() {
    let error = queue(1, vec![nothing(), nothing(), nothing()]).unwrap_err();
    assert!(matches!(error, Error::Channel(_)), "{error:?}");
    // Of two channels the first one is sound.
    let descriptors = vec![nothing(), channel(), nothing(), nothing(), nothing()];
    assert!(matches!(queue(2, descriptors).unwrap_err(), Error::Channel(_)));
    let sound = queue(1, vec![nothing(), channel(), nothing()]).unwrap();
    assert_eq!((sound.channels(), sound.frames()), (1, (32, 32)));
}

#[test]
fn an_answer_of_another_kind_or_none_is_an_error() {
    let socket = Response::Socket { socket: 3, local_port: 53 };
    let other = open([(socket, vec![nothing(), channel(), nothing()])]).unwrap_err();
    assert!(matches!(other, Error::Protocol(_)), "{other:?}");
    assert!(matches!(open([]).unwrap_err(), Error::Protocol(_)));
}
