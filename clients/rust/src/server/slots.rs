//! Which slot of a cluster a key belongs to.

/// How many slots there are.
const SLOTS: u16 = 16_384;

/// The slot of a key: of the part within its first pair of braces, where that is not empty.
pub(crate) fn slot(key: &[u8]) -> u16 {
    checksum(hash_tag(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// CRC16 with the polynomial 0x1021 and a start of 0, as the cluster specification has it.
fn checksum(bytes: &[u8]) -> u16 {
    let step = |sum: u16, byte: &u8| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| {
            if sum & 0x8000 == 0 {
                sum << 1
            } else {
                (sum << 1) ^ 0x1021
            }
        })
    };
    bytes.iter().fold(0, step)
}

#[cfg(test)]
mod tests {
    use super::{checksum, slot};

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(checksum(b"123456789"), 0x31C3);
    }

    #[test]
    fn keys_have_the_slots_that_a_server_gives_them() {
        for key in [
            "foo", "", "{foo}bar", "a{}b", "}a{b}", "{a", "x{a}{b}", "ключ",
        ] {
            assert_eq!(slot(key.as_bytes()), testbed::cluster::slot(key), "{key}");
        }
    }
}
