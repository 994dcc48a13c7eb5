use super::cutter::Job;
use super::*;

fn ethernet(ethertype: u16, tagged: bool) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if tagged {
        frame.extend([0x81, 0, 0, 7]);
    }
    frame.extend(ethertype.to_be_bytes());
    frame
}

/// A whole packet with the transport's header and `payload` bytes counted up.
fn packet(v6: bool, transport: Transport, tagged: bool, payload: usize) -> Vec<u8> {
    let header = if transport == Transport::Tcp { 32 } else { 8 };
    let mut frame = ethernet(if v6 { 0x86dd } else { 0x0800 }, tagged);
    let l3 = frame.len();
    let inner = header + payload;
    if v6 {
        frame.extend([0x60, 0, 0, 0]);
        // Destination options of eight bytes before the transport header.
        frame.extend(((inner + 8) as u16).to_be_bytes());
        frame.extend([60, 64]);
        frame.extend((0..32).map(|i| i as u8 ^ 0x20));
        frame.extend([transport.protocol(), 0, 1, 4, 0, 0, 0, 0]);
    } else {
        frame.extend([0x45, 0]);
        frame.extend(((20 + inner) as u16).to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 64, transport.protocol(), 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let l4 = frame.len();
    frame.extend([0x30, 0x39, 0, 80]);
    match transport {
        Transport::Udp => {
            frame.extend((inner as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        Transport::Tcp => {
            frame.extend([0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, 0x99, 1, 0, 0, 0, 0, 0]);
            frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        }
    }
    assert_eq!(frame.len(), l4 + header);
    frame.extend((0..payload).map(|i| (i * 7 + (i >> 8)) as u8));
    assert!(l3 >= 14);
    frame
}

fn pieces(frame: &[u8], transport: Transport, size: u16) -> Vec<Vec<u8>> {
    let mut cutter = Cutter::new();
    cutter.room()[..frame.len()].copy_from_slice(frame);
    assert!(cutter.start(frame.len(), transport, size));
    let mut pieces = Vec::new();
    while let Some(len) = cutter.next_len() {
        let mut piece = vec![0; len];
        cutter.cut(&mut piece);
        pieces.push(piece);
    }
    pieces
}

fn word(frame: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([frame[at], frame[at + 1]])
}

#[test]
fn pieces_are_packets_of_their_own_and_together_the_payload() {
    for v6 in [false, true] {
        for transport in [Transport::Tcp, Transport::Udp] {
            for tagged in [false, true] {
                let frame = packet(v6, transport, tagged, 3500);
                let whole = Layers::of(&frame).unwrap();
                let at = whole.payload(&frame).unwrap();
                let pieces = pieces(&frame, transport, 1400);
                let lengths: Vec<_> = pieces.iter().map(|piece| piece.len() - at).collect();
                assert_eq!(lengths, [1400, 1400, 700]);
                let joined: Vec<u8> = pieces.iter().flat_map(|p| p[at..].to_vec()).collect();
                assert_eq!(joined, frame[at..]);
                for (number, piece) in pieces.iter().enumerate() {
                    check_headers(piece, &whole, number);
                }
            }
        }
    }
}

fn check_headers(piece: &[u8], whole: &Layers, number: usize) {
    let layers = Layers::of(piece).expect("a piece is a packet");
    assert_eq!(layers, *whole);
    let Layers { l3, l4, v6, transport } = layers;
    if v6 {
        assert_eq!(word(piece, l3 + 4) as usize, piece.len() - l3 - 40);
    } else {
        assert_eq!(word(piece, l3 + 2) as usize, piece.len() - l3);
        assert_eq!(word(piece, l3 + 4), 0xffffu16.wrapping_add(number as u16));
        assert_eq!(sum(&piece[l3..l4]), 0xffff, "the IPv4 header's checksum is right");
    }
    assert_eq!(word(piece, layers.checksum()), pseudo(piece, &layers));
    match transport {
        Transport::Udp => assert_eq!(word(piece, l4 + 4) as usize, piece.len() - l4),
        Transport::Tcp => {
            let sequence = u32::from_be_bytes(piece[l4 + 4..l4 + 8].try_into().unwrap());
            assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1400 * number as u32));
            // CWR on the first, FIN and PSH on the last, ACK on all.
            assert_eq!(piece[l4 + 13], [0x90, 0x10, 0x19][number]);
        }
    }
}

#[test]
fn what_fits_one_piece_stays_one() {
    let frame = packet(false, Transport::Udp, false, 100);
    let pieces = pieces(&frame, Transport::Udp, 100);
    assert_eq!(pieces.len(), 1);
    assert_eq!(pieces[0].len(), frame.len());
}

#[test]
fn what_is_no_such_packet_is_refused() {
    let udp = packet(false, Transport::Udp, false, 100);
    assert!(Job::of(&udp, Transport::Tcp, 50).is_none(), "another protocol");
    assert!(Job::of(&udp, Transport::Udp, 0).is_none(), "pieces of nothing");
    let mut fragment = udp.clone();
    fragment[20] |= 0x20;
    assert!(Layers::of(&fragment).is_none(), "more fragments follow");
    for len in 0..42 {
        assert!(Layers::of(&udp[..len]).is_none(), "cut off at {len}");
    }
    let mut tcp = packet(true, Transport::Tcp, false, 0);
    let l4 = Layers::of(&tcp).unwrap().l4;
    tcp[l4 + 12] = 0x40;
    assert!(Layers::of(&tcp).is_none(), "a TCP header of 16 bytes");
    tcp[l4 + 12] = 0xf0;
    assert!(Layers::of(&tcp).is_none(), "a TCP header beyond the frame");
    let mut looping = packet(true, Transport::Udp, false, 200);
    (0..20).for_each(|i| looping[54 + 8 * i..56 + 8 * i].copy_from_slice(&[60, 0]));
    assert!(Layers::of(&looping).is_none(), "too long a chain");
}

#[test]
fn no_bytes_make_it_panic() {
    let mut cutter = Cutter::new();
    let mut state = 1u64;
    let base = packet(true, Transport::Tcp, false, 300);
    for round in 0..20_000 {
        let mut frame = base.clone();
        for _ in 0..4 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (state >> 33) as usize % 110;
            frame[at] = (state >> 20) as u8;
        }
        frame.truncate(round % frame.len());
        cutter.room()[..frame.len()].copy_from_slice(&frame);
        let transport = if round % 2 == 0 { Transport::Tcp } else { Transport::Udp };
        cutter.start(frame.len(), transport, (state >> 40) as u16 % 200);
        while let Some(len) = cutter.next_len() {
            cutter.cut(&mut vec![0; len]);
        }
    }
}

/// Segments as one packet; `None` if the first stays alone.
fn gathered(segments: &[Vec<u8>]) -> Option<(usize, Vec<u8>)> {
    let gathered = gather(segments.iter().map(Vec::as_slice))?;
    let payloads = segments[..gathered.count].iter().map(|s| &s[gathered.payload..]);
    let whole = [gathered.headers(), &payloads.collect::<Vec<_>>().concat()].concat();
    assert_eq!(usize::from(gathered.size), segments[0].len() - gathered.payload);
    Some((gathered.count, whole))
}

/// A TCP packet with ACK, PSH and FIN, and its pieces.
fn segments(v6: bool, tagged: bool, payload: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut whole = packet(v6, Transport::Tcp, tagged, payload);
    let layers = Layers::of(&whole).unwrap();
    whole[layers.l4 + 13] = 0x19;
    write_partial(&mut whole, &layers);
    if !v6 {
        write_ipv4(&mut whole, &layers);
    }
    let cut = pieces(&whole, Transport::Tcp, 1400);
    (whole, cut)
}

#[test]
fn what_was_cut_is_gathered_to_what_it_was() {
    for (v6, tagged) in [(false, false), (false, true), (true, false), (true, true)] {
        for payload in [1401, 2800, 3500, 60_000] {
            let (whole, cut) = segments(v6, tagged, payload);
            assert_eq!(gathered(&cut), Some((cut.len(), whole)), "{v6} {tagged} {payload}");
        }
    }
}

#[test]
fn segments_that_the_device_would_not_make_stay_alone() {
    let (_, cut) = segments(false, false, 5600);
    let layers = Layers::of(&cut[0]).unwrap();
    let l4 = layers.l4;
    let with = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = cut.clone();
        change(&mut changed[at]);
        gathered(&changed).map(|(count, _)| count)
    };
    assert_eq!(with(0, &|_| {}), Some(4));
    // Each of these ends the packet in front of the second segment, or behind it.
    type Change<'a> = &'a dyn Fn(&mut Vec<u8>);
    let alone: [Change<'_>; 9] = [
        &|s| s[l4 + 7] ^= 1,           // sequence number
        &|s| s[l4 + 11] ^= 1,          // acknowledgement
        &|s| s[l4 + 15] ^= 1,          // window
        &|s| s[l4 + 27] ^= 1,          // timestamp
        &|s| s[l4 + 1] ^= 1,           // port
        &|s| s[layers.l3 + 8] ^= 1,    // time to live
        &|s| s[layers.l3 + 1] ^= 0xfc, // service class
        &|s| s[l4 + 13] |= 2,          // SYN
        &|s| s.push(0),                // padding
    ];
    for (number, change) in alone.iter().enumerate() {
        assert_eq!(with(1, change), None, "{number}");
    }
    assert_eq!(with(1, &|s| s[l4 + 13] |= 8), Some(2), "PSH");
    assert_eq!(with(0, &|s| s[l4 + 13] |= 0x80), None, "CWR");
    let (_, short) = segments(false, false, 2000);
    assert_eq!(gathered(&[short[1].clone(), short[0].clone()]), None, "a longer one behind");
    let datagrams = pieces(&packet(false, Transport::Udp, false, 3000), Transport::Udp, 1400);
    assert_eq!(gathered(&datagrams), None);
    assert_eq!(gathered(&[]), None);
    // More than fits an IP packet, and more than a system call takes.
    let many = |size: usize, n: u32| -> Vec<Vec<u8>> {
        let segment = |i: u32| {
            let mut s = packet(false, Transport::Tcp, false, size);
            s[l4 + 4..l4 + 8].copy_from_slice(&(i * size as u32).to_be_bytes());
            s[l4 + 13] = 0x10;
            s
        };
        (0..n).map(segment).collect()
    };
    assert_eq!(gathered(&many(1400, 60)).unwrap().0, (65_535 - 52) / 1400);
    assert_eq!(gathered(&many(10, 80)).unwrap().0, MOST_PIECES);
}

#[test]
fn damaged_frames_are_gathered_without_a_panic() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for round in 0..20_000 {
        let (_, mut cut) = segments(round % 2 == 0, false, 3000);
        for segment in &mut cut {
            let at = random(90);
            segment[at] ^= 1 << random(8);
        }
        cut[1].truncate(random(160));
        let _ = gathered(&cut);
        cut.remove(0);
        let _ = gathered(&cut);
    }
}
