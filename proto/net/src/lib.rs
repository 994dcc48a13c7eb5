//! Ethernet, ARP, IPv4, ICMP and UDP, sans-IO.
#![forbid(unsafe_code)]
