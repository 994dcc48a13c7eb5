//! An operator that changes a stack over its control socket.

use std::time::{Duration, Instant};

use weever_daemon::config::Config;
use weever_service_api::{Client, ClientError, SetRequest};

use crate::common::peer::{PATIENCE, config};

pub(crate) fn unprobed() -> Config {
    let mut config = config();
    config.probe = false;
    config
}

pub(crate) fn client(stack: &weever_daemon::Stack) -> Client {
    Client::connect(stack.control_path().unwrap()).unwrap()
}

pub(crate) fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(error)) => error.message,
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn set(client: &mut Client, assignment: &str) -> Result<usize, ClientError> {
    client.call(&assignment.parse::<SetRequest>().unwrap()).map(|changed| changed.steps)
}

pub(crate) fn counted(text: &str) -> String {
    text.replace("port echo[Echo]", "port echo[Count]").replace(
        "node Echo {",
        "node Count {\nimplementation Counter\nport out[Echo]\n}\nnode Echo {",
    )
}

pub(crate) fn lost(stack: &weever_daemon::Stack) -> Vec<weever_service_api::DropCounter> {
    let drops = stack.counters().drops.into_iter();
    // A stack that speaks IPv6 hears its own groups' traffic on a link of two.
    drops.filter(|d| d.packets > 0 && !d.node.starts_with("RxL2")).collect()
}
