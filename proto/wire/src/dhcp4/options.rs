//! Options: type, length, data, in up to three fields of a message.

/// Option codes.
pub mod option {
    /// Padding.
    pub const PAD: u8 = 0;
    /// Subnet mask.
    pub const SUBNET_MASK: u8 = 1;
    /// Routers, best first.
    pub const ROUTER: u8 = 3;
    /// Domain name servers, best first.
    pub const DNS: u8 = 6;
    /// The client's name.
    pub const HOST_NAME: u8 = 12;
    /// The interface's MTU.
    pub const MTU: u8 = 26;
    /// The address that a client asks for.
    pub const REQUESTED_IP: u8 = 50;
    /// Seconds.
    pub const LEASE_TIME: u8 = 51;
    /// Where else options are.
    pub const OVERLOAD: u8 = 52;
    /// See [`MessageType`](crate::dhcp4::MessageType).
    pub const MESSAGE_TYPE: u8 = 53;
    /// Address of the server.
    pub const SERVER_ID: u8 = 54;
    /// Options that a client wants.
    pub const PARAMETER_REQUEST: u8 = 55;
    /// Bytes of the longest message that a client takes.
    pub const MAX_MESSAGE: u8 = 57;
    /// T1, in seconds.
    pub const RENEWAL_TIME: u8 = 58;
    /// T2, in seconds.
    pub const REBINDING_TIME: u8 = 59;
    /// Identifies the client to the server.
    pub const CLIENT_ID: u8 = 61;
    /// Classless static routes (RFC 3442).
    pub const CLASSLESS_ROUTES: u8 = 121;
    /// End of the list.
    pub const END: u8 = 255;
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhcpOption<'a> {
    /// See [`option`].
    pub code: u8,
    /// The value, behind type and length.
    pub data: &'a [u8],
}

/// Iterates over options, padding left out: those behind the fixed part, then those in the file
/// field and the server's name, if an "overload" option says that there are any. One that runs
/// beyond its field ends the field.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    area: &'a [u8],
    file: &'a [u8],
    sname: &'a [u8],
    /// The value of the overload option; bit 2 once it may not change any more.
    overload: u8,
}

impl<'a> Options<'a> {
    pub(super) fn new(area: &'a [u8], file: &'a [u8], sname: &'a [u8]) -> Self {
        Self { area, file, sname, overload: 0 }
    }

    /// The next field, if there is one.
    fn turn(&mut self) -> Option<()> {
        let (file, sname) = (self.overload & 1 != 0, self.overload & 2 != 0);
        self.overload = if file { self.overload & 2 } else { 0 } | 4;
        self.area = match (file, sname) {
            (true, _) => self.file,
            (_, true) => self.sname,
            _ => return None,
        };
        Some(())
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = DhcpOption<'a>;

    fn next(&mut self) -> Option<DhcpOption<'a>> {
        loop {
            let (code, len, rest) = match *self.area {
                [option::PAD, ref rest @ ..] => {
                    self.area = rest;
                    continue;
                }
                [code, len, ref rest @ ..] if code != option::END => (code, len.into(), rest),
                _ => {
                    self.turn()?;
                    continue;
                }
            };
            let Some((data, behind)) = rest.split_at_checked(len) else {
                self.area = &[];
                continue;
            };
            self.area = behind;
            if code == option::OVERLOAD && self.overload & 4 == 0 {
                self.overload = data.first().copied().unwrap_or(0) & 3;
            }
            return Some(DhcpOption { code, data });
        }
    }
}

/// The data of an option that came in several parts (RFC 3396), joined.
#[derive(Clone, Copy, Debug)]
pub struct Collected {
    bytes: [u8; 512],
    len: usize,
}

impl Collected {
    /// The data.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Joins all parts of option `code`; `None` if there is none, or more than 512 bytes.
pub fn collect(options: Options<'_>, code: u8) -> Option<Collected> {
    let mut collected = Collected { bytes: [0; 512], len: 0 };
    let mut found = false;
    for part in options.filter(|o| o.code == code) {
        let end = collected.len + part.data.len();
        collected.bytes.get_mut(collected.len..end)?.copy_from_slice(part.data);
        (collected.len, found) = (end, true);
    }
    found.then_some(collected)
}
