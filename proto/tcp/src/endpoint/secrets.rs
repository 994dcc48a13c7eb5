//! Numbers that others must not be able to predict, all from one key: initial sequence numbers,
//! timestamps' offsets, ports, SYN cookies.

use weever_net::MILLIS;
use weever_net::random::keyed_hash;
use weever_wire::tcp::Seq;

use crate::segment::stamp;
use crate::{Nanos, Tuple};

/// The keys of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Secrets {
    demux: [u64; 6],
    isn: [u64; 2],
    stamp: [u64; 2],
    port: [u64; 2],
    cookie: [u64; 2],
    fast_open: [u64; 2],
}

/// Segment sizes that a cookie can tell (RFC 4987 §3.6 leaves them open).
const SIZES: [u16; 8] = [88, 536, 1024, 1220, 1360, 1412, 1440, 1460];
/// Time in which cookies are counted; one is good for this long up to twice as long.
const COOKIE_PERIOD: Nanos = 64_000 * MILLIS;
/// The key of Fast Open's cookies changes after this time; a cookie is valid for one to two such periods.
const FAST_OPEN_PERIOD: Nanos = 4 * 3600 * 1000 * MILLIS;
/// The low bits of the timestamp that goes with a cookie: they hold the peer's options.
const STAMP_BITS: u32 = 6;
const NO_SCALE: u32 = 15;

/// The values of a SYN that a cookie remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) mss: u16,
    /// Window scale, selective acknowledgements and timestamps: known only if the peer has timestamps.
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

impl Secrets {
    /// Keys of their own for each purpose, from the root key.
    pub(crate) fn new(root: [u64; 2]) -> Self {
        let key = |purpose: u64| [keyed_hash(root, &[purpose, 0]), keyed_hash(root, &[purpose, 1])];
        let demux = core::array::from_fn(|at| keyed_hash(root, &[1, at as u64]));
        Self { demux, isn: key(2), stamp: key(3), port: key(4), cookie: key(5), fast_open: key(6) }
    }

    pub(crate) fn demux(&self, tuple: &Tuple) -> u64 {
        tuple.quick_hash(&self.demux)
    }

    /// RFC 6528 §3: "ISN = M + F(localip, localport, remoteip, remoteport, secretkey)", where M is "the
    /// 4 microsecond timer".
    pub(crate) fn isn(&self, tuple: &Tuple, now: Nanos) -> Seq {
        Seq((now / 4000) as u32) + tuple.hash(self.isn) as u32
    }

    /// RFC 7323 §5.4, §7.1: an offset per connection, the same for one that follows it between the
    /// same ends, so that its timestamps go on growing.
    pub(crate) fn stamp_offset(&self, tuple: &Tuple) -> u32 {
        tuple.hash(self.stamp) as u32
    }

    /// RFC 6056 §3.3.3 (algorithm 3): where to begin the search for a free port.
    pub(crate) fn first_port(&self, tuple: &Tuple) -> u32 {
        Tuple { local_port: 0, ..*tuple }.hash(self.port) as u32
    }

    /// The sequence number that stands for a half-open connection (RFC 4987 §3.6).
    pub(crate) fn cookie(&self, tuple: &Tuple, irs: Seq, mss: u16, now: Nanos) -> Seq {
        let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0) as u32;
        Seq(self.cookie_hash(tuple, irs, now / COOKIE_PERIOD, size) << 3 | size)
    }

    fn cookie_hash(&self, tuple: &Tuple, irs: Seq, period: u64, size: u32) -> u32 {
        let words = [tuple.hash(self.cookie), u64::from(irs.0), period, u64::from(size)];
        keyed_hash(self.cookie, &words) as u32 & (u32::MAX >> 3)
    }

    /// The segment size that a cookie tells, if it is one of the last two periods.
    pub(crate) fn check_cookie(
        &self,
        tuple: &Tuple,
        irs: Seq,
        cookie: Seq,
        now: Nanos,
    ) -> Option<u16> {
        let (size, period) = (cookie.0 & 7, now / COOKIE_PERIOD);
        let good = |period| self.cookie_hash(tuple, irs, period, size) == cookie.0 >> 3;
        (good(period) || period.checked_sub(1).is_some_and(good)).then_some(SIZES[size as usize])
    }

    /// The cookie of a client (RFC 7413 §4.1.2): a keyed hash of its address and of ours, under a key that
    /// changes.
    pub(crate) fn fast_open(&self, tuple: &Tuple, now: Nanos) -> [u8; 8] {
        self.fast_open_hash(tuple, now / FAST_OPEN_PERIOD)
    }

    fn fast_open_hash(&self, tuple: &Tuple, period: u64) -> [u8; 8] {
        let key =
            [keyed_hash(self.fast_open, &[period, 0]), keyed_hash(self.fast_open, &[period, 1])];
        Tuple { local_port: 0, remote_port: 0, ..*tuple }.hash(key).to_be_bytes()
    }

    /// Whether a cookie was made with one of the last two keys, and then whether with the last one.
    pub(crate) fn check_fast_open(&self, tuple: &Tuple, cookie: &[u8], now: Nanos) -> Option<bool> {
        let period = now / FAST_OPEN_PERIOD;
        if cookie == self.fast_open_hash(tuple, period) {
            return Some(true);
        }
        let before = period.checked_sub(1)?;
        (cookie == self.fast_open_hash(tuple, before)).then_some(false)
    }

    /// A timestamp that remembers options, not ahead of the clock.
    pub(crate) fn cookie_stamp(&self, tuple: &Tuple, options: Remembered, now: Nanos) -> u32 {
        let clock = stamp(now, self.stamp_offset(tuple));
        let scale = options.window_scale.map_or(NO_SCALE, u32::from);
        let bits = scale << 2 | u32::from(options.sack) << 1 | u32::from(options.ecn);
        let value = clock >> STAMP_BITS << STAMP_BITS | bits;
        if Seq(value).gt(Seq(clock)) { value.wrapping_sub(1 << STAMP_BITS) } else { value }
    }

    /// The values that the echo of such a timestamp remembers.
    pub(crate) fn remembered(mss: u16, echo: Option<u32>) -> Remembered {
        let Some(bits) = echo else {
            return Remembered { mss, window_scale: None, sack: false, ecn: false };
        };
        let scale = bits >> 2 & 15;
        Remembered {
            mss,
            window_scale: (scale != NO_SCALE).then_some(scale as u8),
            sack: bits >> 1 & 1 != 0,
            ecn: bits & 1 != 0,
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};
    use weever_net::SECOND;

    fn tuple(port: u16) -> Tuple {
        let local = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let remote = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
        Tuple { local, remote, local_port: 80, remote_port: port }
    }

    proptest! {
        #[test]
        fn a_cookie_is_good_for_its_connection_and_its_time(
            key: [u64; 2], port: u16, irs: u32, mss: u16, now in 0u64..1 << 50,
        ) {
            let (secrets, irs) = (Secrets::new(key), Seq(irs));
            let cookie = secrets.cookie(&tuple(port), irs, mss, now);
            let told = secrets.check_cookie(&tuple(port), irs, cookie, now + 60 * SECOND);
            prop_assert!(told.is_some_and(|told| told <= mss.max(88)));
            let late = now + 3 * COOKIE_PERIOD;
            prop_assert_eq!(secrets.check_cookie(&tuple(port), irs, cookie, late), None);
            let other = tuple(port.wrapping_add(1));
            prop_assert_eq!(secrets.check_cookie(&other, irs, cookie, now), None);
            prop_assert_eq!(secrets.check_cookie(&tuple(port), irs, cookie + 8, now), None);
        }

        #[test]
        fn a_timestamp_remembers_the_options(
            key: [u64; 2], scale in proptest::option::of(0u8..15), sack: bool, ecn: bool,
            now in 0u64..1 << 60,
        ) {
            let secrets = Secrets::new(key);
            let options = Remembered { mss: 1460, window_scale: scale, sack, ecn };
            let value = secrets.cookie_stamp(&tuple(1), options, now);
            prop_assert_eq!(Secrets::remembered(1460, Some(value)), options);
            let clock = stamp(now, secrets.stamp_offset(&tuple(1)));
            prop_assert!(clock.wrapping_sub(value) < 128);
        }
    }

    #[test]
    fn a_fast_open_cookie_is_of_two_addresses_and_two_periods() {
        let (secrets, now) = (Secrets::new([5, 6]), 10 * FAST_OPEN_PERIOD);
        let cookie = secrets.fast_open(&tuple(1), now);
        let check =
            |tuple: &Tuple, later: Nanos| secrets.check_fast_open(tuple, &cookie, now + later);
        assert_eq!(check(&tuple(2), FAST_OPEN_PERIOD - 1), Some(true), "of any port");
        assert_eq!(check(&tuple(1), FAST_OPEN_PERIOD), Some(false));
        assert_eq!(check(&tuple(1), 2 * FAST_OPEN_PERIOD), None);
        let other = Tuple { remote: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3)), ..tuple(1) };
        assert_eq!(check(&other, 0), None);
        assert_eq!(secrets.check_fast_open(&tuple(1), &cookie[..6], now), None);
    }

    #[test]
    fn initial_numbers_grow_with_the_clock_and_differ_between_ends() {
        let secrets = Secrets::new([1, 2]);
        let (a, b) = (secrets.isn(&tuple(1), 0), secrets.isn(&tuple(1), SECOND));
        assert_eq!(b - a, 250_000);
        assert_ne!(secrets.isn(&tuple(2), 0), a);
    }
}
