//! Runs a script: one endpoint, one virtual clock, and a peer that is the script.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weever_tcp::{Ecn, Endpoint, Segment, TcpConfig, Transmit, Tuple};
use weever_wire::tcp::{Seq, TcpOptions, TcpOptionsRepr, Timestamps, flag};

use super::parse::{Event, FastOpen, Options, Packet, Step, When};
use super::sockets::Socket;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));
const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const LOCAL_PORT: u16 = 8080;
const REMOTE_PORT: u16 = 51_000;
/// Virtual time of the start; not 0, so that no clock is special.
const START: u64 = 1_000_000_000;

/// A run of one script.
pub(crate) struct Run {
    pub(crate) endpoint: Endpoint,
    pub(crate) now: u64,
    pub(crate) sockets: HashMap<i64, Socket>,
    pub(crate) local_port: u16,
    tolerance: u64,
    /// When the step before happened.
    last: u64,
    sent: VecDeque<(u64, Transmit)>,
    /// Our initial sequence number, once it was seen; the peer's is in the script.
    isn: Option<u32>,
    irs: u32,
    /// Our timestamps less those of the script.
    stamps: Option<u32>,
    /// Cookies of Fast Open that we have sent, by the script's names.
    cookies: HashMap<String, Vec<u8>>,
}

impl Run {
    pub(crate) fn new(config: TcpConfig, tolerance: u64) -> Self {
        Self {
            endpoint: Endpoint::new(config, [3, 4], START),
            now: START,
            sockets: HashMap::new(),
            local_port: LOCAL_PORT,
            tolerance,
            last: START,
            sent: VecDeque::new(),
            isn: None,
            irs: 0,
            stamps: None,
            cookies: HashMap::new(),
        }
    }

    pub(crate) fn remote() -> SocketAddr {
        SocketAddr::new(REMOTE, LOCAL_PORT)
    }

    pub(crate) fn local() -> IpAddr {
        LOCAL
    }

    /// Does a step.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        let (from, to) = match step.when {
            When::Absolute(from, to) => (START + from, START + to),
            When::Relative(from, to) => (self.last + from, self.last + to),
            When::Any => (self.now, u64::MAX),
        };
        if let Event::Expect(packet) = &step.event {
            return self.expect(packet, from, to);
        }
        if from < self.last {
            return Err("this is before the step above it".to_owned());
        }
        self.pass(from);
        self.last = from;
        match &step.event {
            Event::Inject(packet) => self.inject(packet),
            Event::Call(call) => self.call(call)?,
            Event::Assert(all) => self.assert_info(all)?,
            Event::Expect(_) => {}
        }
        self.drain();
        self.endpoint.check_invariants();
        Ok(())
    }

    /// Whether all that was sent was expected.
    pub(crate) fn finish(&self) -> Result<(), String> {
        match self.sent.front() {
            None => Ok(()),
            Some((at, transmit)) => {
                Err(format!("unexpected segment sent {}: {}", self.clock(*at), self.show(transmit)))
            }
        }
    }

    /// Lets time pass; due work is done at its time.
    fn pass(&mut self, until: u64) {
        while let Some(next) = self.endpoint.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            self.drain();
            if self.endpoint.next_deadline() == Some(next) {
                break;
            }
        }
        self.now = self.now.max(until);
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            if transmit.header.flags & flag::SYN != 0 {
                self.isn = Some(transmit.header.seq);
                self.local_port = transmit.tuple.local_port;
            }
            self.sent.push_back((self.now, transmit));
        }
        while self.endpoint.poll_event().is_some() {}
    }

    fn inject(&mut self, packet: &Packet) {
        if packet.flags & flag::SYN != 0 {
            self.irs = packet.seq;
        }
        let isn = Seq(self.isn.unwrap_or(0));
        let options = packet.options.clone().unwrap_or_default();
        let blocks: Vec<u8> = options
            .sack
            .iter()
            .flat_map(|(start, end)| [(isn + *start).0.to_be_bytes(), (isn + *end).0.to_be_bytes()])
            .flatten()
            .collect();
        let stamps = options.stamps.map(|Timestamps { value, echo }| {
            let echo = if echo == 0 { 0 } else { echo.wrapping_add(self.stamps.unwrap_or(0)) };
            Timestamps { value, echo }
        });
        let cookie = options.fast_open.as_ref().map(|option| match option {
            FastOpen::Ask => Vec::new(),
            FastOpen::Cookie(octets) => octets.clone(),
            FastOpen::Named(name) => self.cookies.get(name).cloned().unwrap_or_default(),
        });
        let payload = vec![0; packet.len as usize];
        let segment = Segment {
            seq: Seq(packet.seq),
            ack: packet.ack.map_or(Seq(0), |ack| isn + ack),
            flags: packet.flags,
            window: packet.win.unwrap_or(0xffff),
            urgent: packet.urg.unwrap_or(0),
            options: TcpOptions {
                mss: options.mss,
                window_scale: options.wscale,
                sack_permitted: options.sack_ok,
                timestamps: stamps,
                fast_open: cookie.as_deref(),
                sack: &blocks,
            },
            payload: &payload,
            joined: 0,
            ecn: packet.ecn.unwrap_or_default(),
        };
        let remote_port =
            if self.local_port == LOCAL_PORT { REMOTE_PORT } else { Self::remote().port() };
        let tuple =
            Tuple { local: LOCAL, remote: REMOTE, local_port: self.local_port, remote_port };
        // The reason why a segment went no further shows in the answer.
        let _ = self.endpoint.handle(&tuple, &segment, self.now);
    }

    fn expect(&mut self, packet: &Packet, from: u64, to: u64) -> Result<(), String> {
        let latest = to.saturating_add(self.tolerance);
        while self.sent.is_empty() {
            let Some(next) = self.endpoint.next_deadline().filter(|next| *next <= latest) else {
                return Err(format!("nothing was sent up to {}", self.clock(latest)));
            };
            self.pass(next.max(self.now + 1));
        }
        let Some((at, mut transmit)) = self.sent.pop_front() else { return Ok(()) };
        self.join(&mut transmit, packet.len);
        let seen = self.show(&transmit);
        let differs = |what: String| Err(format!("{what}; sent was {seen}"));
        if !(from.saturating_sub(self.tolerance)..=latest).contains(&at) {
            return differs(format!("it was sent {}, not {}", self.clock(at), self.clock(from)));
        }
        self.last = if to == u64::MAX { at } else { at.max(from) };
        let (header, isn) = (&transmit.header, self.isn.unwrap_or(0));
        let len = (transmit.payload.end - transmit.payload.start) as u32;
        // A reset outside of a connection is numbered as the segment it answers.
        let seq = header.seq.wrapping_sub(isn);
        if header.flags != packet.flags {
            return differs("the flags differ".to_owned());
        }
        if (seq, len) != (packet.seq, packet.len) {
            return differs(format!("{}:{}({})", packet.seq, packet.seq + packet.len, packet.len));
        }
        let ack = (header.flags & flag::ACK != 0).then_some(header.ack);
        if ack != packet.ack.or(ack.filter(|_| packet.ack.is_none())) {
            return differs(format!("ack {:?}", packet.ack));
        }
        if packet.win.is_some_and(|win| win != header.window) {
            return differs(format!("win {:?}", packet.win));
        }
        if packet.urg.is_some_and(|urgent| urgent != header.urgent) {
            return differs(format!("urg {:?}", packet.urg));
        }
        if packet.ecn.is_some_and(|ecn| ecn != transmit.ecn) {
            return differs(format!("{:?}", packet.ecn));
        }
        match &packet.options {
            Some(options) => self.compare_options(options, &transmit.options).or_else(differs),
            None => Ok(()),
        }
    }

    /// Segments sent at the same time are compared as one if the script has one, as packetdrill sees them where
    /// the device segments.
    fn join(&mut self, first: &mut Transmit, len: u32) {
        let octets = |it: &Transmit| (it.payload.end - it.payload.start) as u32;
        while octets(first) < len
            && let Some((_, next)) = self.sent.front()
            && next.payload.start == first.payload.end
            && octets(next) > 0
            && next.connection == first.connection
        {
            first.payload.end = next.payload.end;
            first.header.flags |= next.header.flags;
            self.sent.pop_front();
        }
    }

    /// Compares fields of `TCP_INFO` of the connection that was made last.
    fn assert_info(&self, all: &[(String, u64)]) -> Result<(), String> {
        let ids = self.sockets.values().filter_map(|socket| match socket {
            Socket::Connection(id) => self.endpoint.get(*id),
            _ => None,
        });
        let info = ids.last().ok_or("there is no connection")?.info(self.now);
        let segments = |octets: u32| u64::from(octets.div_ceil(info.send_mss.max(1)));
        for (field, want) in all {
            let got = match field.as_str() {
                "tcpi_snd_cwnd" => segments(info.window.0),
                "tcpi_snd_ssthresh" => segments(info.window.1),
                "tcpi_unacked" => segments(info.in_flight),
                "tcpi_lost" => segments(info.lost),
                "tcpi_state" => info.state.into(),
                "tcpi_options" => info.options.into(),
                "tcpi_ca_state" => info.recovery.into(),
                "tcpi_snd_mss" => info.send_mss.into(),
                other => return Err(format!("`{other}` is not looked at here")),
            };
            if got != *want {
                return Err(format!("{field} is {got}, not {want}"));
            }
        }
        Ok(())
    }

    fn compare_options(&mut self, want: &Options, got: &TcpOptionsRepr) -> Result<(), String> {
        if (want.mss, want.wscale, want.sack_ok) != (got.mss, got.window_scale, got.sack_permitted)
        {
            return Err("mss, wscale or sackOK differ".to_owned());
        }
        let blocks: Vec<_> =
            got.sack[..usize::from(got.sack_count)].iter().map(|(a, b)| (a.0, b.0)).collect();
        if blocks != want.sack {
            return Err(format!("the blocks differ: {:?}", want.sack));
        }
        let cookie =
            got.fast_open.as_ref().map(|(octets, len)| octets[..usize::from(*len)].to_vec());
        let same = match (&want.fast_open, cookie) {
            (None, None) => true,
            (Some(FastOpen::Ask), Some(cookie)) => cookie.is_empty(),
            (Some(FastOpen::Cookie(want)), Some(cookie)) => *want == cookie,
            (Some(FastOpen::Named(name)), Some(cookie)) => {
                *self.cookies.entry(name.clone()).or_insert_with(|| cookie.clone()) == cookie
            }
            _ => false,
        };
        if !same {
            return Err("the cookies differ".to_owned());
        }
        let (Some(want), Some(got)) = (want.stamps, got.timestamps) else {
            return match want.stamps.is_some() == got.timestamps.is_some() {
                true => Ok(()),
                false => Err("timestamps are on one side only".to_owned()),
            };
        };
        // The first one of ours corresponds to the script's first one.
        let offset = *self.stamps.get_or_insert(got.value.wrapping_sub(want.value));
        let apart = got.value.wrapping_sub(offset).abs_diff(want.value);
        if u64::from(apart) * 1_000_000 > self.tolerance || got.echo != want.echo {
            let value = got.value.wrapping_sub(offset);
            return Err(format!("TS val {value} ecr {}", got.echo));
        }
        Ok(())
    }

    fn clock(&self, at: u64) -> String {
        format!("at {:.6}", at.saturating_sub(START) as f64 / 1e9)
    }

    fn show(&self, transmit: &Transmit) -> String {
        let header = &transmit.header;
        let letters = [
            (flag::FIN, 'F'),
            (flag::SYN, 'S'),
            (flag::RST, 'R'),
            (flag::PSH, 'P'),
            (flag::ACK, '.'),
            (flag::URG, 'U'),
            (flag::ECE, 'E'),
            (flag::CWR, 'W'),
        ];
        let flags: String =
            letters.iter().filter(|(bit, _)| header.flags & bit != 0).map(|(_, one)| one).collect();
        let seq = header.seq.wrapping_sub(self.isn.unwrap_or(0));
        let len = (transmit.payload.end - transmit.payload.start) as u32;
        let (ack, win) = (header.ack, header.window);
        let options = &transmit.options;
        let blocks = &options.sack[..usize::from(options.sack_count)];
        let ecn = if transmit.ecn == Ecn::NotEct {
            String::new()
        } else {
            format!("[{:?}] ", transmit.ecn)
        };
        format!(
            "{ecn}{flags} {seq}:{}({len}) ack {ack} win {win} mss {:?} wscale {:?} sackOK {} {:?} sack {blocks:?} FO {:?}",
            seq.wrapping_add(len),
            options.mss,
            options.window_scale,
            options.sack_permitted,
            options.timestamps,
            options.fast_open,
        )
    }
}

/// The settings of a script, over those of tests: no timestamps unless it asks for them.
pub(crate) fn config(settings: &[(usize, String, String)]) -> Result<(TcpConfig, u64), String> {
    use weever_tcp::EcnMode;
    use weever_tcp::congestion::Algorithm;
    const MILLIS: u64 = 1_000_000;
    let (mut config, mut tolerance) = (TcpConfig::default(), 4 * MILLIS);
    for (line, key, value) in settings {
        let wrong = || format!("line {line}: `{value}` is no value of {key}");
        let number = || value.parse::<u64>().map_err(|_| wrong());
        let switch = || match value.as_str() {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => Err(wrong()),
        };
        match key.as_str() {
            "tolerance_usecs" => tolerance = number()? * 1000,
            "mtu" => config.mtu = number()? as u16,
            "tcp_sack" => config.sack = switch()?,
            "tcp_timestamps" => config.timestamps = switch()?,
            "tcp_window_scaling" => config.window_scaling = switch()?,
            "tcp_rmem" => config.receive_capacity = number()? as u32,
            "tcp_rmem_max" => config.max_receive_capacity = number()? as u32,
            "initial_window" => config.initial_window = number()? as u32,
            "super_segment" => config.super_segment = number()? as u32,
            "tcp_fin_timeout" => config.fin_wait = number()? * 1000 * MILLIS,
            "user_timeout" => config.user_timeout = number()? * 1000 * MILLIS,
            "challenge_acks" => config.challenge_acks = number()? as u32,
            "tcp_ecn" => {
                config.ecn = match value.as_str() {
                    "0" => EcnMode::Off,
                    "1" => EcnMode::Request,
                    "2" => EcnMode::Accept,
                    "dctcp" => EcnMode::Dctcp,
                    _ => return Err(wrong()),
                }
            }
            "tcp_congestion_control" => {
                config.congestion = match value.as_str() {
                    "reno" => Algorithm::Reno,
                    "cubic" => Algorithm::Cubic,
                    "dctcp" => Algorithm::Dctcp,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(format!("line {line}: there is no setting `{key}`")),
        }
    }
    Ok((config, tolerance))
}
