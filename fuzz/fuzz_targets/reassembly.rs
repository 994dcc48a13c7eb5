//! Any packets in any order, with time passing: reassembly stays within its bounds, a completed
//! datagram is sound, and a datagram that is cut up comes together again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_fuzz::Input;
use weever_net::SECOND;
use weever_net::fragment::{Offer, Piece, Reassembler, ReassemblyConfig, split_v4, split_v6};
use weever_wire::ipv4::Ipv4View;
use weever_wire::ipv6::Ipv6View;

fuzz_target!(|data: &[u8]| {
    let config = ReassemblyConfig {
        datagrams: 4,
        per_source: 3,
        bytes: 4096,
        ..ReassemblyConfig::default()
    };
    let (mut table, mut now) = (Reassembler::new(config), 0);
    let mut input = Input(data);
    while let Some([len, wait]) = input.array() {
        let packet = input.bytes(len.into());
        now += u64::from(wait) * SECOND / 8;
        table.poll(now, |expired| assert!(expired.quote.is_none_or(|quote| !quote.is_empty())));
        take(&mut table, packet, now);
        cut(packet);
        assert!(table.len() <= 4 && table.bytes() < 4096 + 256);
        assert!(table.poll_at().is_none_or(|at| at > now));
    }
});

fn take(table: &mut Reassembler<Vec<u8>>, packet: &[u8], now: u64) {
    let _ = Piece::atomic(packet);
    for family in [Piece::v4, Piece::v6] {
        let Ok(Some(piece)) = family(packet, 0) else { continue };
        if let Offer::Whole(room, len) = table.offer(&piece, now, || Some(vec![0; 65_535])) {
            match room[0] >> 4 {
                4 => assert!(Ipv4View::new(&room[..len]).is_ok_and(|v| v.checksum_ok())),
                _ => assert!(Ipv6View::new(&room[..len]).is_ok()),
            }
        }
    }
}

fn cut(packet: &[u8]) {
    let mut out = [0; 128];
    let splits = [split_v4(packet, 68, Some(7)), split_v6(packet, 128, 7)];
    for mut split in splits.into_iter().flatten() {
        let (count, mut made) = (split.count(), 0);
        while split.next(&mut out).is_some() {
            made += 1;
        }
        assert!(made == count || made == 0);
    }
}
