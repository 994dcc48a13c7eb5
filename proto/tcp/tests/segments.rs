//! One endpoint, and segments made by hand: the rules of RFC 9293 and those after it for each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weever_tcp::{
    Ecn, Endpoint, Events, Failure, Id, KeepAlive, ListenerConfig, ListenerId, Payload, Reject,
    Segment, State, TcpConfig, Transmit, Tuple,
};
use weever_wire::tcp::{Seq, TcpOptions, Timestamps, flag};

const MILLIS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLIS;
const US: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const PORT: u16 = 80;
const IRS: u32 = 1000;

/// An endpoint, and the state of its handmade peer.
struct Lab {
    now: u64,
    endpoint: Endpoint,
    listener: ListenerId,
    tuple: Tuple,
    /// The last sequence number that it sent, and the next one of ours.
    iss: Seq,
}

/// A segment of the peer's: flags, sequence and acknowledgement number from the first ones on.
#[derive(Clone, Copy, Default)]
struct Sent<'a> {
    flags: u8,
    seq: u32,
    ack: u32,
    window: Option<u16>,
    options: TcpOptions<'a>,
    payload: &'a [u8],
}

impl Lab {
    fn new(config: TcpConfig) -> Self {
        let mut endpoint = Endpoint::new(config, [7, 9], 0);
        let listener = endpoint.listen(ListenerConfig::new(PORT)).unwrap();
        let tuple = Tuple { local: US, remote: THEM, local_port: PORT, remote_port: 5000 };
        Self { now: SECOND, endpoint, listener, tuple, iss: Seq(0) }
    }

    fn give(&mut self, sent: Sent<'_>) -> Result<Option<Payload>, Reject> {
        let segment = Segment {
            seq: Seq(IRS) + sent.seq,
            ack: self.iss + sent.ack,
            flags: sent.flags,
            window: sent.window.unwrap_or(0xffff),
            urgent: 0,
            options: sent.options,
            payload: sent.payload,
            joined: 0,
            ecn: Ecn::NotEct,
        };
        let handled = self.endpoint.handle(&self.tuple, &segment, self.now);
        self.endpoint.check_invariants();
        handled.map(|handled| handled.payload)
    }

    /// All that is sent now: flags, sequence and acknowledgement number from the first ones on, octets.
    fn sent(&mut self) -> Vec<(u8, u32, u32, u64)> {
        self.all().iter().map(|it| self.seen(it)).collect()
    }

    fn all(&mut self) -> Vec<Transmit> {
        let now = self.now;
        std::iter::from_fn(|| self.endpoint.poll_transmit(now)).collect()
    }

    fn seen(&self, it: &Transmit) -> (u8, u32, u32, u64) {
        let (seq, ack) = (Seq(it.header.seq), Seq(it.header.ack));
        let ack = if it.header.flags & flag::ACK == 0 { 0 } else { ack - Seq(IRS) };
        (it.header.flags & !flag::PSH, seq - self.iss, ack, it.payload.end - it.payload.start)
    }

    /// A connection that the peer opened, without options but those given.
    fn established(&mut self, options: TcpOptions<'_>) -> Id {
        self.give(Sent { flags: flag::SYN, options, ..Sent::default() }).unwrap();
        let answer = self.all().pop().unwrap();
        assert_eq!(answer.header.flags, flag::SYN | flag::ACK);
        self.iss = Seq(answer.header.seq);
        let options = TcpOptions { timestamps: options.timestamps, ..TcpOptions::default() };
        self.give(Sent { flags: flag::ACK, seq: 1, ack: 1, options, ..Sent::default() }).unwrap();
        let id = self.endpoint.accept(self.listener).unwrap();
        assert_eq!(self.state(id), State::Established);
        id
    }

    fn state(&self, id: Id) -> State {
        self.endpoint.get(id).map_or(State::Closed, |it| it.state())
    }

    fn pass(&mut self, time: u64) {
        let until = self.now + time;
        while let Some(next) = self.endpoint.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            if self.endpoint.next_deadline().is_some_and(|next| next <= self.now) {
                break;
            }
        }
        self.now = until;
        self.endpoint.handle_timeout(until);
    }
}

const ACK: u8 = flag::ACK;

#[test]
fn a_reset_must_match_exactly() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    let rst = Sent { flags: flag::RST, seq: 100, ..Sent::default() };
    assert_eq!(lab.give(rst), Err(Reject::InexactReset));
    assert_eq!(lab.sent(), [(ACK, 1, 1, 0)], "RFC 5961 §3.2: a challenge");
    // The next ones within half a second are not answered.
    assert_eq!(lab.give(rst), Err(Reject::InexactReset));
    assert!(lab.sent().is_empty());
    assert_eq!(lab.give(Sent { seq: 500_000, ..rst }), Err(Reject::OutsideWindow));
    assert_eq!(lab.state(id), State::Established);
    assert_eq!(lab.give(Sent { seq: 1, ..rst }), Err(Reject::Reset));
    assert_eq!(lab.endpoint.get(id).unwrap().failure(), Some(Failure::Reset));
    assert!(lab.sent().is_empty(), "a reset is never answered");
}

#[test]
fn a_syn_within_a_connection_is_challenged() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    let syn = Sent { flags: flag::SYN, seq: 10, ..Sent::default() };
    assert_eq!(lab.give(syn), Err(Reject::UnexpectedSyn));
    assert_eq!(lab.sent(), [(ACK, 1, 1, 0)]);
    assert_eq!(lab.state(id), State::Established);
}

#[test]
fn challenges_are_limited_over_all_connections() {
    let mut lab = Lab::new(TcpConfig { challenge_acks: 3, ..TcpConfig::default() });
    let mut answers = 0;
    for port in 0..10 {
        lab.tuple.remote_port = 6000 + port;
        lab.established(TcpOptions::default());
        let _ = lab.give(Sent { flags: flag::RST, seq: 100, ..Sent::default() });
        answers += lab.sent().len();
    }
    assert_eq!((answers, lab.endpoint.counters().challenges_suppressed), (3, 7));
}

#[test]
fn acknowledgements_of_the_unsent_and_the_ancient_are_discarded() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    let data = Sent { flags: ACK, seq: 1, ack: 5, payload: b"forged", ..Sent::default() };
    assert_eq!(lab.give(data), Err(Reject::AckOfUnsent));
    let ancient = Sent { ack: 0u32.wrapping_sub(100_000), ..data };
    assert_eq!(lab.give(ancient), Err(Reject::OldAck));
    assert!(lab.endpoint.get(id).unwrap().readable().is_empty());
    assert_eq!(lab.give(Sent { ack: 1, ..data }).unwrap().unwrap().range, 0..6);
}

#[test]
fn text_is_cut_to_the_window_and_put_in_order() {
    let mut lab = Lab::new(TcpConfig { receive_capacity: 100, ..TcpConfig::default() });
    let id = lab.established(TcpOptions { sack_permitted: true, ..TcpOptions::default() });
    let text = |seq, payload| Sent { flags: ACK, seq, ack: 1, payload, ..Sent::default() };
    let ahead = lab.give(text(51, &[2; 100])).unwrap().unwrap();
    assert_eq!(ahead, Payload { offset: 50, range: 0..50, in_order: false });
    let ack = lab.all().pop().unwrap();
    assert_eq!(ack.header.ack, IRS + 1);
    assert_eq!((ack.options.sack_count, ack.options.sack[0]), (1, (Seq(IRS + 51), Seq(IRS + 101))));
    // The same again is a duplicate, which is reported (RFC 2883).
    assert_eq!(lab.give(text(51, &[2; 50])).unwrap(), None);
    let ack = lab.all().pop().unwrap();
    assert_eq!((ack.options.sack_count, ack.options.sack[0]), (2, (Seq(IRS + 51), Seq(IRS + 101))));
    let first = lab.give(text(1, &[1; 60])).unwrap().unwrap();
    assert_eq!(first, Payload { offset: 0, range: 0..60, in_order: true });
    assert_eq!(lab.endpoint.get(id).unwrap().readable(), 0..100);
    let ack = lab.all().pop().unwrap();
    assert_eq!((ack.header.ack, ack.header.window, ack.options.sack_count), (IRS + 101, 0, 0));
    // The window is closed: text is refused and answered, and the acknowledgement in it counts.
    assert_eq!(lab.give(text(101, b"x")), Ok(None));
    assert_eq!(lab.sent(), [(ACK, 1, 101, 0)]);
    // Small steps are not told (RFC 9293 §3.8.6.2.2), half of the region is.
    lab.endpoint.consume(id, 49, lab.now);
    assert!(lab.sent().is_empty());
    lab.endpoint.consume(id, 1, lab.now);
    assert_eq!(lab.all().pop().unwrap().header.window, 50);
}

#[test]
fn small_segments_wait_for_an_acknowledgement() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.endpoint.queue(id, 10, lab.now);
    assert_eq!(lab.sent(), [(ACK, 1, 1, 10)]);
    lab.endpoint.queue(id, 10, lab.now);
    assert!(lab.sent().is_empty(), "Nagle");
    lab.endpoint.queue(id, 530, lab.now);
    assert_eq!(lab.sent(), [(ACK, 11, 1, 536)], "a full one does not wait");
    lab.give(Sent { flags: ACK, seq: 1, ack: 547, ..Sent::default() }).unwrap();
    assert_eq!(lab.sent(), [(ACK, 547, 1, 4)]);
    let settings =
        weever_tcp::Settings { no_delay: true, ..lab.endpoint.get(id).unwrap().settings() };
    lab.endpoint.set(id, settings, lab.now);
    lab.endpoint.queue(id, 3, lab.now);
    assert_eq!(lab.sent(), [(ACK, 551, 1, 3)]);
}

/// A long handshake makes for a long timeout, which gets shorter while something is always in flight: the timer that
/// was set for the long one must not be waited for.
#[test]
fn a_timeout_that_has_become_shorter_is_met() {
    let mut lab = Lab::new(TcpConfig::default());
    lab.give(Sent { flags: flag::SYN, ..Sent::default() }).unwrap();
    lab.iss = Seq(lab.all().pop().unwrap().header.seq);
    lab.now += 900 * MILLIS;
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, ..Sent::default() }).unwrap();
    let id = lab.endpoint.accept(lab.listener).unwrap();
    lab.endpoint.queue(id, 536, lab.now);
    assert_eq!(lab.sent().len(), 1);
    for round in 1..100 {
        lab.endpoint.queue(id, 536, lab.now);
        assert_eq!(lab.sent().len(), 1, "the next one, before the last is acknowledged");
        lab.now += 1;
        lab.give(Sent { flags: ACK, seq: 1, ack: 1 + 536 * round, ..Sent::default() }).unwrap();
    }
    lab.pass(400 * MILLIS);
    assert_eq!(lab.sent(), [(ACK, 1 + 536 * 99, 1, 536)], "sent again");
}

#[test]
fn a_corked_connection_sends_full_segments_only_until_it_is_uncorked_or_a_timeout_passed() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    let settings = lab.endpoint.get(id).unwrap().settings();
    let cork = |lab: &mut Lab, cork| {
        lab.endpoint.set(id, weever_tcp::Settings { cork, no_delay: true, ..settings }, lab.now);
    };
    cork(&mut lab, true);
    lab.endpoint.queue(id, 10, lab.now);
    assert!(lab.sent().is_empty());
    lab.endpoint.queue(id, 530, lab.now);
    assert_eq!(lab.sent(), [(ACK, 1, 1, 536)]);
    cork(&mut lab, false);
    assert_eq!(lab.sent(), [(ACK, 537, 1, 4)]);
    lab.give(Sent { flags: ACK, seq: 1, ack: 541, ..Sent::default() }).unwrap();
    cork(&mut lab, true);
    lab.endpoint.queue(id, 7, lab.now);
    assert!(lab.sent().is_empty());
    lab.pass(2 * SECOND);
    assert_eq!(lab.sent(), [(ACK, 541, 1, 7)], "it is not held for ever");
}

#[test]
fn urgent_data_is_pointed_at_until_it_is_acknowledged() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.endpoint.queue_urgent(id, 600, lab.now);
    let sent = lab.all();
    let seen: Vec<_> =
        sent.iter().map(|it| (it.header.flags & flag::URG, it.header.urgent)).collect();
    assert_eq!(
        seen,
        [(flag::URG, 600)],
        "the pointer is of the octet behind, from this segment on"
    );
    lab.give(Sent { flags: ACK, seq: 1, ack: 537, ..Sent::default() }).unwrap();
    let last = lab.all().pop().unwrap();
    assert_eq!((last.header.flags & flag::URG, last.header.urgent), (flag::URG, 64));
    lab.give(Sent { flags: ACK, seq: 1, ack: 601, ..Sent::default() }).unwrap();
    lab.endpoint.queue(id, 5, lab.now);
    assert_eq!(lab.all().pop().unwrap().header.flags & flag::URG, 0);
}

#[test]
fn only_segments_that_continue_each_other_are_joined() {
    let segment = |seq: u32, payload: &'static [u8]| Segment {
        seq: Seq(seq),
        ack: Seq(7),
        flags: ACK,
        window: 100,
        urgent: 0,
        options: TcpOptions::default(),
        payload,
        joined: 0,
        ecn: Ecn::NotEct,
    };
    let (first, second) = (segment(1, b"abc"), segment(4, b"de"));
    let mut whole = first;
    assert!(whole.join(&Segment { flags: ACK | flag::PSH | flag::FIN, ..second }));
    assert_eq!((whole.text_len(), whole.len()), (5, 6));
    assert_eq!(whole.flags, ACK | flag::PSH | flag::FIN);
    assert!(!whole.join(&segment(6, b"f")), "nothing follows FIN");
    for other in [
        segment(5, b"e"),
        Segment { ack: Seq(8), ..second },
        Segment { window: 99, ..second },
        Segment { flags: ACK | flag::URG, ..second },
        Segment { ecn: Ecn::Ce, ..second },
        Segment { options: TcpOptions { sack: &[0; 8], ..TcpOptions::default() }, ..second },
        segment(4, b""),
    ] {
        let mut whole = first;
        assert!(!whole.join(&other), "{other:?}");
    }
}

#[test]
fn a_closed_window_is_probed_for_ever_and_opens() {
    let mut lab = Lab::new(TcpConfig { user_timeout: 100 * SECOND, ..TcpConfig::default() });
    let id = lab.established(TcpOptions::default());
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, window: Some(0), ..Sent::default() }).unwrap();
    lab.endpoint.queue(id, 1000, lab.now);
    assert!(lab.sent().is_empty());
    let mut probes = 0;
    for _ in 0..1000 {
        lab.pass(SECOND);
        for (flags, seq, _, len) in lab.sent() {
            probes += 1;
            assert_eq!((flags, seq, len), (ACK, 1, 1), "one octet, again and again");
            lab.give(Sent { flags: ACK, seq: 1, ack: 1, window: Some(0), ..Sent::default() })
                .unwrap();
        }
    }
    assert!((8..40).contains(&probes), "with growing distance: {probes}");
    assert_eq!(lab.state(id), State::Established, "as long as it is answered");
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, window: Some(5000), ..Sent::default() }).unwrap();
    let octets: u64 = lab.sent().iter().map(|(_, _, _, len)| len).sum();
    assert_eq!(octets, 1 + 536, "at once when it opens; the rest waits, by Nagle");
}

#[test]
fn both_close_at_once() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.endpoint.shutdown(id, lab.now);
    assert_eq!(lab.sent(), [(ACK | flag::FIN, 1, 1, 0)]);
    assert_eq!(lab.state(id), State::FinWait1);
    lab.give(Sent { flags: ACK | flag::FIN, seq: 1, ack: 1, ..Sent::default() }).unwrap();
    assert_eq!(lab.state(id), State::Closing);
    assert_eq!(lab.sent(), [(ACK, 2, 2, 0)]);
    lab.give(Sent { flags: ACK, seq: 2, ack: 2, ..Sent::default() }).unwrap();
    assert_eq!(lab.state(id), State::TimeWait);
    // A FIN again is acknowledged, and begins the wait anew (§3.10.7.4).
    lab.pass(50 * SECOND);
    let _ = lab.give(Sent { flags: ACK | flag::FIN, seq: 1, ack: 2, ..Sent::default() });
    assert_eq!(lab.sent(), [(ACK, 2, 2, 0)]);
    // RFC 1337: a reset does not end it.
    assert_eq!(lab.give(Sent { flags: flag::RST, seq: 2, ..Sent::default() }), Err(Reject::Reset));
    lab.pass(59 * SECOND);
    assert_eq!(lab.state(id), State::TimeWait);
    lab.pass(2 * SECOND);
    assert_eq!(lab.state(id), State::Closed);
    lab.endpoint.close(id, lab.now);
    assert!(lab.endpoint.is_empty());
}

#[test]
fn the_peer_closes_first_and_we_go_on_sending() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.give(Sent { flags: ACK | flag::FIN, seq: 1, ack: 1, payload: b"bye", ..Sent::default() })
        .unwrap();
    assert_eq!(lab.state(id), State::CloseWait);
    assert_eq!(lab.sent(), [(ACK, 1, 5, 0)]);
    lab.endpoint.queue(id, 7, lab.now);
    assert_eq!(lab.sent(), [(ACK, 1, 5, 7)]);
    lab.endpoint.consume(id, 3, lab.now);
    lab.endpoint.close(id, lab.now);
    assert_eq!(lab.sent(), [(ACK | flag::FIN, 8, 5, 0)]);
    let _ = lab.give(Sent { flags: ACK, seq: 5, ack: 9, ..Sent::default() });
    assert!(lab.endpoint.is_empty());
}

#[test]
fn what_nobody_will_read_is_answered_with_a_reset() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, payload: b"unread", ..Sent::default() }).unwrap();
    lab.all();
    lab.endpoint.close(id, lab.now);
    assert_eq!(lab.sent(), [(flag::RST | ACK, 1, 7, 0)], "RFC 9293 SHLD-3");
    assert!(lab.endpoint.is_empty());

    lab.tuple.remote_port += 1;
    let id = lab.established(TcpOptions::default());
    lab.endpoint.close(id, lab.now);
    assert_eq!(lab.sent(), [(ACK | flag::FIN, 1, 1, 0)]);
    let late = Sent { flags: ACK, seq: 1, ack: 2, payload: b"late", ..Sent::default() };
    assert_eq!(lab.give(late), Err(Reject::Unwanted));
    assert_eq!(lab.sent(), [(flag::RST | ACK, 2, 1, 0)]);
    assert!(lab.endpoint.is_empty());
}

#[test]
fn both_open_at_once() {
    let mut lab = Lab::new(TcpConfig::default());
    let (from, to) = (SocketAddr::new(US, 4000), SocketAddr::new(THEM, 5000));
    let id = lab.endpoint.connect(from, to, lab.now).unwrap();
    lab.tuple.local_port = 4000;
    let syn = lab.all().pop().unwrap();
    assert_eq!(syn.header.flags, flag::SYN);
    lab.iss = Seq(syn.header.seq);
    lab.give(Sent { flags: flag::SYN, ..Sent::default() }).unwrap();
    assert_eq!(lab.state(id), State::SynReceived);
    assert_eq!(lab.sent(), [(flag::SYN | ACK, 0, 1, 0)]);
    lab.give(Sent { flags: flag::SYN | ACK, ack: 1, ..Sent::default() }).ok();
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, ..Sent::default() }).ok();
    assert_eq!(lab.state(id), State::Established);
    assert!(lab.endpoint.poll_event().unwrap().1.has(Events::CONNECTED));
}

#[test]
fn an_answer_to_something_else_is_reset() {
    let mut lab = Lab::new(TcpConfig::default());
    let (from, to) = (SocketAddr::new(US, 4000), SocketAddr::new(THEM, 5000));
    let id = lab.endpoint.connect(from, to, lab.now).unwrap();
    lab.tuple.local_port = 4000;
    lab.iss = Seq(lab.all().pop().unwrap().header.seq);
    let wrong = Sent { flags: flag::SYN | ACK, ack: 77, ..Sent::default() };
    assert_eq!(lab.give(wrong), Err(Reject::AckOfUnsent));
    assert_eq!(lab.sent(), [(flag::RST, 77, 0, 0)]);
    assert_eq!(lab.state(id), State::SynSent);
    assert_eq!(lab.give(Sent { flags: flag::RST | ACK, ..wrong }), Err(Reject::AckOfUnsent));
    assert_eq!(lab.give(Sent { flags: flag::RST | ACK, ack: 1, ..wrong }), Err(Reject::Reset));
    assert_eq!(lab.endpoint.get(id).unwrap().failure(), Some(Failure::Refused));
}

#[test]
fn old_timestamps_are_refused() {
    let mut lab = Lab::new(TcpConfig::default());
    let stamp = |value| TcpOptions {
        timestamps: Some(Timestamps { value, echo: 0 }),
        ..TcpOptions::default()
    };
    lab.established(stamp(5000));
    let text = |value, seq| Sent {
        flags: ACK,
        seq,
        ack: 1,
        options: stamp(value),
        payload: b"text",
        ..Sent::default()
    };
    assert!(lab.give(text(5001, 1)).is_ok());
    assert_eq!(lab.give(text(4000, 5)), Err(Reject::OldTimestamp));
    let bare = Sent { options: TcpOptions::default(), ..text(0, 5) };
    assert_eq!(lab.give(bare), Err(Reject::NoTimestamp));
    lab.pass(25 * 24 * 3600 * SECOND);
    assert!(lab.give(text(4000, 5)).is_ok(), "RFC 7323 §5.5: outdated after 24 days");
}

#[test]
fn a_full_backlog_is_answered_with_cookies() {
    let mut lab = Lab::new(TcpConfig::default());
    lab.endpoint.stop_listening(lab.listener, lab.now);
    let config = ListenerConfig { backlog: 2, ..ListenerConfig::new(PORT) };
    lab.listener = lab.endpoint.listen(config).unwrap();
    let offer = TcpOptions {
        mss: Some(1440),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 9, echo: 0 }),
        ..TcpOptions::default()
    };
    for port in 0..50 {
        lab.tuple.remote_port = 7000 + port;
        lab.give(Sent { flags: flag::SYN, options: offer, ..Sent::default() }).unwrap();
    }
    assert_eq!((lab.endpoint.len(), lab.endpoint.counters().cookies_sent), (2, 48));
    let answer = lab.all().into_iter().find(|it| it.tuple.remote_port == 7049).unwrap();
    assert_eq!((answer.header.flags, answer.connection), (flag::SYN | ACK, None));
    assert!(answer.options.sack_permitted && answer.options.window_scale.is_some());
    lab.iss = Seq(answer.header.seq);
    let echo = answer.options.timestamps.unwrap().value;
    let options =
        TcpOptions { timestamps: Some(Timestamps { value: 10, echo }), ..TcpOptions::default() };
    let ack = Sent { flags: ACK, seq: 1, ack: 1, options, payload: b"hello", ..Sent::default() };
    // A forged one makes nothing but a reset.
    assert_eq!(lab.give(Sent { ack: 2, ..ack }), Err(Reject::BadCookie));
    assert_eq!(lab.all().pop().unwrap().header.flags, flag::RST);
    let payload = lab.give(ack).unwrap().unwrap();
    assert_eq!((payload.offset, payload.range, payload.in_order), (0, 0..5, true));
    let id = lab.endpoint.accept(lab.listener).unwrap();
    let connection = lab.endpoint.get(id).unwrap();
    assert_eq!((connection.state(), connection.window().mss), (State::Established, 1440 - 12));
    assert_eq!(connection.peer_window(), 0xffff << 7);
    // Half-open connections end by themselves.
    lab.pass(400 * SECOND);
    lab.all();
    lab.pass(400 * SECOND);
    assert_eq!(lab.endpoint.len(), 1);
}

#[test]
fn a_new_connection_may_follow_one_in_time_wait() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    lab.endpoint.close(id, lab.now);
    lab.all();
    lab.give(Sent { flags: ACK | flag::FIN, seq: 1, ack: 2, ..Sent::default() }).unwrap();
    assert_eq!(lab.state(id), State::TimeWait);
    lab.all();
    lab.pass(SECOND);
    let old = Sent { flags: flag::SYN, seq: 1, ..Sent::default() };
    assert!(lab.give(old).is_err(), "an old duplicate");
    assert_eq!(lab.state(id), State::TimeWait);
    lab.all();
    assert!(lab.give(Sent { seq: 5000, ..old }).is_ok());
    let answer = lab.all().pop().unwrap();
    assert_eq!(answer.header.flags, flag::SYN | ACK);
    assert!(Seq(answer.header.seq).gt(lab.iss + 2), "beyond the numbers that the last one used");
    assert_eq!(lab.endpoint.len(), 1);
}

#[test]
fn silence_is_probed_and_given_up() {
    let keep_alive = KeepAlive { idle: 100 * SECOND, interval: 10 * SECOND, probes: 3 };
    let mut lab = Lab::new(TcpConfig { keep_alive: Some(keep_alive), ..TcpConfig::default() });
    let id = lab.established(TcpOptions::default());
    lab.all();
    lab.pass(99 * SECOND);
    assert!(lab.sent().is_empty());
    lab.pass(2 * SECOND);
    assert_eq!(lab.sent(), [(ACK, 0, 1, 0)], "SEG.SEQ = SND.NXT-1");
    lab.give(Sent { flags: ACK, seq: 1, ack: 1, ..Sent::default() }).unwrap();
    let mut probes = 0;
    for _ in 0..200 {
        lab.pass(SECOND);
        probes += lab.sent().iter().filter(|(flags, ..)| *flags == ACK).count();
    }
    assert_eq!(probes, 3);
    assert_eq!(lab.endpoint.get(id).unwrap().failure(), Some(Failure::TimedOut));
}

#[test]
fn a_smaller_path_is_believed_only_about_what_is_in_flight() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions {
        mss: Some(1460),
        sack_permitted: true,
        ..TcpOptions::default()
    });
    lab.endpoint.queue(id, 2920, lab.now);
    assert_eq!(lab.sent(), [(ACK, 1, 1, 1460), (ACK, 1461, 1, 1460)]);
    let (tuple, iss) = (lab.tuple, lab.iss);
    assert!(!lab.endpoint.handle_mtu(&tuple, (iss + 5000).0, 1000, lab.now));
    assert!(!lab.endpoint.handle_mtu(&tuple, (iss + 1).0, 1500, lab.now), "not smaller");
    assert!(lab.endpoint.handle_mtu(&tuple, (iss + 1).0, 1000, lab.now));
    let sizes: Vec<u64> = lab.sent().iter().map(|(_, _, _, len)| *len).collect();
    assert_eq!(sizes, [960, 500, 960, 500]);
    assert!(!lab.endpoint.handle_unreachable(&tuple, (iss + 1).0, lab.now));
    assert_eq!(lab.state(id), State::Established);
}

#[test]
fn a_fin_before_text_that_arrived_is_not_believed() {
    let mut lab = Lab::new(TcpConfig::default());
    let id = lab.established(TcpOptions::default());
    let sent = |flags, seq, payload| Sent { flags, seq, ack: 1, payload, ..Sent::default() };
    lab.give(sent(ACK, 11, b"behind")).unwrap();
    lab.give(sent(ACK | flag::FIN, 5, b"")).unwrap();
    lab.give(sent(ACK, 1, b"0123456789")).unwrap();
    assert_eq!(
        (lab.state(id), lab.endpoint.get(id).unwrap().readable()),
        (State::Established, 0..16)
    );
    lab.give(sent(ACK | flag::FIN, 17, b"")).unwrap();
    assert_eq!(lab.state(id), State::CloseWait);
    assert_eq!(lab.give(sent(ACK, 17, b"more")), Err(Reject::AfterFin));
}

#[test]
fn limits_refuse_new_connections_and_keep_old_ones() {
    let mut lab = Lab::new(TcpConfig { max_connections: 3, ..TcpConfig::default() });
    let mut refused = 0;
    for port in 0..10 {
        lab.tuple.remote_port = 7000 + port;
        let syn = Sent { flags: flag::SYN, ..Sent::default() };
        refused += usize::from(lab.give(syn) == Err(Reject::TooManyConnections));
    }
    assert_eq!((lab.endpoint.len(), refused), (3, 7));

    let mut lab = Lab::new(TcpConfig { memory_limit: 3000, ..TcpConfig::default() });
    let id = lab.established(TcpOptions::default());
    let text = |seq, payload| Sent { flags: ACK, seq, ack: 1, payload, ..Sent::default() };
    assert!(lab.give(text(1, &[0; 3000])).is_ok());
    assert!(lab.give(text(3001, &[0; 10])).is_ok(), "the offered window is kept");
    assert_eq!(lab.give(text(5001, &[0; 10])), Err(Reject::NoMemory));
    lab.tuple.remote_port = 8000;
    let syn = Sent { flags: flag::SYN, ..Sent::default() };
    assert_eq!(lab.give(syn), Err(Reject::NoMemory));
    lab.endpoint.consume(id, 3010, lab.now);
    assert!(lab.give(syn).is_ok());
}

#[test]
fn a_connection_is_small() {
    // Its present size, so that it does not grow unnoticed; 512 is the aim.
    assert!(size_of::<weever_tcp::Connection>() <= 672, "{}", size_of::<weever_tcp::Connection>());
}
