//! Names of services, as ports are called: `port http`.
//!
//! The list is fixed, and a name is a number and nothing else, so that a filter means the same on every machine.
//! (libpcap asks the machine's `/etc/services`, and takes a name that is there for TCP alone to mean TCP.)

/// Services and their ports, by the names of IANA's registry.
pub(super) const SERVICES: [(&str, u16); 53] = [
    ("echo", 7),
    ("discard", 9),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("kerberos", 88),
    ("pop3", 110),
    ("sunrpc", 111),
    ("ntp", 123),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("isakmp", 500),
    ("syslog", 514),
    ("dhcpv6-client", 546),
    ("dhcpv6-server", 547),
    ("rtsp", 554),
    ("submission", 587),
    ("ldaps", 636),
    ("iscsi", 860),
    ("imaps", 993),
    ("pop3s", 995),
    ("socks", 1080),
    ("openvpn", 1194),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("nfs", 2049),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("stun", 3478),
    ("ipsec-nat-t", 4500),
    ("vxlan", 4789),
    ("sip", 5060),
    ("sips", 5061),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("geneve", 6081),
    ("redis", 6379),
    ("http-alt", 8080),
    ("memcache", 11211),
];

/// The port of a service.
pub(super) fn port(name: &str) -> Option<u128> {
    SERVICES.iter().find(|(known, _)| *known == name).map(|(_, port)| u128::from(*port))
}

/// The names, to suggest one.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|(name, _)| *name)
}
