//! The answers of a capture: packets go to the client until it leaves.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;
use weever_service_api::{Answers, CaptureEnd, CaptureEvent, Reply};

use super::Capture;

/// The most packets of each worker and place that are sent at once.
const BATCH: usize = 256;
/// How long the loop waits for more packets, in milliseconds.
const PAUSE: u16 = 5;

/// The reply to `capture`: sends packets until the client leaves, asks for something else, or
/// has `count` packets.
pub(in crate::stack) fn reply(capture: Capture, count: Option<u64>) -> Reply<CaptureEvent> {
    let started = CaptureEvent::Started(capture.started.clone());
    let most = count.unwrap_or(u64::MAX);
    Reply::followed_by(started, move |answers| send_packets(answers, capture, most))
}

/// # Errors
/// When the client cannot be written to: it does not read, or is gone.
fn send_packets(
    mut answers: Answers<'_, CaptureEvent>,
    mut capture: Capture,
    most: u64,
) -> io::Result<()> {
    let mut end = CaptureEnd::default();
    let mut is_silent = false;
    loop {
        let removed = capture.is_removed();
        let packets = capture.collect(BATCH);
        let nothing = packets.is_empty();
        let left = usize::try_from(most - end.captured).unwrap_or(usize::MAX);
        for packet in packets.into_iter().take(left) {
            end.captured += 1;
            answers.push(&CaptureEvent::Packet(packet));
        }
        let missed = capture.missed();
        if missed != end.missed {
            end.missed = missed;
            answers.push(&CaptureEvent::Missed(missed));
        }
        let wait = if nothing { PAUSE } else { 0 };
        let reason = match wait_for_client(answers.stream(), &mut is_silent, wait)? {
            _ if end.captured >= most => "count",
            true => "request",
            false if removed && nothing => "removed",
            false => {
                answers.flush()?;
                continue;
            }
        };
        // The graph is as it was before when the client hears of the end.
        drop(capture);
        answers.push(&CaptureEvent::Ended(CaptureEnd { reason: reason.into(), ..end }));
        return answers.flush();
    }
}

/// Waits at most `milliseconds`; true if the client has left, or asks for something. `is_silent`: it
/// has closed its own direction, but may still read.
fn wait_for_client(
    client: &UnixStream,
    is_silent: &mut bool,
    milliseconds: u16,
) -> io::Result<bool> {
    let interest = if *is_silent { PollFlags::empty() } else { PollFlags::POLLIN };
    let mut fds = [PollFd::new(client.as_fd(), interest)];
    poll(&mut fds, PollTimeout::from(milliseconds))?;
    let found = fds[0].revents().unwrap_or(PollFlags::empty());
    if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
        return Ok(true);
    }
    if !found.contains(PollFlags::POLLIN) {
        return Ok(false);
    }
    let mut byte = [std::mem::MaybeUninit::uninit()];
    *is_silent = SockRef::from(client).peek(&mut byte)? == 0;
    Ok(!*is_silent)
}
