//! Giving back what others have lent.

use std::thread;
use std::time::{Duration, Instant};

use weever_blocks_std::dhcp::Dhcp;

/// A look of the clients' block is 50 ms away at most; a server does not answer.
const PATIENCE: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(2);

/// Has every DHCP client give its lease back (RFC 2131 §4.4.6) and end, while the workers still
/// run. One that does not get to it leaves its lease to run out.
pub(super) fn leases(clients: &Dhcp) {
    let all = clients.status();
    if all.is_empty() {
        return;
    }
    all.iter().for_each(|client| clients.stop(client.iface));
    let deadline = Instant::now() + PATIENCE;
    while !clients.status().is_empty() && Instant::now() < deadline {
        thread::sleep(STEP);
    }
}
