//! For any frames in any order: no panic, no buffer lost, one fate for each packet.

use proptest::collection::vec;
use proptest::prelude::*;
use weever_blocks_std::testing::{HostBox, frames::*, host::host_state};
use weever_engine::Limits;
use weever_models::{HostConfig, Service, host};
use weever_packet::Flags;

fn seeds() -> Vec<Vec<u8>> {
    vec![
        udp(5000, 7, b"payload"),
        udp(5000, 9, b"payload"),
        udp(5000, 11, b"payload"),
        echo_request(1, 2, b"data"),
        arp_request(HOST),
        arp_reply(),
        tagged(&udp(5000, 7, b"payload"), 0, 3),
        tagged(&tagged(&arp_request(HOST), 0, 3), 5, 0),
    ]
}

/// A host whose queues are soon full.
fn small(config: &HostConfig) -> HostBox {
    let limits = Limits { outbox: 256, blocked: 100, ..Limits::default() };
    HostBox::with(host(config).unwrap(), host_state(), limits)
}

#[derive(Clone, Debug)]
enum Step {
    Receive(Vec<Vec<u8>>, bool),
    Wait(u64),
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let mutated = (
        prop::sample::select(seeds()),
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        prop::option::weighted(0.3, any::<prop::sample::Index>()),
        vec(any::<u8>(), 0..20),
    )
        .prop_map(|(mut frame, changes, cut, tail)| {
            for (at, value) in changes {
                let at = at.index(frame.len());
                frame[at] = value;
            }
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len() + 1));
            }
            frame.extend(tail);
            frame
        });
    prop_oneof![4 => mutated, 1 => vec(any::<u8>(), 0..2000)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (vec(frame(), 1..80), any::<bool>()).prop_map(|(f, p)| Step::Receive(f, p)),
        1 => (0u64..3_000_000_000).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn every_packet_has_one_fate(steps in vec(step(), 1..8)) {
        let config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9).with_applications(true);
        let mut host = small(&config);
        for step in steps {
            match step {
                Step::Receive(frames, partial) => {
                    host.set_flags(if partial { Flags::MAY_BE_PARTIAL } else { Flags::NONE });
                    host.receive(&frames);
                }
                Step::Wait(nanos) => host.advance(nanos),
            }
            host.check_fates();
        }
        host.finish();
    }

    /// A batch of n equals n batches of one, but for ARP: its state is shared by packets that
    /// leave in a later task than they came.
    #[test]
    fn bursts_change_nothing(frames in vec(frame(), 1..64)) {
        let arp = |frame: &Vec<u8>| frame.windows(2).any(|pair| pair == [8, 6]);
        let frames: Vec<Vec<u8>> = frames.into_iter().filter(|frame| !arp(frame)).collect();
        let config = HostConfig::serving(Service::Echo, 7);
        let run = |together: bool| {
            let mut host = small(&config);
            host.receive(&[arp_request(HOST)]);
            match together {
                true => host.receive(&frames),
                false => frames.iter().for_each(|frame| host.receive(&[frame])),
            }
            let mut sent = host.sent();
            // Tasks of one burst are grouped by where they start.
            sent.sort();
            (sent, host.drops())
        };
        prop_assert_eq!(run(true), run(false));
    }
}
