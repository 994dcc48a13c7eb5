//! The receivers of the captures: a host, and a router.

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_blocks_std::host::{Neighbours, Neighbours6, provide};
use weever_blocks_std::testing::frames::{HOST_MAC, PEER, PEER_MAC};
use weever_blocks_std::testing::frames6::PEER6;
use weever_blocks_std::testing::{HostBox, env};
use weever_engine::Limits;
use weever_models::{HostConfig, Service, host};
use weever_net::addr::Locals;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::Locals6;
use weever_net::route::{Route, Way};
use weever_net::state::NetConfig;
use weever_packet::Flags;

const LINKS: u16 = 2;
const SECOND: u64 = 1_000_000_000;

/// Both keep their state from one capture to the next, so that bounds are reached.
pub(crate) struct Hosts {
    all: [HostBox; 2],
    sent: u64,
}

impl Hosts {
    pub(crate) fn new() -> Hosts {
        Hosts { all: [of(false), of(true)], sent: 0 }
    }

    /// Both receive the frames, on every link and with either view of checksums; returns how many
    /// that were.
    pub(crate) fn receive(&mut self, frames: &[Vec<u8>]) -> u64 {
        for host in &mut self.all {
            for link in 0..LINKS {
                let partial = if link == 0 { Flags::NONE } else { Flags::MAY_BE_PARTIAL };
                host.set_flags(partial);
                host.receive_by(link, frames);
                self.sent += (0..LINKS).map(|by| host.sent_by(by).len() as u64).sum::<u64>();
            }
            host.advance(SECOND / 1000);
            host.check_fates();
        }
        (frames.len() * self.all.len()) as u64 * u64::from(LINKS)
    }

    /// Enough for some timers; the longest ones have time in [`finish`](Self::finish).
    pub(crate) fn pass_time(&mut self) {
        self.all.iter_mut().for_each(|host| host.advance(SECOND / 10));
    }

    /// How many frames were sent, and how many packets dropped for a reason. Asserts that every
    /// buffer has come home.
    pub(crate) fn finish(mut self) -> (u64, u64) {
        let mut drops = 0;
        for mut host in self.all.into_iter() {
            host.advance(200 * SECOND);
            self.sent += (0..LINKS).map(|by| host.sent_by(by).len() as u64).sum::<u64>();
            drops += host.drops().iter().map(|(_, _, n)| n).sum::<u64>();
            host.finish();
        }
        (self.sent, drops)
    }
}

/// 10.0.0.1/24 and fd00::1/64 on link 0, 10.1.0.1/24 and fd01::1/64 on link 1; everything else is
/// behind a peer on link 0, whose address is known.
fn network(router: bool) -> NetConfig {
    let mut net = NetConfig::new();
    for number in 0..LINKS {
        let (id, name) = (IfaceId(number), format!("memory{number}"));
        let v4 = format!("10.{number}.0.1/24").parse().unwrap();
        let v6 =
            [format!("fd0{number}::1/64"), "fe80::1/64".into()].map(|text| text.parse().unwrap());
        let iface = Interface::new(id, name, number, HOST_MAC);
        let iface = iface.with_v4(Locals::new(&[v4])).with_v6(Locals6::new(&v6));
        net.add_interface(iface).unwrap();
    }
    net.settings.forwarding = router;
    net.add_route(Route::new("0.0.0.0/0".parse().unwrap(), Way::Via(PEER))).unwrap();
    net.add_route(Route::new("::/0".parse().unwrap(), Way::Via(PEER6))).unwrap();
    net.join(IfaceId(0), Ipv4Addr::new(224, 0, 0, 251)).unwrap();
    net
}

fn of(router: bool) -> HostBox {
    let config = HostConfig::serving(Service::Echo, 53).and(Service::Discard, 514).with_dhcp();
    let env = env();
    provide(&env, network(router), 0);
    let four = env.get::<Neighbours>().unwrap();
    four.insert_static(IfaceId(0), PEER, PEER_MAC, 0).unwrap();
    let six = env.get::<Neighbours6>().unwrap();
    let peer: Ipv6Addr = PEER6;
    six.insert_static(IfaceId(0), peer, PEER_MAC, 0).unwrap();
    let limits = Limits { outbox: 1024, blocked: 256, links: LINKS, ..Limits::default() };
    HostBox::in_env(host(&config).unwrap(), &env, limits)
}
