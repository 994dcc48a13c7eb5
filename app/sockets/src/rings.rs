//! Programs that make io_urings by an instruction of their own, as those into which liburing is linked statically: the
//! requests of such a ring pass no library, and a socket in them would not be the stack's.

/// Whether machine code of this processor makes the system call `io_uring_setup` by itself. It looks for the
/// instruction that loads the call's number (425 on all processors), and one that makes a call closely behind it. Code
/// that has its number from elsewhere, as the C library's `syscall`, is not meant.
pub fn makes_rings(code: &[u8]) -> bool {
    match std::env::consts::ARCH {
        "x86_64" => in_x86_64(code),
        "aarch64" => in_aarch64(code),
        _ => false,
    }
}

/// How far behind the number the call may be: what is in between loads its arguments.
const NEAR: usize = 64;

/// `mov eax, 425` … `syscall`.
fn in_x86_64(code: &[u8]) -> bool {
    const NUMBER: [u8; 5] = [0xb8, 0xa9, 0x01, 0, 0];
    const CALL: [u8; 2] = [0x0f, 0x05];
    const SECOND: u8 = NUMBER[1];
    let calls = |at: usize| {
        let there = at.checked_sub(1).and_then(|at| code.get(at..));
        let Some(behind) = there.and_then(|there| there.strip_prefix(&NUMBER)) else {
            return false;
        };
        behind[..behind.len().min(NEAR)].windows(CALL.len()).any(|there| there == CALL)
    };
    // Without a branch for each octet, most pieces are passed over at once: programs have a hundred megabytes.
    let mut pieces = code
        .chunks(PIECE)
        .enumerate()
        .filter(|(_, piece)| piece.iter().fold(false, |any, octet| any | (*octet == SECOND)));
    pieces.any(|(number, piece)| {
        let mut seconds = piece.iter().enumerate().filter(|(_, octet)| **octet == SECOND);
        seconds.any(|(at, _)| calls(number * PIECE + at))
    })
}

/// Octets that are looked at together.
const PIECE: usize = 64;

/// `mov x8, 425` or `mov w8, 425` … `svc 0`.
fn in_aarch64(code: &[u8]) -> bool {
    const NUMBERS: [u32; 2] = [0xd280_3528, 0x5280_3528];
    const CALL: u32 = 0xd400_0001;
    let words = || {
        code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    };
    let mut numbers = words().enumerate().filter(|(_, word)| NUMBERS.contains(word));
    numbers.any(|(at, _)| words().skip(at + 1).take(NEAR / 4).any(|word| word == CALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_makes_the_call_is_found_wherever_it_is() {
        let number = [0xb8, 0xa9, 0x01, 0, 0];
        let call = [0x0f, 0x05];
        for before in 0..2 * PIECE {
            for between in [0, 7, NEAR - 2, NEAR - 1] {
                let code =
                    [&vec![0; before], &number[..], &vec![0x90; between], &call, &[0xc3]].concat();
                assert_eq!(in_x86_64(&code), between <= NEAR - 2, "{before}, {between}");
                for len in 0..before + number.len() + 1 {
                    assert!(!in_x86_64(&code[..len]), "cut to {len}");
                }
            }
        }
        // The number alone is compared in the functions of libraries; another call is another one.
        assert!(!in_x86_64(&number));
        assert!(!in_x86_64(&[&[0xb8, 0xaa, 0x01, 0, 0], &call[..]].concat()));
        // A number that begins in what looks like one.
        assert!(in_x86_64(&[&[0xb8, 0xa9, 0x01], &number[..], &call].concat()));
    }

    #[test]
    fn so_is_the_other_processors() {
        let code =
            |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        for number in [0xd280_3528, 0x5280_3528] {
            assert!(in_aarch64(&code(&[0xd503_201f, number, 0xaa00_03e1, 0xd400_0001])));
            assert!(!in_aarch64(&code(&[0xd400_0001, number, 0xd65f_03c0])));
        }
        assert!(!in_aarch64(&code(&[0xd280_3548, 0xd400_0001])), "io_uring_enter");
        assert!(!in_aarch64(&[0x28, 0x35]));
    }
}
