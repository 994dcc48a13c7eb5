//! How an interface speaks IPv6.

/// Settings of one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct V6Settings {
    /// Whether it speaks IPv6 at all, and gets a link-local address.
    pub enabled: bool,
    /// Whether router advertisements make addresses and routes. Never in a router.
    pub accept_ra: bool,
    /// The secret of stable interface identifiers (RFC 7217); `None`: they are made of the link
    /// address.
    pub secret: Option<[u64; 2]>,
    /// Probes before an address is used (RFC 4862 §5.1, DupAddrDetectTransmits); 0: none.
    pub dad_transmits: u8,
    /// Hop limit of what it sends, as routers advertise it.
    pub hop_limit: u8,
    /// The link's MTU as routers advertise it; 0: the interface's own.
    pub link_mtu: u16,
}

impl Default for V6Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            accept_ra: true,
            secret: None,
            dad_transmits: 1,
            hop_limit: super::DEFAULT_HOP_LIMIT,
            link_mtu: 0,
        }
    }
}
