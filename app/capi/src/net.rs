//! Addresses as the header has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_app_sockets::Bind;

use crate::failure::Failure;

/// `weever_endpoint`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `AF_INET`, `AF_INET6`, or 0 for any.
    pub family: u16,
    /// In host order; 0 for any.
    pub port: u16,
    /// In network order; IPv4 in the first four bytes.
    pub addr: [u8; 16],
}

/// `weever_dest`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dest {
    /// Our end.
    pub local: Endpoint,
    /// The peer's.
    pub remote: Endpoint,
}

impl From<SocketAddr> for Endpoint {
    fn from(end: SocketAddr) -> Endpoint {
        let mut addr = [0; 16];
        let family = match end.ip() {
            IpAddr::V4(v4) => {
                addr[..4].copy_from_slice(&v4.octets());
                libc::AF_INET
            }
            IpAddr::V6(v6) => {
                addr = v6.octets();
                libc::AF_INET6
            }
        };
        Endpoint { family: family as u16, port: end.port(), addr }
    }
}

impl Endpoint {
    /// `None`: any address of any family.
    fn ip(&self) -> Result<Option<IpAddr>, Failure> {
        let [a, b, c, d, ..] = self.addr;
        match i32::from(self.family) {
            0 => Ok(None),
            libc::AF_INET => Ok(Some(Ipv4Addr::new(a, b, c, d).into())),
            libc::AF_INET6 => Ok(Some(Ipv6Addr::from(self.addr).into())),
            other => {
                let text = format!("family {other} is neither AF_INET, AF_INET6 nor 0");
                Err(Failure::new(libc::EAFNOSUPPORT, text))
            }
        }
    }

    /// The end that this is, if it is one and no wildcard.
    pub(crate) fn end(&self) -> Result<Option<SocketAddr>, Failure> {
        let end = self.ip()?.map(|ip| SocketAddr::new(ip, self.port));
        Ok(end.filter(|end| end.port() != 0 && !end.ip().is_unspecified()))
    }
}

impl Dest {
    /// What a socket there receives.
    pub(crate) fn bind(&self) -> Result<Bind, Failure> {
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let local = SocketAddr::new(self.local.ip()?.unwrap_or(any), self.local.port);
        let bind = Bind::udp(local);
        Ok(match self.remote.end()? {
            Some(remote) => bind.connected_to(remote),
            None => bind,
        })
    }
}
