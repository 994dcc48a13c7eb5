//! Security associations: a key, its sequence numbers, and the encryption of one packet with it.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit, Nonce, Tag};

use crate::host::Secret;

/// Bytes in front of what is encrypted: SPI, sequence number and IV.
pub(super) const HEADER: usize = 16;
/// Bytes of the check value behind it.
pub(super) const TAG: usize = 16;
/// Bytes in front that are authenticated: SPI and sequence number (RFC 4106 §5).
const AUTHENTICATED: usize = 8;
const KEY: usize = 16;
const SALT: usize = 4;

/// Key and salt.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; KEY + SALT]);

impl FromStr for Key {
    type Err = &'static str;

    fn from_str(digits: &str) -> Result<Key, &'static str> {
        let wanted = "use 40 hexadecimal digits: 32 of the key and 8 of the salt";
        let mut key = [0; KEY + SALT];
        if digits.len() != 2 * key.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wanted);
        }
        for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wanted)?;
        }
        Ok(Key(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The associations of a host. They stay when their nodes go: a node that comes back with the same key must
/// not use a sequence number, and so an IV, a second time.
#[derive(Default)]
pub(super) struct Associations {
    all: Mutex<HashMap<(Ipv4Addr, u32, Key), Arc<Association>>>,
}

impl Associations {
    /// The association with this peer, which all workers share.
    pub(super) fn of(
        &self,
        remote: Ipv4Addr,
        spi: u32,
        key: &Key,
        secret: &Secret,
    ) -> Arc<Association> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let [first_iv, _] = secret.key(&format!("esp {remote} {spi}"));
            Arc::new(Association::new(key, spi, first_iv))
        };
        Arc::clone(all.entry((remote, spi, key.clone())).or_insert_with(made))
    }
}

/// One direction of a tunnel.
pub(super) struct Association {
    cipher: Aes128Gcm,
    salt: [u8; SALT],
    spi: u32,
    /// The sequence number of the next packet. It goes beyond 32 bits, and what does so is not sent.
    next: AtomicU64,
    /// The IV of sequence number 0.
    first_iv: u64,
}

impl Association {
    pub(super) fn new(key: &Key, spi: u32, first_iv: u64) -> Association {
        let (key, salt) = key.0.split_at(KEY);
        let cipher = Aes128Gcm::new_from_slice(key).expect("it has the length of a key");
        let salt = salt.try_into().expect("the rest is as long as a salt");
        Association { cipher, salt, spi, next: AtomicU64::new(1), first_iv }
    }

    /// Takes so many sequence numbers for the caller alone and returns the first.
    pub(super) fn numbers(&self, count: u32) -> u64 {
        self.next.fetch_add(u64::from(count), Ordering::Relaxed)
    }

    /// Has the next number be this one.
    #[cfg(test)]
    pub(super) fn skip_to(&self, number: u64) {
        self.next.store(number, Ordering::Relaxed);
    }

    /// Encrypts a packet with its trailer in place. Returns the bytes that stand before and behind it.
    pub(super) fn seal(&self, number: u32, bytes: &mut [u8]) -> ([u8; HEADER], [u8; TAG]) {
        let iv = self.first_iv.wrapping_add(number.into()).to_be_bytes();
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&self.spi.to_be_bytes());
        header[4..8].copy_from_slice(&number.to_be_bytes());
        header[8..].copy_from_slice(&iv);
        let mut nonce = [0; SALT + 8];
        nonce[..SALT].copy_from_slice(&self.salt);
        nonce[SALT..].copy_from_slice(&iv);
        let tag: Tag = self
            .cipher
            .encrypt_inout_detached(&Nonce::from(nonce), &header[..AUTHENTICATED], bytes.into())
            .expect("a packet is far shorter than 64 GiB");
        (header, tag.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "00112233445566778899aabbccddeeff01020304";

    /// Calculated with OpenSSL, by way of Python's `cryptography`: AESGCM(key).encrypt(salt + iv, text, aad).
    #[test]
    fn encrypts_as_openssl_does() {
        let association = Association::new(&DIGITS.parse().unwrap(), 0x1234, u64::MAX - 1);
        let mut bytes = *b"a packet, and its trailer\x01\x01\x04";
        let (header, tag) = association.seal(7, &mut bytes);
        assert_eq!(header, [0, 0, 0x12, 0x34, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5]);
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&bytes), "596c8543e042b6af5931bbe953441060bd39a2764a6daf99fa19e0f8");
        assert_eq!(hex(&tag), "1dd160dc20b23de38b3f4db6cd2a845f");
    }

    #[test]
    fn a_key_is_forty_digits_and_stays_out_of_messages() {
        for wrong in ["", "00", &DIGITS[1..], &DIGITS.replace('0', "g"), &"é".repeat(20)] {
            assert!(wrong.parse::<Key>().unwrap_err().contains("40 hexadecimal digits"), "{wrong}");
        }
        let key: Key = DIGITS.to_uppercase().parse().unwrap();
        assert_eq!(key, DIGITS.parse().unwrap());
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    #[test]
    fn an_association_is_found_again_with_its_numbers() {
        let (all, secret) = (Associations::default(), Secret::from_seed(1));
        let (one, other) = (DIGITS.parse().unwrap(), DIGITS.replace('4', "5").parse().unwrap());
        let of = |spi, key: &Key| all.of(Ipv4Addr::LOCALHOST, spi, key, &secret);
        assert_eq!(of(300, &one).numbers(64), 1);
        assert_eq!(of(300, &one).numbers(1), 65);
        assert_eq!(of(301, &one).numbers(1), 1);
        assert_eq!(of(300, &other).numbers(1), 1);
        assert_ne!(of(300, &one).first_iv, of(301, &one).first_iv);
    }
}
