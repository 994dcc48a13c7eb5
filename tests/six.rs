//! IPv6 with the kernel as the peer: `weever up` in a network namespace, over AF_XDP and TAP.

mod six {
    mod forward;
    mod host;
    mod learn;
    pub(crate) mod net;
}
