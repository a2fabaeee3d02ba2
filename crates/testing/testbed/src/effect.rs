//! The arguments of `LOCK._APPLY`, written without the module's help.

const VERSION: u8 = 1;
const WIDE: i64 = 1 << 55;
/// The bit of the version for a quiet change.
const QUIET: i64 = 128;
/// The version of a change of shares.
const SHARES: u8 = 2;
/// The highest byte for a share that comes or changes.
const PUT: i64 = 1;
/// The bit for a lease that was shortened by hand.
const CUT: i64 = 128;

/// A lock as the one argument of `LOCK._APPLY`; a deadline of -1 is none. What is out of its range
/// stays so.
pub fn effect(
    owner: impl AsRef<[u8]>,
    token: i64,
    holds: i64,
    lease_ms: i64,
    deadline: i64,
) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    let mut put = |number: i64, length: usize| bytes.extend(&number.to_le_bytes()[..length]);
    put(deadline, 8);
    if holds == 1 && (0..1 << 24).contains(&lease_ms) {
        put(token, 7);
        put(lease_ms, 3);
    } else {
        put(token | WIDE, 7);
        put(lease_ms, 5);
        put(holds, 4);
    }
    bytes.extend(owner.as_ref());
    bytes
}

/// The words of a command; the effect in `LOCK._APPLY key owner token holds lease-ms deadline-ms` is
/// packed.
pub fn packed(words: &[impl AsRef<str>]) -> Vec<Vec<u8>> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let number = |word: &str| word.parse().ok();
    let effect = match words[..] {
        ["LOCK._APPLY", _, owner, token, holds, lease, deadline, ..] => (|| {
            let (token, holds) = (number(token)?, number(holds)?);
            let (lease, deadline) = (number(lease)?, number(deadline)?);
            Some(effect(owner, token, holds, lease, deadline))
        })(),
        _ => None,
    };
    let mut bytes: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    if let Some(effect) = effect {
        bytes.splice(2..7, [effect]);
    }
    bytes
}

/// The content of an effect.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// The holders of the lock.
    pub owner: Vec<u8>,
    /// The fencing token.
    pub token: i64,
    /// The hold count.
    pub holds: i64,
    /// The remembered lease.
    pub lease_ms: i64,
    /// When the lease ends; -1 for never.
    pub deadline: i64,
}

/// Reads an effect, which must be one; `None` of one that only takes shares out.
pub fn read(effect: &[u8]) -> Option<Said> {
    let mut rest = effect;
    let mut take = |length: usize| {
        let (head, tail) = rest.split_at(length);
        rest = tail;
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(head);
        i64::from_le_bytes(bytes)
    };
    let version = take(1) & !QUIET;
    let (mut deadline, mut token) = (take(8), take(7));
    if version == i64::from(SHARES) {
        let (what, _count) = (take(1), take(4));
        if what & CUT != 0 {
            take(8);
        }
        if what & !CUT > PUT {
            return None;
        }
        deadline = take(8);
        let _limit = take(4);
        token = take(7);
    } else {
        assert_eq!(version, i64::from(VERSION), "the version");
    }
    let (lease_ms, holds) = if token & WIDE == 0 {
        (take(3), 1)
    } else {
        (take(5), take(4))
    };
    let said = Said {
        owner: rest.to_vec(),
        token: token & !WIDE,
        holds,
        lease_ms,
        deadline,
    };
    assert!(!said.owner.is_empty(), "{said:?}");
    Some(said)
}
