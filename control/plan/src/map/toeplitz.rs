//! The Toeplitz hash of receive side scaling, for packets and for sets of packets.

/// Source and destination of IPv6 and two ports: the longest input.
const LONGEST: usize = 36;

/// A key, with the hash of every byte at every place of the input.
#[derive(Clone)]
pub(crate) struct Toeplitz {
    by_byte: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Prepares `key`. Places behind its end count as zeros, as a short key does not reach them.
    pub(crate) fn new(key: &[u8]) -> Toeplitz {
        let by_byte = (0..LONGEST).map(|at| byte_hashes(key, at)).collect();
        Toeplitz { by_byte }
    }

    /// The contribution of `value`, `bits` wide and placed at byte `at` of the input, to the hash.
    pub(crate) fn part(&self, value: u128, bits: u32, at: usize) -> u32 {
        let bytes = bits as usize / 8;
        let each = (0..bytes).map(|i| {
            let byte = (value >> (8 * (bytes - 1 - i))) as u8;
            self.by_byte[at + i][usize::from(byte)]
        });
        each.fold(0, |hash, part| hash ^ part)
    }
}

fn byte_hashes(key: &[u8], at: usize) -> [u32; 256] {
    // The 32 bits of the key from bit `8 * at + i` on belong to bit `i` of the byte.
    let window = key.iter().copied().chain(std::iter::repeat(0)).skip(at).take(5);
    let window = window.fold(0u64, |w, byte| w << 8 | u64::from(byte));
    let mut hashes = [0; 256];
    for (byte, hash) in hashes.iter_mut().enumerate() {
        for bit in (0..8).filter(|bit| byte >> (7 - bit) & 1 == 1) {
            *hash ^= (window >> (8 - bit)) as u32;
        }
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of Microsoft's "Verifying the RSS Hash Calculation", and two of its vectors.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn published_vectors() {
        let t = Toeplitz::new(&KEY);
        let source = u128::from(u32::from_be_bytes([66, 9, 149, 187]));
        let destination = u128::from(u32::from_be_bytes([161, 142, 100, 80]));
        let addresses = t.part(source, 32, 0) ^ t.part(destination, 32, 4);
        assert_eq!(addresses, 0x323e_8fc2);
        assert_eq!(addresses ^ t.part(2794, 16, 8) ^ t.part(1766, 16, 10), 0x51cc_c178);
        let source: u128 = 0x3ffe_2501_0200_1fff_0000_0000_0000_0007;
        let destination: u128 = 0x3ffe_2501_0200_0003_0000_0000_0000_0001;
        let addresses = t.part(source, 128, 0) ^ t.part(destination, 128, 16);
        assert_eq!(addresses, 0x2cc1_8cd5);
        assert_eq!(addresses ^ t.part(2794, 16, 32) ^ t.part(1766, 16, 34), 0x4020_7d3d);
    }
}
