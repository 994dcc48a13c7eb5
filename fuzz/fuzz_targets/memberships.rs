//! Any IGMP messages, joins and leaves: reports are sound, bounded, and come to rest.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use weever_fuzz::Input;
use weever_net::MILLIS;
use weever_net::group::{Filter, MembershipConfig, Memberships, Mode};
use weever_wire::igmp::{IgmpQuery, IgmpReport, checksum_ok};

fuzz_target!(|data: &[u8]| {
    let mut groups =
        Memberships::new(MembershipConfig { groups: 4, ..MembershipConfig::default() });
    let (mut now, mut out, mut input) = (0, [0; 1200], Input(data));
    while let Some([what, wait, len]) = input.array() {
        let bytes = input.bytes(len.into());
        now += u64::from(wait) * 100 * MILLIS;
        let group = Ipv4Addr::new(239, 0, 0, what & 7);
        if what & 0x80 == 0 {
            let sources: Vec<_> = bytes.iter().map(|n| Ipv4Addr::new(10, 0, 0, *n)).collect();
            let mode = if what & 0x40 == 0 { Mode::Include } else { Mode::Exclude };
            let _ = groups.set((what >> 3 & 3).into(), group, Filter::new(mode, &sources), now);
        } else if let Ok(query) = IgmpQuery::parse(bytes) {
            groups.query(query.into(), query.sources.iter(), now);
        } else {
            groups.receive_report(group, now);
        }
        let mut messages = 0;
        while let Some(sent) = groups.poll(now, Ipv4Addr::LOCALHOST, &mut out) {
            let message = &out[..sent.len];
            assert!(checksum_ok(message));
            assert!(
                IgmpReport::parse(message).is_err()
                    || IgmpReport::parse(message).unwrap().all(|r| r.is_ok())
            );
            messages += 1;
            assert!(messages < 20);
        }
        assert!(groups.poll_at().is_none_or(|at| at > now));
    }
});
