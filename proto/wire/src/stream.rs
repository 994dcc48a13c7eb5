//! Settings of a TCP connection, in the form in which programs and the transport exchange them: as a word with
//! a number in its lowest 8 bits, and 24 bits for what is set.

/// The largest value of a setting, which larger ones are cut down to.
const MOST: u32 = (1 << 24) - 1;

/// A setting of a stream, or of a listener, whose later streams begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamOption {
    /// Small segments are sent at once (`TCP_NODELAY`).
    NoDelay(bool),
    /// Segments that are not full are held back (`TCP_CORK`).
    Cork(bool),
    /// Seconds of idleness before the first probe, 0: no probes (`SO_KEEPALIVE`, `TCP_KEEPIDLE`).
    KeepAlive(u32),
    /// Milliseconds without an acknowledgement before the connection is given up, 0: the stack's
    /// default (`TCP_USER_TIMEOUT`).
    UserTimeout(u32),
    /// Closing resets the stream, also when the application ends (`SO_LINGER` with a time of 0). A close that
    /// waits, as `SO_LINGER` with a time has it, is for the application: octets that are not acknowledged are
    /// counted by the library.
    ResetOnClose(bool),
    /// Seconds between probes (`TCP_KEEPINTVL`).
    KeepAliveInterval(u32),
    /// Unanswered probes before the connection is given up (`TCP_KEEPCNT`).
    KeepAliveProbes(u8),
    /// The next segments are acknowledged at once, or may be acknowledged later (`TCP_QUICKACK`).
    QuickAck(bool),
    /// Octets of the longest segment, 0: as the path allows (`TCP_MAXSEG`). Announced to the peer when it is
    /// set right after connecting, or at a listener.
    MaxSegment(u16),
    /// The congestion control (`TCP_CONGESTION`).
    Congestion(Congestion),
    /// Octets that are received ahead of the application (`SO_RCVBUF`), from one segment to what the stack
    /// allows; without, the stack chooses. Not halved or doubled.
    ReceiveBuffer(u32),
    /// Octets that may be written and not acknowledged (`SO_SNDBUF`), in whole frames: the library's own.
    SendBuffer(u32),
    /// Of a listener only: connections are accepted once octets have come, or so many seconds have passed; 0:
    /// at once (`TCP_DEFER_ACCEPT`).
    DeferAccept(u32),
    /// Set right after connecting, not 0: the SYN carries what is written before the next commit, if the server has
    /// given a cookie to an earlier connection, and asks for one otherwise. Such octets may arrive twice (RFC 7413
    /// §6.1). Of a listener: it takes such octets, of as many connections at a time whose handshakes go on
    /// (`TCP_FASTOPEN`).
    FastOpen(u32),
    /// The DSCP of packets, in the upper six bits of the traffic class (`IP_TOS`, `IPV6_TCLASS`); the lower two are
    /// the stack's.
    TrafficClass(u8),
    /// The time to live or hop limit of packets, 0: the stack's default (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    Hops(u8),
    /// What was written so far is urgent, up to its last octet (RFC 9293 §3.8.5, `MSG_OOB`): segments point there until
    /// it is acknowledged. Of a stream only.
    Urgent,
}

/// A congestion control that ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Congestion {
    /// CUBIC, RFC 9438: the default.
    Cubic,
    /// Reno, RFC 5681.
    Reno,
    /// DCTCP, RFC 8257.
    Dctcp,
}

impl Congestion {
    const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Reno, Congestion::Dctcp];

    /// The name, as in `TCP_CONGESTION`.
    pub fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Reno => "reno",
            Congestion::Dctcp => "dctcp",
        }
    }

    /// The one of this name, if weever has it.
    pub fn by_name(name: &str) -> Option<Congestion> {
        Self::ALL.into_iter().find(|congestion| congestion.name() == name)
    }
}

impl StreamOption {
    /// Number and value of the setting as one word.
    pub fn to_word(self) -> u32 {
        let (number, value) = match self {
            StreamOption::NoDelay(on) => (1, on.into()),
            StreamOption::Cork(on) => (2, on.into()),
            StreamOption::KeepAlive(seconds) => (3, seconds),
            StreamOption::UserTimeout(millis) => (4, millis),
            StreamOption::ResetOnClose(on) => (5, on.into()),
            StreamOption::KeepAliveInterval(seconds) => (6, seconds),
            StreamOption::KeepAliveProbes(probes) => (7, probes.into()),
            StreamOption::QuickAck(on) => (8, on.into()),
            StreamOption::MaxSegment(octets) => (9, octets.into()),
            StreamOption::Congestion(congestion) => (10, congestion as u32),
            StreamOption::ReceiveBuffer(octets) => (11, octets),
            StreamOption::SendBuffer(octets) => (12, octets),
            StreamOption::DeferAccept(seconds) => (13, seconds),
            StreamOption::FastOpen(pending) => (14, pending),
            StreamOption::TrafficClass(class) => (15, class.into()),
            StreamOption::Hops(hops) => (16, hops.into()),
            StreamOption::Urgent => (17, 0),
        };
        number | value.min(MOST) << 8
    }

    /// The setting of this number, with this value: `None` for a number that is not known, and for a value
    /// that it cannot have.
    pub fn numbered(number: u32, value: u32) -> Option<StreamOption> {
        let word = u8::try_from(number).ok().filter(|_| value <= MOST)?;
        StreamOption::from_word(u32::from(word) | value << 8)
    }

    /// The setting of a [word](Self::to_word); `None` for a number that is not known.
    pub fn from_word(value: u32) -> Option<StreamOption> {
        let (number, value) = (value as u8, value >> 8);
        let on = value != 0;
        Some(match number {
            1 => StreamOption::NoDelay(on),
            2 => StreamOption::Cork(on),
            3 => StreamOption::KeepAlive(value),
            4 => StreamOption::UserTimeout(value),
            5 => StreamOption::ResetOnClose(on),
            6 => StreamOption::KeepAliveInterval(value),
            7 => StreamOption::KeepAliveProbes(value.min(u8::MAX.into()) as u8),
            8 => StreamOption::QuickAck(on),
            9 => StreamOption::MaxSegment(value.min(u16::MAX.into()) as u16),
            10 => StreamOption::Congestion(*Congestion::ALL.get(value as usize)?),
            11 => StreamOption::ReceiveBuffer(value),
            12 => StreamOption::SendBuffer(value),
            13 => StreamOption::DeferAccept(value),
            14 => StreamOption::FastOpen(value),
            15 => StreamOption::TrafficClass(u8::try_from(value).ok()?),
            16 => StreamOption::Hops(u8::try_from(value).ok()?),
            17 => StreamOption::Urgent,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_survives_as_a_word_and_unknown_ones_are_none() {
        let all = [
            StreamOption::NoDelay(true),
            StreamOption::Cork(false),
            StreamOption::KeepAlive(7200),
            StreamOption::UserTimeout(MOST),
            StreamOption::ResetOnClose(true),
            StreamOption::KeepAliveInterval(75),
            StreamOption::KeepAliveProbes(9),
            StreamOption::QuickAck(true),
            StreamOption::MaxSegment(u16::MAX),
            StreamOption::Congestion(Congestion::Dctcp),
            StreamOption::ReceiveBuffer(1 << 20),
            StreamOption::SendBuffer(4096),
            StreamOption::DeferAccept(3),
            StreamOption::FastOpen(256),
            StreamOption::TrafficClass(0xb8),
            StreamOption::Hops(3),
            StreamOption::Urgent,
        ];
        for (at, option) in all.into_iter().enumerate() {
            let value = option.to_word();
            assert_eq!((value & 0xff) as usize, at + 1, "each has a number of its own");
            assert_eq!(StreamOption::from_word(value), Some(option));
        }
        assert_eq!(
            StreamOption::from_word(StreamOption::ReceiveBuffer(u32::MAX).to_word()),
            Some(StreamOption::ReceiveBuffer(MOST))
        );
        assert_eq!(StreamOption::numbered(9, 1000), Some(StreamOption::MaxSegment(1000)));
        assert_eq!(StreamOption::numbered(9, MOST + 1), None);
        assert_eq!(StreamOption::numbered(257, 1), None);
        let strange = [0, 18, 255, 15 | 256 << 8, 10 | 3 << 8];
        assert!(strange.into_iter().all(|value| StreamOption::from_word(value).is_none()));
        for congestion in Congestion::ALL {
            assert_eq!(Congestion::by_name(congestion.name()), Some(congestion));
        }
        assert_eq!(Congestion::by_name("vegas"), None);
    }
}
