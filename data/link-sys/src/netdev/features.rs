//! A driver's support for AF_XDP's transmit metadata, by the generic netlink family `netdev` (Linux
//! 6.8, Documentation/netlink/specs/netdev.yaml). Written out here: it is two requests of one
//! attribute each.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// The family that tells of families, and its request.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const XSK_FEATURES: u16 = 6;
/// `NETDEV_XSK_FLAGS_TX_CHECKSUM`.
const TX_CHECKSUM: u64 = 2;

const ERROR: u16 = 2;
const REQUEST: u16 = 1;
/// Netlink's header and the generic one.
const HEADERS: usize = 20;

/// Whether the driver completes checksums that transmit metadata asks for, in zero-copy mode.
///
/// # Errors
/// The kernel's answer; ENOENT where it is too old for the request.
pub(crate) fn completes_checksums(index: u32) -> io::Result<bool> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let answer = ask(&socket, CONTROL, GET_FAMILY, (FAMILY_NAME, b"netdev\0"))?;
    let family = find(&answer, FAMILY_ID).and_then(|value| value.try_into().ok());
    let family = u16::from_ne_bytes(family.ok_or(io::ErrorKind::NotFound)?);
    let answer = ask(&socket, family, GET_DEVICE, (DEVICE_INDEX, &index.to_ne_bytes()))?;
    let features = find(&answer, XSK_FEATURES).and_then(|value| value.try_into().ok());
    Ok(features.is_some_and(|features| u64::from_ne_bytes(features) & TX_CHECKSUM != 0))
}

/// Sends a request with one attribute and returns the answer's attributes.
fn ask(
    socket: &Socket,
    family: u16,
    command: u8,
    (kind, value): (u16, &[u8]),
) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADERS];
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&family.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    message[16..18].copy_from_slice(&[command, 1]);
    socket.send(&message, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind.ok_or_else(malformed)? == ERROR {
        let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
        let code = i32::from_ne_bytes(code.ok_or_else(malformed)?);
        return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
    }
    answer.get(HEADERS..).map(<[u8]>::to_vec).ok_or_else(malformed)
}

/// The value of an attribute.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let &[a, b, c, d] = attributes.first_chunk::<4>()?;
        let (length, kind) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        let value = attributes.get(4..usize::from(length))?;
        // The upper two bits say how the value is encoded.
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_completes_nothing_and_a_missing_device_is_an_error() {
        match completes_checksums(1) {
            Ok(completes) => assert!(!completes),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                return println!("skipped: needs a kernel with the netdev family");
            }
            Err(error) => panic!("{error}"),
        }
        assert!(completes_checksums(i32::MAX as u32).is_err());
    }

    #[test]
    fn attributes_are_found_wherever_they_stand() {
        let attributes = [&[6, 0, 9, 0, 1, 2, 0, 0][..], &[5, 0, 6, 0x40, 7, 0, 0, 0]].concat();
        assert_eq!(find(&attributes, 9), Some(&[1, 2][..]));
        assert_eq!(find(&attributes, 6), Some(&[7][..]));
        assert_eq!(find(&attributes, 7), None);
        for cut in 0..attributes.len() {
            find(&attributes[..cut], 7);
        }
        assert_eq!(find(&[0; 8], 7), None, "a length of nothing leads nowhere");
    }
}
