//! A cable between two namespaces, and the pair of namespaces that most tests want.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo as Info, LinkMessage,
};

use crate::{Error, LinkInfo, Mac, Namespace};

/// How long a fresh link may take to find its carrier.
const CARRIER_PATIENCE: Duration = Duration::from_secs(10);

/// A veth pair: each end receives the frames that the other sends.
///
/// It goes with its namespaces, or before them with [`Veth::delete`].
#[derive(Debug, Clone)]
pub struct Veth {
    /// The end in the first namespace.
    pub left: VethEnd,
    /// The end in the second namespace.
    pub right: VethEnd,
}

/// One end of a [`Veth`].
#[derive(Debug, Clone)]
pub struct VethEnd {
    namespace: Namespace,
    /// The link's name in its namespace.
    pub name: String,
    /// The interface index in its namespace.
    pub index: u32,
    /// The hardware address.
    pub mac: Mac,
}

impl Veth {
    /// Joins two namespaces; both ends get `queues` transmit and `queues` receive queues and are
    /// set up. Blocks until both have a carrier.
    ///
    /// # Errors
    /// [`Error::Request`] if a name is taken or too long (15 bytes at most), or `queues` is not
    /// between 1 and 4,096.
    pub fn create(
        left: &Namespace,
        left_name: &str,
        right: &Namespace,
        right_name: &str,
        queues: u32,
    ) -> Result<Self, Error> {
        let action = format!("create veth {left_name} with peer {right_name} and {queues} queues");
        let request = creation(left_name, (right_name, right.raw_handle()), queues);
        left.change(&action, request, NLM_F_CREATE | NLM_F_EXCL)?;
        left.set_up(left_name)?;
        right.set_up(right_name)?;
        let veth = Self {
            left: VethEnd::find(left, left_name)?,
            right: VethEnd::find(right, right_name)?,
        };
        veth.left.await_carrier()?;
        veth.right.await_carrier()?;
        Ok(veth)
    }

    /// Sets the MTU of both ends.
    ///
    /// # Errors
    /// [`Error::Request`] if the driver refuses the size.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        self.left.set_mtu(mtu)?;
        self.right.set_mtu(mtu)
    }

    /// Pulls the cable out: both ends vanish.
    ///
    /// # Errors
    /// [`Error::Request`] if it is gone already.
    pub fn delete(self) -> Result<(), Error> {
        self.left.namespace.delete_link(&self.left.name)
    }
}

impl VethEnd {
    fn find(namespace: &Namespace, name: &str) -> Result<Self, Error> {
        let LinkInfo { index, mac, .. } = namespace.link(name)?;
        Ok(Self { namespace: namespace.clone(), name: name.to_owned(), index, mac })
    }

    /// The namespace in which this end is.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The link's present state and counters.
    ///
    /// # Errors
    /// [`Error::Request`] if the link is gone.
    pub fn info(&self) -> Result<LinkInfo, Error> {
        self.namespace.link(&self.name)
    }

    /// See [`Namespace::set_mtu`].
    ///
    /// # Errors
    /// As there.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        self.namespace.set_mtu(&self.name, mtu)
    }

    /// See [`Namespace::add_address`].
    ///
    /// # Errors
    /// As there.
    pub fn add_address(&self, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        self.namespace.add_address(&self.name, address, prefix)
    }

    /// Has this end speak IPv6, with this address and a link-local one, which can be used at once: the
    /// kernel asks for no other owner, and for no routers.
    ///
    /// # Errors
    /// As [`Namespace::sysctl`] and [`Namespace::add_address6`].
    pub fn speak_ipv6(&self, address: Ipv6Addr, prefix: u8) -> Result<(), Error> {
        for setting in ["accept_dad", "accept_ra", "router_solicitations"] {
            self.namespace.sysctl(&format!("net/ipv6/conf/{}/{setting}", self.name), "0")?;
        }
        self.namespace.speak_ipv6()?;
        self.namespace.add_address6(&self.name, address, prefix, false)
    }

    /// See [`Namespace::add_neighbour`].
    ///
    /// # Errors
    /// As there.
    pub fn add_neighbour(&self, address: Ipv4Addr, mac: Mac) -> Result<(), Error> {
        self.namespace.add_neighbour(&self.name, address, mac)
    }

    /// With `on` false, the kernel's stack finishes the transport checksums of the packets that it
    /// sends from this end. A new veth leaves them to a device that is not there: the frames then
    /// carry the sum over the pseudo-header only.
    ///
    /// # Errors
    /// [`Error::Request`] if the link is gone.
    pub fn set_checksum_offload(&self, on: bool) -> Result<(), Error> {
        self.namespace.set_feature(&self.name, "tx-checksum-ip-generic", on)
    }

    /// Blocks until the link has a carrier: the first frame on a fresh link must not be lost.
    fn await_carrier(&self) -> Result<(), Error> {
        let deadline = Instant::now() + CARRIER_PATIENCE;
        while !self.info()?.running {
            if Instant::now() > deadline {
                let milliseconds = CARRIER_PATIENCE.as_millis();
                return Err(Error::NoCarrier { name: self.name.clone(), milliseconds });
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// The request for a pair whose second end starts its life in another namespace. The number of
/// queues must be stated for each end, or the peer gets one.
fn creation(name: &str, peer: (&str, i32), queues: u32) -> RouteNetlinkMessage {
    let (peer_name, peer_namespace) = peer;
    let mut far = end(peer_name, queues);
    far.attributes.push(LinkAttribute::NetNsFd(peer_namespace));
    let mut near = end(name, queues);
    near.attributes.push(LinkAttribute::LinkInfo(vec![
        Info::Kind(InfoKind::Veth),
        Info::Data(InfoData::Veth(InfoVeth::Peer(far))),
    ]));
    RouteNetlinkMessage::NewLink(near)
}

fn end(name: &str, queues: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::NumTxQueues(queues),
        LinkAttribute::NumRxQueues(queues),
    ];
    message
}

/// Two namespaces joined by a veth pair, `left0` to `right0`, both ends up and without addresses:
/// one end is for the stack, which brings its own address, and the other for the kernel.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// The first namespace, with `left0`.
    pub left: Namespace,
    /// The second namespace, with `right0`.
    pub right: Namespace,
    /// The cable.
    pub veth: Veth,
}

impl Fixture {
    /// The address meant for the left end.
    pub const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    /// The address meant for the right end.
    pub const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
    /// The length of their network's prefix.
    pub const PREFIX: u8 = 24;

    /// Builds the pair with that many queues at each end.
    ///
    /// # Errors
    /// As [`Namespace::new`] and [`Veth::create`].
    pub fn pair(queues: u32) -> Result<Self, Error> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        let veth = Veth::create(&left, "left0", &right, "right0", queues)?;
        Ok(Self { left, right, veth })
    }

    /// Gives [`Fixture::LEFT`] and [`Fixture::RIGHT`] to the kernel's ends.
    ///
    /// # Errors
    /// [`Error::Request`] if it was done before.
    pub fn assign_addresses(&self) -> Result<(), Error> {
        self.veth.left.add_address(Self::LEFT, Self::PREFIX)?;
        self.veth.right.add_address(Self::RIGHT, Self::PREFIX)
    }
}
