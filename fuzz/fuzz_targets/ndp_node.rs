//! Any order of neighbour discovery messages, good and forged, of look-ups, operators and passing
//! time: an interface keeps its bounds, believes only senders that the RFCs allow, asks no more often
//! than it may, and its timer is never late nor stuck.
#![no_main]

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use libfuzzer_sys::fuzz_target;
use weever_fuzz::Input;
use weever_net::MILLIS;
use weever_net::addr::Cidr6;
use weever_net::ndp::{
    Action, Discovery, Lookup, MAX_ADDRESSES, MAX_PREFIXES, MAX_ROUTERS, NdpConfig, Node, Received,
};
use weever_wire::MacAddr;
use weever_wire::ndp::NdpRepr;

const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CAPACITY: usize = 4;
const MTU: u16 = 1500;

struct World {
    node: Node,
    now: u64,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let Some(how) = input.byte() else { return };
    let config = NdpConfig {
        capacity: CAPACITY,
        accept_ra: how & 1 == 0,
        router: how & 2 != 0,
        dad_transmits: how >> 2 & 1,
        mtu: MTU,
        ..NdpConfig::default()
    };
    let node = Node::new(OUR_MAC, config, weever_net::random::Random::new(how.into()), 0);
    let mut world = World { node, now: 0 };
    while let Some(what) = input.byte() {
        if world.step(what, &mut input).is_none() {
            return;
        }
        world.check();
    }
});

/// A handful of addresses of every kind, ours among them.
fn address(number: u8) -> Ipv6Addr {
    let last = u16::from(number >> 4);
    match number & 0xf {
        0 => Ipv6Addr::UNSPECIFIED,
        1 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
        2 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2),
        3 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, last),
        4 | 5 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last),
        // The addresses made from the link address, link-local and in an advertised network.
        6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1),
        7 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0xff, 0xfe00, 1),
        8 => Ipv6Addr::LOCALHOST,
        _ => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last),
    }
}

fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, number])
}

impl World {
    /// `None`: there is no more input.
    fn step(&mut self, what: u8, input: &mut Input<'_>) -> Option<()> {
        let how = input.byte()?;
        let (who, now) = (address(how), self.now);
        match what % 10 {
            0..=3 => self.hear(what, how, input)?,
            4 => match self.node.lookup(who, now) {
                Lookup::Hit(mac) => assert_ne!(mac, MacAddr::ZERO),
                Lookup::MissSendRequest(request) => {
                    let asks = matches!(request.message,
                        NdpRepr::NeighbourSolicit { target, .. } if target == who);
                    assert!(asks && !who.is_multicast());
                }
                Lookup::Incomplete | Lookup::Failed | Lookup::Full => {}
            },
            5 => self.now += u64::from(how) * 100 * MILLIS,
            // A clock that jumps.
            6 => self.now += u64::from(how) * 3_600_000 * MILLIS,
            7 => self.poll(),
            8 if how & 1 == 0 => {
                let cidr = Cidr6::new(who, 64)?;
                if !who.is_multicast() && !who.is_unspecified() {
                    self.node.add_address(cidr, now);
                }
            }
            8 => drop(self.node.remove_address(who)),
            _ if how & 1 == 0 => self.node.set_mtu(1280 + u16::from(how)),
            _ if how & 2 == 0 => self.node.touch(who, now),
            _ => drop(self.node.adopt(who, station(how), now)),
        }
        Some(())
    }

    /// A message whose fixed part and options are whatever comes, with addresses that may matter.
    fn hear(&mut self, what: u8, how: u8, input: &mut Input<'_>) -> Option<()> {
        let (src, dst) = (address(input.byte()?), address(how));
        let (target, destination) = (address(input.byte()?), address(input.byte()?));
        let kind = 133 + what / 10 % 5;
        let mut message = vec![kind, 0, 0, 0];
        message.extend_from_slice(input.bytes(4));
        match kind {
            134 => message.extend_from_slice(input.bytes(8)),
            135 | 136 => message.extend(target.octets()),
            137 => message.extend([target.octets(), destination.octets()].concat()),
            _ => {}
        }
        let most = usize::from(input.byte()?) % 80;
        message.extend_from_slice(input.bytes(most));
        let received = Received { src, dst, message: &message };
        let was_ours = self.node.is_ours(target);
        let outcome = self.node.handle(&received, self.now);
        let Ok(outcome) = outcome else { return Some(()) };
        if let Some(reply) = outcome.reply {
            assert!(kind == 135 && was_ours && reply.src == target, "{reply:?}");
        }
        if let Some((_, hop)) = outcome.redirect {
            assert!(kind == 137 && src.is_unicast_link_local(), "RFC 4861 §8.1");
            assert!(!hop.is_multicast());
        }
        if kind == 134 {
            assert!(src.is_unicast_link_local(), "RFC 4861 §6.1.2");
        }
        Some(())
    }

    fn poll(&mut self) {
        let mut actions = 0;
        self.node.poll(self.now, |action| {
            actions += 1;
            if let Action::Send(transmit) = action {
                assert!(!transmit.src.is_multicast());
                assert!(!transmit.dst.is_unspecified());
            }
        });
        assert!(actions <= CAPACITY + MAX_ADDRESSES + MAX_ROUTERS + 1, "each thing once");
        assert!(self.node.poll_at().is_none_or(|at| at > self.now), "no deadline has passed");
    }

    fn check(&self) {
        let entries: Vec<_> = self.node.neighbours().iter().collect();
        assert!(entries.len() <= CAPACITY);
        let distinct: BTreeSet<_> = entries.iter().map(|entry| entry.ip).collect();
        assert_eq!(distinct.len(), entries.len());
        for entry in &entries {
            assert_eq!(entry.mac.is_some(), entry.state.is_resolved());
            assert!(entry.mac.is_none_or(|mac| mac.is_unicast()), "{entry:?}");
        }
        assert!(self.node.locals().iter().count() <= MAX_ADDRESSES);
        assert!(self.node.on_link().count() <= MAX_PREFIXES);
        let router = self.node.default_router();
        assert!(router.is_none_or(|router| router.is_unicast_link_local()));
        let params = self.node.params();
        assert!((1280..=1535).contains(&params.mtu), "{params:?}");
        assert_ne!(params.hop_limit, 0);
    }
}
