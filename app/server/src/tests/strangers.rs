//! Processes that connect where credentials are shown, and have none.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weever_app_ring::control::{Connection, Refusal, Request, Response};
use weever_app_ring::{Credential, return_path};
use weever_net::random::Secret;

use super::bench;
use crate::{Access, AppSocket};

#[test]
fn whoever_shows_no_credential_wakes_no_worker() {
    let name = format!("weever-strangers-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let bench = bench();
    let secret = Secret::new([1, 2]);
    let socket = AppSocket::bind_with_credentials(&path, &Access::default(), secret).unwrap();
    let _listener = socket.serve(bench.server).unwrap();
    let connect = || Connection::connect(&return_path(&path)).unwrap();
    let credential = Credential { user: 0, group: 0, proof: [3, 4] };
    let strangers = [connect(), connect(), connect()];
    strangers[0].send(&Request::Plan, &[]).unwrap();
    strangers[1].send(&Request::Present { credential }, &[]).unwrap();
    strangers[2].send(&"no request", &[]).unwrap();
    for stranger in strangers {
        let (answer, _) = stranger.receive::<Response>().unwrap();
        let Response::Refused { kind, .. } = answer else { panic!("{answer:?}") };
        assert!(matches!(kind, Refusal::Permission | Refusal::Protocol), "{kind:?}");
        assert!(stranger.receive::<Response>().is_err(), "it is sent away");
    }
    let mut wake = [PollFd::from_borrowed_fd(bench.queue.fd().unwrap(), PollFlags::IN)];
    assert_eq!(poll(&mut wake, Some(&Timespec::default())).unwrap(), 0, "a worker was woken");
}
