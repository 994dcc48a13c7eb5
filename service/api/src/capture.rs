//! Method `capture`: packets of a running stack, as they pass.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Method;

/// The most bytes of a packet that a capture copies.
pub const MAX_SNAPLEN: u32 = 262_144;

/// Parameters of `capture`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// The packets to capture, in the syntax of pcap-filter; empty: all.
    pub filter: String,
    /// The places: `rx` (packets that links receive), `tx` (packets sent to links), or a port as
    /// `NODE.PORT`. Empty: `rx` and `tx`.
    pub at: Vec<String>,
    /// End after this many packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Copy at most this many bytes of each packet, up to [`MAX_SNAPLEN`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
}

impl Method for CaptureRequest {
    const NAME: &'static str = "capture";
    type Answer = CaptureEvent;
}

/// The answers to `capture`: first [`Started`](CaptureEvent::Started), at last
/// [`Ended`](CaptureEvent::Ended), each in a response of its own with the request's id. The client
/// ends a capture by closing the connection, or by any other request on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CaptureEvent {
    /// Packets are captured from now on.
    Started(CaptureStarted),
    /// A packet.
    Packet(CapturedPacket),
    /// The number of packets since the start that matched and were not copied: the reader is too slow.
    Missed(u64),
    /// No more packets follow.
    Ended(CaptureEnd),
}

/// A place where packets are captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureStarted {
    /// The stack's links, by number.
    pub links: Vec<String>,
    /// The places, by number.
    pub places: Vec<CapturePlace>,
    /// The most bytes of a packet that are copied.
    pub snaplen: u32,
}

/// A place in the running graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapturePlace {
    /// The port that packets leave by, as `NODE.PORT`.
    pub port: String,
    /// The packets' direction.
    pub direction: Direction,
}

/// The direction of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// They come from a link.
    In,
    /// They go to a link.
    Out,
    /// They are somewhere in between.
    #[default]
    #[serde(other)]
    Inside,
}

/// A packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapturedPacket {
    /// The number of the place.
    pub place: u16,
    /// The number of the link that it came from or goes to.
    pub link: u16,
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Its length on the link.
    pub length: u32,
    /// Its bytes, cut to the capture's length; in base64 on the wire.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Vec<u8>,
}

/// How a capture ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureEnd {
    /// Packets that were sent to the client.
    pub captured: u64,
    /// Packets that matched and were not copied.
    pub missed: u64,
    /// The reason: `count`, `request`, or `removed` if the places are no longer in the graph.
    pub reason: String,
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}
