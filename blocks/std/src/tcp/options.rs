//! Settings of applications' streams, brought to their connections.

use std::num::NonZeroU16;

use weever_block::Nanos;
use weever_net::stream::{Congestion, StreamOption};
use weever_net::{MILLIS, SECOND};
use weever_tcp::congestion::Algorithm;
use weever_tcp::{Connection, Endpoint, Id, KeepAlive, Settings, TcpConfig};

/// Changes a setting of a connection.
pub(super) fn set(endpoint: &mut Endpoint, id: Id, option: StreamOption, now: Nanos) {
    match option {
        StreamOption::QuickAck(quick) => endpoint.set_quick_ack(id, quick, now),
        StreamOption::Congestion(name) => endpoint.set_congestion(id, algorithm(name), now),
        StreamOption::ReceiveBuffer(octets) => endpoint.set_receive(id, octets, now),
        StreamOption::Urgent => drop(endpoint.queue_urgent(id, 0, now)),
        StreamOption::FastOpen(0) => {}
        StreamOption::FastOpen(_) => drop(endpoint.set_fast_open(id, now)),
        option => {
            if let Some(before) = endpoint.get(id).map(Connection::settings)
                && let Some(settings) = with(before, option)
            {
                endpoint.set(id, settings, now);
            }
        }
    }
}

/// Settings with one of them changed; nothing for one that is not among them.
fn with(before: Settings, option: StreamOption) -> Option<Settings> {
    let default = KeepAlive::default();
    let probes = before.keep_alive;
    Some(match option {
        StreamOption::NoDelay(no_delay) => Settings { no_delay, ..before },
        StreamOption::Cork(cork) => Settings { cork, ..before },
        StreamOption::KeepAlive(0) => Settings { keep_alive: None, ..before },
        StreamOption::KeepAlive(seconds) => {
            let idle = Nanos::from(seconds) * SECOND;
            Settings { keep_alive: Some(KeepAlive { idle, ..probes.unwrap_or(default) }), ..before }
        }
        // Without probes these two have no effect: they are to be set after the probes are.
        StreamOption::KeepAliveInterval(seconds) => {
            let interval = Nanos::from(seconds.max(1)) * SECOND;
            Settings { keep_alive: probes.map(|there| KeepAlive { interval, ..there }), ..before }
        }
        StreamOption::KeepAliveProbes(count) => {
            let probes = probes.map(|there| KeepAlive { probes: count.max(1), ..there });
            Settings { keep_alive: probes, ..before }
        }
        StreamOption::UserTimeout(0) => {
            Settings { user_timeout: TcpConfig::default().user_timeout, ..before }
        }
        StreamOption::UserTimeout(millis) => {
            Settings { user_timeout: Nanos::from(millis) * MILLIS, ..before }
        }
        StreamOption::MaxSegment(octets) => {
            Settings { max_segment: NonZeroU16::new(octets), ..before }
        }
        _ => return None,
    })
}

fn algorithm(name: Congestion) -> Algorithm {
    match name {
        Congestion::Reno => Algorithm::Reno,
        Congestion::Dctcp => Algorithm::Dctcp,
        _ => Algorithm::Cubic,
    }
}
