//! The primitives of pcap-filter(7).

use std::net::{Ipv4Addr, Ipv6Addr};

use weever_graph::{Field, Predicate};
use weever_suggest::did_you_mean;

use super::parse::{ParseResult, Parser};
use super::qualifier::{Kind, Qualifier, Way};
use super::token::Token;
use super::{bytes, fields, labels};

impl<'t> Parser<'t> {
    /// A primitive, if one starts here; nothing is taken if not.
    pub(super) fn primitive(&mut self) -> ParseResult<Option<Predicate>> {
        let start = self.clone();
        let Token::Word(word) = self.next() else {
            *self = start;
            return Ok(None);
        };
        if self.peek() == Token::Sign("[") {
            return self.bytes_of(word).map(Some);
        }
        match word {
            "ether" => self.ether().map(Some),
            "vlan" => self.vlan().map(Some),
            "less" | "greater" => self.length(word == "less").map(Some),
            "len" => self.comparison(Field::FrameLen).map(Some),
            "ip" | "ip6" | "arp" => self.qualified(word).map(Some),
            _ if labels::protocol(word).is_some() => self.qualified(word).map(Some),
            _ => {
                *self = start;
                self.unqualified("")
            }
        }
    }

    fn qualified(&mut self, proto: &'t str) -> ParseResult {
        Ok(self.unqualified(proto)?.unwrap_or_else(|| protocol(proto)))
    }

    /// `[src|dst] (host|net|port|portrange|proto) …`, if that follows.
    fn unqualified(&mut self, proto: &'t str) -> ParseResult<Option<Predicate>> {
        let directed = matches!(self.peek(), Token::Word("src" | "dst"));
        let way = self.way();
        let word = match self.peek() {
            Token::Word(word) => word,
            Token::Sign("(") if directed => "(",
            _ if directed => return self.fail("expected an address or a port"),
            _ => return Ok(None),
        };
        let kind = match word {
            "host" => Kind::Address,
            "net" => Kind::Net,
            "port" => Kind::Port,
            "portrange" => Kind::Ports,
            "proto" => Kind::Protocol,
            "multicast" | "broadcast" => {
                self.next();
                return self.many(proto, word == "broadcast").map(Some);
            }
            _ if directed => {
                return self.values(Qualifier { proto, way, kind: Kind::Address }).map(Some);
            }
            _ => return Ok(None),
        };
        self.next();
        self.values(Qualifier { proto, way, kind }).map(Some)
    }

    /// The test of one value, or of a row of them in parentheses. The next value may go without keywords.
    pub(super) fn values(&mut self, of: Qualifier<'t>) -> ParseResult {
        let test = self.values_in(&of)?;
        self.last = Some(of);
        Ok(test)
    }

    fn values_in(&mut self, of: &Qualifier<'t>) -> ParseResult {
        if self.take_word("not") || self.take(Token::Sign("!")) {
            let inner = self.nested(|parser| parser.values_in(of))?;
            return Ok(Predicate::Not(Box::new(inner)));
        }
        if !self.take(Token::Sign("(")) {
            return self.value(of);
        }
        let row = self.joined(|parser| parser.values_in(of))?;
        self.expect(")")?;
        Ok(row)
    }

    fn value(&mut self, of: &Qualifier<'t>) -> ParseResult {
        let inner = match of.kind {
            Kind::Address => self.address(of.proto, of.way),
            Kind::Net => self.net(of.proto, of.way),
            Kind::Port => self.port(of.way),
            Kind::Ports => self.port_range(of.way),
            Kind::Protocol => self.ip_proto(of.proto),
            Kind::Station => self.station(of.way),
        }?;
        // An ARP address is no IP address, and needs no further condition.
        Ok(match of.proto {
            "" | "arp" => inner,
            proto => Predicate::And(vec![protocol(proto), inner]),
        })
    }

    /// Packets to groups, recognized by the addresses of Ethernet, or of `proto`.
    fn many(&mut self, proto: &str, all: bool) -> ParseResult {
        Ok(match (proto, all) {
            ("", false) => ether_group(),
            ("", true) => Predicate::eq(Field::EthDst, Field::EthDst.full_mask()),
            ("ip", false) => group_of("ip", Field::Ip4Dst, 0xf000_0000, 0xe000_0000),
            ("ip6", false) => group_of("ip6", Field::Ip6Dst, 0xff << 120, 0xff << 120),
            ("ip", true) => {
                let help = "the broadcast address depends on the network: `dst host 192.0.2.255`, \
                            or `ether broadcast`";
                return self.fail_with("`ip broadcast` is not known", help);
            }
            _ => return self.fail(format!("{proto} has no groups and no broadcasts of its own")),
        })
    }

    fn way(&mut self) -> Way {
        let src = self.take_word("src");
        if !src && !self.take_word("dst") {
            return Way::Either;
        }
        let one = if src { Way::Src } else { Way::Dst };
        let other = if src { "dst" } else { "src" };
        let mut ahead = self.clone();
        let Token::Word(joint @ ("or" | "and")) = ahead.next() else { return one };
        if !ahead.take_word(other) {
            return one;
        }
        *self = ahead;
        if joint == "or" { Way::Either } else { Way::Both }
    }

    fn port(&mut self, way: Way) -> ParseResult {
        let port = self.number(Field::L4Dst)?;
        Ok(way.of(Predicate::eq(Field::L4Src, port), Predicate::eq(Field::L4Dst, port)))
    }

    fn port_range(&mut self, way: Way) -> ParseResult {
        let at = self.clone();
        let bounds = match self.next() {
            Token::Word(word) => word.split_once('-'),
            _ => None,
        };
        let port = |text: &str| text.parse::<u16>().ok().map(u128::from);
        let Some((lo, hi)) = bounds.and_then(|(lo, hi)| Some((port(lo)?, port(hi)?))) else {
            return at.fail("expected a range of ports, as `1024-65535`");
        };
        let range = |field| Predicate::Range { field, lo: lo.min(hi), hi: lo.max(hi) };
        Ok(way.of(range(Field::L4Src), range(Field::L4Dst)))
    }

    fn ip_proto(&mut self, proto: &str) -> ParseResult {
        let field = if proto == "ip6" { Field::Ip6Next } else { Field::Ip4Proto };
        let number = self.number(field)?;
        Ok(match proto {
            "ip" | "ip6" => Predicate::eq(field, number),
            _ => either_ip(number),
        })
    }

    /// An address, a prefix, or an IPv4 address's first bytes.
    fn net(&mut self, proto: &str, way: Way) -> ParseResult {
        match self.short_net() {
            Some((mask, value)) => {
                let test = |field| fields::masked(field, mask, value);
                Ok(way.of(test(Field::Ip4Src), test(Field::Ip4Dst)))
            }
            None => self.address(proto, way),
        }
    }

    /// `10`, `10.0` or `10.0.1`: the first bytes of an IPv4 address, if they follow.
    fn short_net(&mut self) -> Option<(u128, u128)> {
        let Token::Word(word) = self.peek() else { return None };
        let bytes: Vec<u8> =
            word.split('.').map(|b| b.parse().ok()).collect::<Option<Vec<u8>>>()?;
        let rest = 32u32.checked_sub(8 * u32::try_from(bytes.len()).ok()?).filter(|r| *r > 0)?;
        self.next();
        let value = bytes.iter().fold(0u128, |all, b| all << 8 | u128::from(*b)) << rest;
        Some((u128::from(u32::MAX) >> rest << rest, value))
    }

    /// An address or prefix, or `net A mask M`.
    fn address(&mut self, proto: &str, way: Way) -> ParseResult {
        let at = self.clone();
        let Token::Word(word) = self.next() else { return at.fail("expected an address") };
        let address = word.split('/').next().unwrap_or(word);
        let (src, dst) = if proto == "arp" {
            (None, Field::ArpTpa)
        } else if address.parse::<Ipv4Addr>().is_ok() {
            (Some(Field::Ip4Src), Field::Ip4Dst)
        } else if address.parse::<Ipv6Addr>().is_ok() {
            (Some(Field::Ip6Src), Field::Ip6Dst)
        } else {
            let words = ["host", "net", "port", "portrange", "proto"];
            let plain = "names are not looked up; write an IPv4 or IPv6 address".to_string();
            let help = did_you_mean(word, words).unwrap_or(plain);
            return at.fail_with(format!("`{word}` is no address"), &help);
        };
        *self = at;
        let (prefix, value) = self.number_or_prefix(dst)?;
        let mask = if self.take_word("mask") { Some(self.number(dst)?) } else { prefix };
        let mask = mask.unwrap_or(dst.full_mask());
        let test = |field| fields::masked(field, mask, value);
        match src {
            Some(src) => Ok(way.of(test(src), test(dst))),
            None if way == Way::Src => self.fail("only the target address of ARP is known"),
            None => Ok(test(dst)),
        }
    }

    fn ether(&mut self) -> ParseResult {
        if self.take_word("proto") {
            return Ok(Predicate::eq(Field::EthType, self.number(Field::EthType)?));
        }
        if self.take_word("broadcast") {
            return Ok(Predicate::eq(Field::EthDst, Field::EthDst.full_mask()));
        }
        if self.take_word("multicast") {
            return Ok(ether_group());
        }
        let way = self.way();
        self.take_word("host");
        self.values(Qualifier { proto: "", way, kind: Kind::Station })
    }

    /// A MAC address.
    fn station(&mut self, way: Way) -> ParseResult {
        let at = self.clone();
        let Token::Word(word) = self.next() else { return at.fail("expected a MAC address") };
        let Some(mac) = fields::mac(word) else {
            return at.fail(format!("`{word}` is no MAC address"));
        };
        Ok(way.of(Predicate::eq(Field::EthSrc, mac), Predicate::eq(Field::EthDst, mac)))
    }

    /// The first tag behind those that have been tested.
    fn vlan(&mut self) -> ParseResult {
        let field = match self.tags {
            0 => Field::VlanId,
            1 => Field::VlanInner,
            _ => {
                let help = "`vlan 2 or vlan 3` is either of two; each `vlan` behind an `and` is about the next tag";
                return self.fail_with("a third tag is not looked at", help);
            }
        };
        self.tags += 1;
        let mut ahead = self.clone();
        Ok(match ahead.number(field) {
            Ok(id) => {
                *self = ahead;
                Predicate::eq(field, id)
            }
            Err(_) => fields::masked(field, 0, 0),
        })
    }

    fn length(&mut self, less: bool) -> ParseResult {
        let field = Field::FrameLen;
        let bound = self.number(field)?;
        let (lo, hi) = if less { (0, bound) } else { (bound, field.full_mask()) };
        Ok(Predicate::Range { field, lo, hi })
    }

    /// `proto[offset:size] [& mask] OP value`, for the bytes that are a known field.
    fn bytes_of(&mut self, proto: &str) -> ParseResult {
        let at = self.clone();
        self.expect("[")?;
        let Token::Word(place) = self.next() else { return at.fail("expected a byte offset") };
        self.expect("]")?;
        match bytes::field_at(proto, place) {
            Some(bytes::ByteField::Whole(field)) => {
                let inner = self.comparison(field)?;
                Ok(bytes::qualified(proto, field, inner))
            }
            Some(bytes::ByteField::Parts(parts)) => {
                let bits = if place.contains(':') { 16 } else { 8 };
                let inner = self.parts(parts, bits)?;
                Ok(bytes::qualified(proto, parts[0].field, inner))
            }
            None => at.fail_with(
                format!("the bytes `{proto}[{place}]` are no field that weever knows"),
                bytes::KNOWN,
            ),
        }
    }

    /// Bytes that hold several fields, or more than those: the mask selects bits of fields.
    fn parts(&mut self, parts: &[bytes::Part], bits: u32) -> ParseResult {
        let (at, all) = (self.clone(), (1 << bits) - 1);
        let wide = Field::ArpTpa;
        let mask = if self.take(Token::Sign("&")) { self.number(wide)? } else { all };
        let equal = match self.next() {
            Token::Sign("=" | "==") => true,
            Token::Sign("!=") => false,
            _ => return at.fail("expected `=` or `!=`"),
        };
        let value = self.number(wide)?;
        let rest = parts.iter().fold(mask, |rest, part| rest & !part.within);
        if rest != 0 {
            let names: Vec<&str> = parts.iter().map(|part| part.field.name()).collect();
            let names = names.join(" and ");
            return at
                .fail(format!("of these bytes only {names} is known: the bits {rest:#x} are not"));
        }
        if value & !mask != 0 {
            return at.fail(format!("{value:#x} has bits that the mask {mask:#x} leaves out"));
        }
        let tested = parts.iter().filter(|part| mask & part.within != 0);
        let mut tests: Vec<Predicate> = tested.map(|part| part.test(mask, value)).collect();
        let test = if tests.len() == 1 { tests.remove(0) } else { Predicate::And(tests) };
        let there = fields::masked(parts[0].field, 0, 0);
        Ok(match equal {
            true => test,
            false => Predicate::And(vec![there, Predicate::Not(Box::new(test))]),
        })
    }
}

fn group_of(proto: &str, field: Field, mask: u128, value: u128) -> Predicate {
    Predicate::And(vec![protocol(proto), fields::masked(field, mask, value)])
}

fn ether_group() -> Predicate {
    fields::masked(Field::EthDst, 1 << 40, 1 << 40)
}

fn either_ip(protocol: u128) -> Predicate {
    let (four, six) = (Field::Ip4Proto, Field::Ip6Next);
    Predicate::Or(vec![Predicate::eq(four, protocol), Predicate::eq(six, protocol)])
}

fn protocol(name: &str) -> Predicate {
    match name {
        "ip" => Predicate::eq(Field::EthType, labels::ETH_IP4),
        "ip6" => Predicate::eq(Field::EthType, labels::ETH_IP6),
        "arp" => Predicate::eq(Field::EthType, labels::ETH_ARP),
        "icmp" => Predicate::eq(Field::Ip4Proto, 1),
        "igmp" | "igrp" | "vrrp" => {
            Predicate::eq(Field::Ip4Proto, labels::protocol(name).unwrap_or_default())
        }
        "icmp6" => Predicate::eq(Field::Ip6Next, 58),
        _ => either_ip(labels::protocol(name).unwrap_or(u128::from(u8::MAX))),
    }
}
