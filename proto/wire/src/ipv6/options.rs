//! Options of hop-by-hop and destination headers (RFC 8200 §4.2).

/// Option types that are known.
pub mod option_kind {
    /// One byte of padding, without a length.
    pub const PAD1: u8 = 0;
    /// Padding of two bytes or more.
    pub const PADN: u8 = 1;
    /// Routers on the way look at the packet (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
}

/// Most options in one header, padding included (RFC 8504 §5.3 allows a limit).
pub const MAX_OPTIONS: usize = 16;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// The type byte, see [`option_kind`].
    pub kind: u8,
    /// Where the type byte stands in the area.
    pub offset: usize,
    /// The value, behind type and length.
    pub data: &'a [u8],
}

/// Iterates over the options in `area`, padding included; ends with `None` in its place where the
/// area ends within an option.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Options<'a> {
    area: &'a [u8],
    at: usize,
}

impl<'a> Ipv6Options<'a> {
    /// Over the bytes of a header behind its first two.
    pub const fn new(area: &'a [u8]) -> Self {
        Self { area, at: 0 }
    }

    fn read(&self) -> Option<Ipv6Option<'a>> {
        let rest = self.area.get(self.at..)?;
        let (&kind, after) = rest.split_first()?;
        let data = match kind {
            option_kind::PAD1 => &[],
            _ => after.get(1..1 + usize::from(*after.first()?))?,
        };
        Some(Ipv6Option { kind, offset: self.at, data })
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Option<Ipv6Option<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.area.len() {
            return None;
        }
        let option = self.read();
        let header = |option: &Ipv6Option<'_>| if option.kind == option_kind::PAD1 { 1 } else { 2 };
        self.at = match &option {
            Some(option) => self.at + header(option) + option.data.len(),
            None => self.area.len(),
        };
        Some(option)
    }
}

/// Whether the sender of an option is told that it is unknown: the two highest bits of its type
/// (RFC 8200 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptionReport {
    /// 01: silently discarded.
    Never,
    /// 10: even if the packet was sent to a group.
    Always,
    /// 11: unless the packet was sent to a group.
    UnlessGroup,
}

/// The faults of an options area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionFault {
    Truncated,
    TooMany,
    Unknown { offset: usize, report: OptionReport },
}

/// Checks an area of options; whether there is a router alert.
pub(super) fn check(area: &[u8]) -> Result<bool, OptionFault> {
    let mut alert = false;
    for (count, option) in Ipv6Options::new(area).enumerate() {
        let option = option.ok_or(OptionFault::Truncated)?;
        if count == MAX_OPTIONS {
            return Err(OptionFault::TooMany);
        }
        alert |= option.kind == option_kind::ROUTER_ALERT;
        if let Some(report) = unknown_action(option.kind) {
            return Err(OptionFault::Unknown { offset: option.offset, report });
        }
    }
    Ok(alert)
}

/// The report due for an unknown option that may not be skipped; `None` for known and skippable
/// ones.
const fn unknown_action(kind: u8) -> Option<OptionReport> {
    match kind >> 6 {
        0 => None,
        1 => Some(OptionReport::Never),
        2 => Some(OptionReport::Always),
        _ => Some(OptionReport::UnlessGroup),
    }
}
