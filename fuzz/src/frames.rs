//! Frames made from a fuzz input, repaired to get further than chance would, and checks of the answers.

use weever_wire::checksum::{combine, finish, pseudo_v4, sum};
use weever_wire::ipv4::{Ipv4View, protocol};

use crate::Input;

/// The checksums of the frame are put right, so that it gets further than that.
const REPAIR: u8 = 1;
/// The host's address is put in as the destination.
const TO_HOST: u8 = 4;
/// An IPv4 header behind an Ethernet header without a tag.
const L3: usize = 14;

/// The next step of the input: its flags, and its frame.
pub fn next<'a>(input: &mut Input<'a>) -> Option<(u8, &'a [u8])> {
    let [flags, low, high] = input.array()?;
    let length = u16::from_le_bytes([low, high]) % 1600;
    Some((flags, input.bytes(length.into())))
}

/// The frame as its flags want it.
pub fn shaped(flags: u8, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if flags & TO_HOST != 0 {
        address(&mut frame);
    }
    if flags & REPAIR != 0 {
        repair(&mut frame);
    }
    frame
}

/// Frames that leave the host are whole, have right checksums and come from its own address.
pub fn check_sent(frame: &[u8]) {
    assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 1], "from the host's station");
    if frame[12..14] == [0x08, 0x00] {
        let view = Ipv4View::new(&frame[L3..]).expect("a whole datagram");
        assert!(view.checksum_ok());
        assert_eq!(view.header().src().octets(), [10, 0, 0, 1]);
    }
}

fn address(frame: &mut [u8]) {
    if let Some(mac) = frame.get_mut(..6) {
        mac.copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    }
    if let Some(ip) = frame.get_mut(L3 + 16..L3 + 20) {
        ip.copy_from_slice(&[10, 0, 0, 1]);
    }
}

fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(L3..) else { return };
    let Ok(view) = Ipv4View::new(packet) else { return };
    let (l4, end) = (view.header_bytes().len(), view.header_bytes().len() + view.payload().len());
    let header = view.header();
    let (proto, pseudo) = (
        header.protocol(),
        pseudo_v4(header.src(), header.dst(), header.protocol(), (end - l4) as u16),
    );
    let transport = &mut packet[l4..end];
    match proto {
        protocol::UDP => fill(transport, 6, pseudo),
        protocol::ICMP => fill(transport, 2, 0),
        _ => {}
    }
    fill(&mut packet[..l4], 10, 0);
}

/// Writes the checksum over `bytes`, with `before` as the sum of the bytes ahead of them, to place `at`.
fn fill(bytes: &mut [u8], at: usize, before: u16) {
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let check = finish(combine(before, sum(bytes)));
    bytes[at..at + 2].copy_from_slice(&check.to_be_bytes());
}
