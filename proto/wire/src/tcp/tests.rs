//! Headers and options against an independent parser, and the handling of malformed options.

use super::*;
use etherparse::{TcpHeaderSlice, TcpOptionElement};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn round_trip(ports: (u16, u16), seq: u32, ack: u32, flags: u8, rest: (u16, u16, u16)) {
        let ((src_port, dst_port), (window, checksum, urgent)) = (ports, rest);
        let repr =
            TcpRepr { src_port, dst_port, seq, ack, flags, window, checksum, urgent };
        let mut buf = [0xee; HEADER_LEN + 5];
        repr.emit(&mut buf).unwrap();
        let view = TcpView::new(&buf).unwrap();
        prop_assert_eq!(TcpRepr::parse(view.header()), repr);
        prop_assert_eq!((view.options().len(), view.payload().len()), (0, 5));
    }

    #[test]
    fn agrees_with_etherparse(bytes in vec(any::<u8>(), 0..80)) {
        match (TcpView::new(&bytes), TcpHeaderSlice::from_slice(&bytes)) {
            (Ok(view), Ok(theirs)) => {
                let ours = view.header();
                prop_assert_eq!(ours.src_port(), theirs.source_port());
                prop_assert_eq!(ours.dst_port(), theirs.destination_port());
                prop_assert_eq!(ours.seq(), theirs.sequence_number());
                prop_assert_eq!(ours.ack(), theirs.acknowledgment_number());
                prop_assert_eq!(ours.flags() & flag::SYN != 0, theirs.syn());
                prop_assert_eq!(ours.flags() & flag::CWR != 0, theirs.cwr());
                prop_assert_eq!(ours.window(), theirs.window_size());
                prop_assert_eq!(ours.checksum(), theirs.checksum());
                prop_assert_eq!(ours.urgent(), theirs.urgent_pointer());
                prop_assert_eq!(view.options(), theirs.options());
            }
            (ours, theirs) => prop_assert!(ours.is_err() && theirs.is_err()),
        }
    }
}

fn repr() -> impl Strategy<Value = TcpOptionsRepr> {
    let blocks = vec((any::<u32>(), any::<u32>()), 0..4);
    let cookie = proptest::option::of((any::<[u8; 16]>(), 0u8..=5));
    let some = (any::<Option<u16>>(), proptest::option::of(0u8..15), any::<bool>());
    (some, any::<Option<(u32, u32)>>(), blocks, cookie).prop_map(
        |((mss, window_scale, sack_permitted), stamps, blocks, cookie)| {
            let timestamps = stamps.map(|(value, echo)| Timestamps { value, echo });
            let mut repr = TcpOptionsRepr {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack_count: blocks.len() as u8,
                fast_open: cookie.map(|(cookie, n)| (cookie, [0, 4, 6, 8, 12, 16][usize::from(n)])),
                ..TcpOptionsRepr::default()
            };
            for (at, (start, end)) in blocks.into_iter().enumerate() {
                repr.sack[at] = (Seq(start), Seq(end));
            }
            repr
        },
    )
}

proptest! {
    #[test]
    fn options_round_trip(repr in repr()) {
        let mut buf = [0xee; 64];
        if repr.len() > MAX_OPTIONS_LEN {
            prop_assert!(repr.emit(&mut buf).is_err());
            return Ok(());
        }
        let len = repr.emit(&mut buf).unwrap();
        prop_assert_eq!((len, len % 4), (repr.len(), 0));
        prop_assert!(buf[len..].iter().all(|byte| *byte == 0xee));
        let parsed = TcpOptions::parse(&buf[..len]).unwrap();
        prop_assert_eq!(parsed.mss, repr.mss);
        prop_assert_eq!(parsed.window_scale, repr.window_scale);
        prop_assert_eq!(parsed.sack_permitted, repr.sack_permitted);
        prop_assert_eq!(parsed.timestamps, repr.timestamps);
        let cookie = repr.fast_open.as_ref().map(|(cookie, len)| &cookie[..usize::from(*len)]);
        prop_assert_eq!(parsed.fast_open, cookie);
        let blocks: std::vec::Vec<_> = parsed.sack_blocks().collect();
        prop_assert_eq!(&blocks[..], &repr.sack[..usize::from(repr.sack_count)]);
    }

    #[test]
    fn the_usual_header_is_written_and_summed_as_any_other(
        ports: (u16, u16), seq: u32, ack: u32, rest: (u8, u16, u16), stamps: (u32, u32),
    ) {
        let ((src_port, dst_port), (flags, window, urgent)) = (ports, rest);
        let repr = TcpRepr { src_port, dst_port, seq, ack, flags, window, checksum: 0, urgent };
        let stamps = Timestamps { value: stamps.0, echo: stamps.1 };
        let options = TcpOptionsRepr { timestamps: Some(stamps), ..TcpOptionsRepr::default() };
        prop_assert_eq!(options.only_timestamps(), Some(stamps));
        let (mut usual, mut any) = ([0xaa; USUAL_LEN], [0xaa; USUAL_LEN]);
        let words = repr.emit_usual(stamps, &mut usual);
        prop_assert_eq!(repr.emit_with_options(&options, &mut any), Ok(USUAL_LEN));
        prop_assert_eq!(usual, any);
        let pseudo = Pseudo::v4(&[10, 0, 0, 1, 10, 0, 0, 2], 6, USUAL_LEN as u16);
        prop_assert_eq!(pseudo.checksum_of(words), pseudo.checksum(&usual));
    }

    #[test]
    fn options_agree_with_etherparse(repr in repr()) {
        let mut buf = [0; HEADER_LEN + MAX_OPTIONS_LEN];
        let header = TcpRepr { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: flag::ACK,
            window: 5, checksum: 0, urgent: 0 };
        let Ok(len) = header.emit_with_options(&repr, &mut buf) else { return Ok(()) };
        let theirs = TcpHeaderSlice::from_slice(&buf[..len]).unwrap();
        let ours = TcpOptions::parse(TcpView::new(&buf[..len]).unwrap().options()).unwrap();
        for element in theirs.options_iterator() {
            // It does not know Fast Open.
            let Ok(element) = element else { break };
            match element {
                TcpOptionElement::Noop => {}
                TcpOptionElement::MaximumSegmentSize(mss) => prop_assert_eq!(ours.mss, Some(mss)),
                TcpOptionElement::WindowScale(n) => prop_assert_eq!(ours.window_scale, Some(n)),
                TcpOptionElement::SelectiveAcknowledgementPermitted => {
                    prop_assert!(ours.sack_permitted);
                }
                TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                    let theirs = core::iter::once(first).chain(rest.into_iter().flatten());
                    let ours = ours.sack_blocks().map(|(start, end)| (start.0, end.0));
                    prop_assert!(ours.eq(theirs));
                }
                TcpOptionElement::Timestamp(value, echo) => {
                    prop_assert_eq!(ours.timestamps, Some(Timestamps { value, echo }));
                }
            }
        }
    }

    #[test]
    fn any_options_are_read_or_refused(bytes in vec(any::<u8>(), 0..=40)) {
        if let Ok(options) = TcpOptions::parse(&bytes) {
            prop_assert!(options.window_scale.is_none_or(|shift| shift <= MAX_WINDOW_SCALE));
            prop_assert_eq!(options.sack_blocks().count() * 8, options.sack.len());
            prop_assert!(options.fast_open.is_none_or(|cookie| cookie.len() <= 16));
        }
    }

    #[test]
    fn a_filled_checksum_verifies(addresses: [u8; 8], payload in vec(any::<u8>(), 0..50)) {
        let header = TcpRepr { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: flag::ACK,
            window: 5, checksum: 77, urgent: 0 };
        let mut segment = [&[0; HEADER_LEN], &payload[..]].concat();
        header.emit(&mut segment).unwrap();
        let pseudo = Pseudo::v4(&addresses, 6, segment.len() as u16);
        fill_checksum(&mut segment, pseudo);
        prop_assert!(pseudo.verifies(&segment));
        fill_checksum(&mut segment[..3], pseudo);
    }
}

#[test]
fn malformed_options_are_refused_and_unknown_ones_skipped() {
    // A length of zero or one, one beyond the header, none at all, and wrong ones for their kind.
    for bytes in [&[2u8, 0][..], &[9, 1], &[2, 5, 0, 0], &[9], &[2, 3, 0], &[3, 2], &[5, 3, 0]] {
        assert!(TcpOptions::parse(bytes).is_err(), "{bytes:?}");
    }
    let bytes = [200, 3, 9, 2, 4, 5, 180, 3, 3, 99, 0, 2, 0];
    let options = TcpOptions::parse(&bytes).unwrap();
    assert_eq!((options.mss, options.window_scale), (Some(1460), Some(14)));
    // A cookie of a length that cannot be is ignored (RFC 7413 §4.1.1).
    assert_eq!(TcpOptions::parse(&[34, 5, 1, 2, 3]).unwrap().fast_open, None);
}
