//! Random frames of all forms that drivers and programs treat differently: tags, fragments, options,
//! extension headers, tunnels. Addresses and ports are few, so that filters meet them.

use fastrand::Rng;

const IP4: [u8; 2] = [0x08, 0x00];
const IP6: [u8; 2] = [0x86, 0xdd];
const PORTS: [u16; 4] = [53, 80, 1000, 4789];

/// A well-formed frame.
pub(crate) fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match rng.u8(..12) {
        0 | 1 => tag(&mut frame, [0x81, 0], rng),
        2 => tag(&mut frame, [0x88, 0xa8], rng),
        3 => {
            tag(&mut frame, [0x88, 0xa8], rng);
            tag(&mut frame, [0x81, 0], rng);
        }
        _ => {}
    }
    match rng.u8(..20) {
        0 => {
            frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend([1; 20]);
        }
        1 => {
            frame.extend([0x88, 0xcc]);
            frame.extend([0; 46]);
        }
        2..9 => {
            frame.extend(IP6);
            frame.extend(packet6(rng));
        }
        _ => {
            frame.extend(IP4);
            frame.extend(packet4(rng, true));
        }
    }
    frame
}

fn tag(frame: &mut Vec<u8>, kind: [u8; 2], rng: &mut Rng) {
    frame.extend(kind);
    let vlan = [7u16, 9, 100][rng.usize(..3)] | u16::from(rng.u8(..8)) << 13;
    frame.extend(vlan.to_be_bytes());
}

fn protocol(rng: &mut Rng, icmp: u8, may_tunnel: bool) -> u8 {
    match rng.u8(..12) {
        0..5 => 17,
        5..8 => 6,
        8 => 132,
        9 => icmp,
        10 if may_tunnel => [4, 47][rng.usize(..2)],
        _ => [2, 50, 89][rng.usize(..3)],
    }
}

fn packet4(rng: &mut Rng, may_tunnel: bool) -> Vec<u8> {
    let protocol = protocol(rng, 1, may_tunnel);
    let options = if rng.u8(..6) == 0 { 1 + rng.usize(..3) } else { 0 };
    // Whole, the first of several fragments, or a later one.
    let fragment: u16 = match rng.u8(..10) {
        0 => 0x2000,
        1 => (0x2000 * rng.u16(..2)) | (1 + rng.u16(..100)),
        _ => 0x4000 * rng.u16(..2),
    };
    let body = body(rng, protocol);
    let length = (20 + 4 * options + body.len()) as u16;
    let mut packet = vec![0x45 + options as u8, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    for _ in 0..2 {
        packet.extend([10, 0, rng.u8(..3), 1 + rng.u8(..3)]);
    }
    packet.extend(vec![1; 4 * options]);
    packet.extend(body);
    packet
}

fn packet6(rng: &mut Rng) -> Vec<u8> {
    let upper = protocol(rng, 58, true);
    let extension = (rng.u8(..4) == 0).then(|| [0, 43, 44, 60][rng.usize(..4)]);
    let mut behind = Vec::new();
    if let Some(kind) = extension {
        behind.extend([upper, 0, 0, 0, 0, 0, 0, 0]);
        if kind == 44 && rng.bool() {
            behind[3] = 1;
        }
    }
    behind.extend(body(rng, upper));
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((behind.len() as u16).to_be_bytes());
    packet.extend([extension.unwrap_or(upper), 64]);
    for _ in 0..2 {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, rng.u8(..2), 0, 0, 0, 0, 0, 0, 0, 1 + rng.u8(..3)]);
    }
    packet.extend(behind);
    packet
}

/// The octets behind an IP header: a transport's header, another packet, or anything.
fn body(rng: &mut Rng, protocol: u8) -> Vec<u8> {
    let mut body = Vec::new();
    match protocol {
        4 => return packet4(rng, false),
        47 => {
            body.extend([0, 0, 8, 0]);
            body.extend(packet4(rng, false));
            return body;
        }
        6 | 17 | 132 => {
            for _ in 0..2 {
                body.extend(PORTS[rng.usize(..PORTS.len())].to_be_bytes());
            }
        }
        _ => body.extend([8, 0, 0, 0]),
    }
    match protocol {
        6 => body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, rng.u8(..64), 1, 0, 0, 0, 0, 0]),
        17 => body.extend([0, 32, 0, 0]),
        _ => {}
    }
    body.resize(40, 0);
    body
}
