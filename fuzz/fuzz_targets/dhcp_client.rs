//! Any answers at any time: the client neither panics, nor floods, nor forgets its timer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_fuzz::Input;
use weever_net::SECOND;
use weever_net::dhcp4::{Client, ClientConfig, Output, Probing, State};
use weever_wire::MacAddr;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

fuzz_target!(|data: &[u8]| {
    let config = ClientConfig {
        mac: MAC,
        random: weever_net::random::Random::new(1),
        probing: Probing::RFC5227,
    };
    let (mut client, mut now, mut xid) = (Client::new(config, 0), 0, [0; 4]);
    let mut input = Input(data);
    while let Some([len, wait]) = input.array() {
        let options = input.bytes(len.into());
        now += u64::from(wait) * SECOND;
        for turn in 0.. {
            assert!(turn < 10, "it comes to rest");
            match client.poll(now) {
                Some(Output::Send(transmit)) => {
                    let mut buf = [0; 600];
                    transmit.emit(&mut buf).expect("600 bytes are enough");
                    xid.copy_from_slice(&buf[4..8]);
                }
                Some(_) => {}
                None => break,
            }
        }
        assert!(client.state() == State::Stopped || client.poll_at().is_some_and(|at| at > now));
        let _ = client.handle(&reply(xid, options), now);
        if let Some(ip) = client.probed().filter(|_| wait & 1 == 1) {
            client.conflict(ip, now);
        }
    }
});

/// A message with these options that passes for an answer to us.
fn reply(xid: [u8; 4], options: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 240];
    message[..3].copy_from_slice(&[2, 1, 6]);
    message[4..8].copy_from_slice(&xid);
    message[16..20].copy_from_slice(&[10, 0, 0, 9]);
    message[28..34].copy_from_slice(&MAC.0);
    message[236..].copy_from_slice(&[99, 130, 83, 99]);
    message.extend_from_slice(options);
    message
}
