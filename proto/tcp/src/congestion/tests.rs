//! Windows as the RFCs' equations have them.

use weever_net::{MILLIS, SECOND};
use weever_wire::tcp::Seq;

use super::*;
use crate::Nanos;

const MSS: u32 = 1000;

fn window(segments: u32, ssthresh: u32) -> Window {
    Window { cwnd: segments * MSS, ssthresh, mss: MSS }
}

/// A path on which every round trip delivers the whole window, one segment an acknowledgement.
struct Path {
    now: Nanos,
    rtt: Nanos,
    una: Seq,
}

impl Path {
    fn new(rtt: Nanos) -> Self {
        Self { now: SECOND, rtt, una: Seq(1) }
    }

    fn round(&mut self, control: &mut dyn CongestionControl, window: &mut Window, marked: u32) {
        self.now += self.rtt;
        let segments = window.cwnd / MSS;
        for at in 0..segments {
            self.una += MSS;
            let acked = Acked {
                now: self.now + self.rtt * u64::from(at) / u64::from(segments),
                octets: MSS,
                rtt: Some(self.rtt),
                smoothed_rtt: self.rtt,
                min_rtt: self.rtt,
                una: self.una,
                nxt: self.una + window.cwnd,
                marked: at < marked,
                may_grow: true,
            };
            control.acked(window, &acked);
        }
    }
}

#[test]
fn the_initial_window_is_that_of_rfc_6928() {
    assert_eq!(initial_window(1460, 10), 14600);
    assert_eq!(initial_window(536, 10), 5360);
    assert_eq!(initial_window(9000, 10), 18000);
    assert_eq!(initial_window(1460, 1), 1460);
}

#[test]
fn reno_doubles_and_then_adds_a_segment_a_round() {
    let (mut reno, mut path) = (Reno::default(), Path::new(100 * MILLIS));
    let mut window = window(10, 40 * MSS);
    path.round(&mut reno, &mut window, 0);
    assert_eq!(window.cwnd, 20 * MSS);
    path.round(&mut reno, &mut window, 0);
    assert_eq!(window.cwnd, 40 * MSS);
    path.round(&mut reno, &mut window, 0);
    assert_eq!(window.cwnd, 41 * MSS);
    assert_eq!(reno.reduce(&window, Congestion::Loss, 0), 41 * MSS / 2);
    assert_eq!(reno.reduce(&super::tests::window(2, 0), Congestion::Loss, 0), 2 * MSS);
}

#[test]
fn cubic_returns_to_its_maximum_after_k_seconds() {
    let (mut cubic, mut path) = (Cubic::default(), Path::new(100 * MILLIS));
    let mut window = window(1000, u32::MAX / 2);
    window.ssthresh = cubic.reduce(&window, Congestion::Loss, path.now);
    assert_eq!(window.ssthresh, 700 * MSS);
    window.cwnd = window.ssthresh;
    // K = cbrt(1000 * 0.3 / 0.4) = 9.09 s: the plateau around W_max is reached then.
    for _ in 0..91 {
        path.round(&mut cubic, &mut window, 0);
        assert!(window.cwnd < 1010 * MSS, "{}", window.cwnd);
    }
    assert!((980 * MSS..1010 * MSS).contains(&window.cwnd), "{}", window.cwnd);
    // Beyond it the curve is convex: 0.4 * 5^3 = 50 segments more after 5 s.
    for _ in 0..50 {
        path.round(&mut cubic, &mut window, 0);
    }
    assert!((1035 * MSS..1070 * MSS).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn cubic_is_never_slower_than_reno_on_short_paths() {
    let (mut cubic, mut path) = (Cubic::default(), Path::new(MILLIS));
    let mut cubic_window = window(20, u32::MAX / 2);
    cubic_window.ssthresh = cubic.reduce(&cubic_window, Congestion::Loss, path.now);
    cubic_window.cwnd = cubic_window.ssthresh;
    for _ in 0..100 {
        path.round(&mut cubic, &mut cubic_window, 0);
    }
    // α = 3 * 0.3 / 1.7 = 0.53 segments a round up to 20, and then 1.
    let segments = cubic_window.cwnd / MSS;
    assert!((80..110).contains(&segments), "{segments}");
}

#[test]
fn cubic_leaves_slow_start_when_delay_grows() {
    let mut cubic = Cubic::default();
    let (mut window, mut path) = (window(10, u32::MAX), Path::new(50 * MILLIS));
    for _ in 0..4 {
        path.round(&mut cubic, &mut window, 0);
    }
    assert_eq!(window.cwnd, 160 * MSS);
    // From here on each round trip is longer by a quarter of the first: a queue builds up.
    for round in 0..8 {
        path.rtt = (50 + 12 * (round + 1)) * MILLIS;
        path.round(&mut cubic, &mut window, 0);
    }
    assert!(window.ssthresh != u32::MAX, "slow start is over");
    assert!(window.cwnd < 16 * 160 * MSS, "and was slower at its end: {}", window.cwnd);
}

#[test]
fn dctcp_falls_in_proportion_to_marks() {
    let (mut dctcp, mut path) = (Dctcp::default(), Path::new(MILLIS));
    let mut few = window(100, 50 * MSS);
    for _ in 0..200 {
        few.cwnd = 100 * MSS;
        path.round(&mut dctcp, &mut few, 10);
    }
    few.cwnd = 100 * MSS;
    let after = dctcp.reduce(&few, Congestion::Mark, 0) / MSS;
    // A tenth was marked, so the window falls by about a twentieth.
    assert!((93..=96).contains(&after), "{after}");
    assert_eq!(dctcp.reduce(&few, Congestion::Loss, 0), 50 * MSS);
}

#[test]
fn proportional_reduction_ends_at_the_threshold() {
    // 20 segments in flight, one lost, threshold 10: each acknowledgement lets half a segment out.
    let mut window = window(20, 10 * MSS);
    let mut prr = Prr::begin(20 * MSS);
    let mut pipe = 19 * MSS;
    prr.acked(&mut window, 0, pipe, false);
    let mut sent = 0;
    for _ in 0..19 {
        let room = window.cwnd.saturating_sub(pipe) / MSS;
        for _ in 0..room {
            prr.sent(MSS);
            pipe += MSS;
            sent += 1;
        }
        pipe -= MSS;
        prr.acked(&mut window, MSS, pipe, false);
    }
    assert!((9..=11).contains(&sent), "{sent}");
    assert!(pipe.abs_diff(10 * MSS) <= MSS, "{pipe}");
}

#[test]
fn an_unused_window_does_not_count() {
    let mut validation = Validation::default();
    let (mut window, initial) = (window(100, 200 * MSS), 10 * MSS);
    assert!(validation.is_valid(&window), "before anything was measured");
    let (mut una, mut now) = (Seq(0), SECOND);
    for _ in 0..10 {
        una += 5 * MSS;
        validation.acked(5 * MSS, una, una + 5 * MSS);
    }
    assert!(!validation.is_valid(&window));
    assert!(validation.used(&window, 7 * MSS) <= 10 * MSS);
    assert!(validation.used(&window, 7 * MSS) >= 7 * MSS);
    validation.before_sending(&mut window, initial, now);
    now += 299 * SECOND;
    validation.before_sending(&mut window, initial, now);
    assert_eq!(window.cwnd, 100 * MSS);
    now += 2 * SECOND;
    validation.before_sending(&mut window, initial, now);
    assert_eq!(window.cwnd, 50 * MSS);
}
