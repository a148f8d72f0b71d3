//! SHA-256 in a `const fn`, because the id of a queue is a constant of the user's program. Keys are
//! hashed for every message; they go through the crate `sha2`, which uses the processor's own
//! instructions.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const ROUND: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The first 32 bits of the fractional parts of the square roots of the first eight primes.
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The first eight bytes of the SHA-256 of `bytes`, as a number.
pub(super) const fn sha256_start(bytes: &[u8]) -> u64 {
    let mut state = START;
    let blocks = (bytes.len() + 8) / 64 + 1;
    let mut block = 0;
    while block < blocks {
        state = compress(state, schedule(bytes, block, blocks));
        block += 1;
    }
    ((state[0] as u64) << 32) | state[1] as u64
}

/// The 64 words of a block.
const fn schedule(bytes: &[u8], block: usize, blocks: usize) -> [u32; 64] {
    let mut words = [0; 64];
    let mut i = 0;
    while i < 16 {
        let at = block * 64 + i * 4;
        words[i] = u32::from_be_bytes([
            padded(bytes, at, blocks),
            padded(bytes, at + 1, blocks),
            padded(bytes, at + 2, blocks),
            padded(bytes, at + 3, blocks),
        ]);
        i += 1;
    }
    while i < 64 {
        let (a, b) = (words[i - 15], words[i - 2]);
        let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        words[i] = words[i - 16]
            .wrapping_add(low)
            .wrapping_add(words[i - 7])
            .wrapping_add(high);
        i += 1;
    }
    words
}

/// A byte of the padded message: the bytes, a bit, zeros, and the length in bits.
const fn padded(bytes: &[u8], at: usize, blocks: usize) -> u8 {
    let end = blocks * 64;
    if at < bytes.len() {
        bytes[at]
    } else if at == bytes.len() {
        0x80
    } else if at >= end - 8 {
        (bytes.len() as u64 * 8).to_be_bytes()[at + 8 - end]
    } else {
        0
    }
}

const fn compress(state: [u32; 8], words: [u32; 64]) -> [u32; 8] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    let mut i = 0;
    while i < 64 {
        let mix = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h
            .wrapping_add(mix)
            .wrapping_add(choice)
            .wrapping_add(ROUND[i])
            .wrapping_add(words[i]);
        let mix = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = mix.wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        i += 1;
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
        state[4].wrapping_add(e),
        state[5].wrapping_add(f),
        state[6].wrapping_add(g),
        state[7].wrapping_add(h),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn it_is_sha_256_for_every_length_around_a_block() {
        for length in 0..=200_u8 {
            let bytes: Vec<u8> = (0..length).map(|n| n.wrapping_mul(37)).collect();
            let digest = Sha256::digest(&bytes);
            let start = u64::from_be_bytes(std::array::from_fn(|i| digest[i]));
            assert_eq!(sha256_start(&bytes), start, "{length} bytes");
        }
    }
}
