//! A host inside your own program: no privileges, no threads, no clock but yours.
//!
//! It answers a ping over a link in memory. Run it with `cargo run -p weever-host --example embed`.

use std::error::Error;

use weever_host::{HostBuilder, InterfaceConfig, Service};
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Burst, Pool, PoolConfig};
use weever_wire::MacAddr;
use weever_wire::ethernet::{EthernetRepr, ethertype};
use weever_wire::icmpv4::IcmpRepr;
use weever_wire::ipv4::{Ipv4Repr, protocol};

const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn main() -> Result<(), Box<dyn Error>> {
    // A cable: the host is at one end, this program at the other.
    let (ours, mut theirs) = pair(&MemoryConfig::default())?;

    // Any `Link` will do: AF_XDP on a device, TAP, a capture file.
    let mut builder = HostBuilder::new(Pool::new(PoolConfig::default())?);
    let link = builder.link(Box::new(ours));
    builder.interface(InterfaceConfig::new("eth0", link).address("10.0.0.1/24".parse()?))?;
    builder.neighbour("10.0.0.2".parse()?, PEER);
    builder.serve(Service::Echo, 7);
    let mut host = builder.build(0)?;

    // The program's end: send a ping, let the host work, receive the answer.
    let pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() })?;
    let (mut frames, mut queue) = (pool.cache(), theirs.take_queues().remove(0));
    let mut packet = frames.alloc().ok_or("the pool is empty")?;
    packet.append(&ping(b"hello")?);
    queue.tx(&mut frames, &mut [packet].into())?;
    queue.flush(&mut frames)?;
    while host.step(1_000) {}
    let mut burst = Burst::new();
    let received = queue.rx(&mut frames, &mut burst, 64)?;
    let mut answers = (0..received).filter_map(|slot| burst.take(slot));
    let answer = answers.find(|packet| packet.data().ends_with(b"hello"));
    println!("{} bytes came back", answer.ok_or("no answer")?.len());

    // The running host can be asked at any time. With threads instead of `step`: `builder.start()`.
    for reading in host.handle().readings().concat().iter().filter(|r| r.value > 0) {
        println!("{} {} {}: {}", reading.node, reading.kind.name(), reading.label, reading.value);
    }
    Ok(())
}

/// An echo request from 10.0.0.2 to 10.0.0.1.
fn ping(data: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let message = IcmpRepr::EchoRequest { ident: 1, seq: 1, data };
    let (src, dst) = ("10.0.0.2".parse()?, "10.0.0.1".parse()?);
    let payload_len = message.buffer_len() as u16;
    let (tos, ident, flags_frag, ttl, protocol) = (0, 0, 0, 64, protocol::ICMP);
    let header = Ipv4Repr { tos, ident, flags_frag, ttl, protocol, src, dst, payload_len };
    let mut frame = vec![0; 14 + header.buffer_len() + message.buffer_len()];
    let host = MacAddr([2, 0, 0, 0, 0, 1]);
    EthernetRepr { dst: host, src: PEER, ethertype: ethertype::IPV4 }.emit(&mut frame)?;
    header.emit(&mut frame[14..])?;
    message.emit(&mut frame[14 + header.buffer_len()..])?;
    Ok(frame)
}
