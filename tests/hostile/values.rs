//! Values that a careless reader of arguments would stumble over.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

use crate::effect;
use crate::grammar::{COUNTS, LEASES};

/// The end of the token space.
pub(crate) const TOKENS: i64 = 1 << 53;

const KEYS: [&[u8]; 8] = [
    b"k",
    b"l",
    b"",
    b"\0",
    b"a\r\nb",
    b"%s%n",
    b"\xff\xfe",
    b"{s}",
];
const OWNERS: [&[u8]; 8] = [
    b"o",
    b"p",
    b"*",
    b"\0\xff",
    b"%n%s",
    b"\r\n",
    &[b'x'; 256],
    &[b'x'; 257],
];
/// Without `BLOCK`: a wait that nobody ends would end the test.
const WORDS: [&[u8]; 23] = [
    b"",
    b"PX",
    b"px",
    b"EX",
    b"HOLDS",
    b"TOKEN",
    b"RAISE",
    b"ALL",
    b"*",
    b"NX",
    b"KEEPTTL",
    b"\0",
    b"\r\n",
    b"PX\0",
    b"%s%n%p",
    b"\xc3\x28",
    b"REPLACE",
    b"ABSTTL",
    b"0",
    b"1",
    b"-1",
    b"2",
    b"500",
];
const NUMBERS: &str = "0 1 2 3 10 1000 60000 -1 -0 +1 01 0x10 1e3 1.5 nan inf -inf 1\0 2147483647 2147483648 4294967296 \
    315360000000 315360000001 9007199254740992 9007199254740993 9223372036854775807 \
    9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 \
    18446744073709551616 99999999999999999999999999 1795000000000000";
/// Those with blanks, or nothing else.
const BLANKS: [&str; 3] = ["", " 1", "1 "];
const NEAR_THE_END: [i64; 3] = [TOKENS - 1, TOKENS - 2, TOKENS - 100];
const MIB: usize = 1 << 20;
const REMEMBERED: usize = 16;

/// Draws values, by a seed.
pub(crate) struct Values {
    pub(crate) random: StdRng,
    /// Whether tokens near the end of their space are drawn, which uses it up.
    pub(crate) up_to_the_end: bool,
    tokens: Vec<i64>,
    dumps: Vec<Vec<u8>>,
}

impl Values {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            up_to_the_end: false,
            tokens: Vec::new(),
            dumps: Vec::new(),
        }
    }

    /// Forgets what belongs to the last server.
    pub(crate) fn forget(&mut self) {
        self.tokens.clear();
        self.dumps.clear();
    }

    /// Keeps a token that was replied, to be used again.
    pub(crate) fn remember_token(&mut self, token: i64) {
        if self.tokens.len() == REMEMBERED {
            self.tokens.remove(0);
        }
        self.tokens.push(token);
    }

    /// Keeps a payload that was replied, to be used again.
    pub(crate) fn remember_dump(&mut self, payload: Vec<u8>) {
        if self.dumps.len() == REMEMBERED {
            self.dumps.remove(0);
        }
        self.dumps.push(payload);
    }

    /// True one time in so many.
    pub(crate) fn one_in(&mut self, times: u32) -> bool {
        self.random.random_ratio(1, times)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        *values.choose(&mut self.random).expect("values")
    }

    /// One of the words of this line.
    pub(crate) fn word_of(&mut self, line: &'static str) -> &'static str {
        let words: Vec<_> = line.split(' ').collect();
        self.one_of(&words)
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        if self.one_in(300) {
            return self.anything();
        }
        self.one_of(&KEYS).to_vec()
    }

    pub(crate) fn owner(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => self.anything(),
            1..20 => b"o".to_vec(),
            _ => self.one_of(&OWNERS).to_vec(),
        }
    }

    /// What `LOCK._APPLY` takes, most of the time.
    pub(crate) fn effect(&mut self) -> Vec<u8> {
        if self.one_in(20) {
            return self.anything();
        }
        let number = |text: Vec<u8>| -> i64 {
            let text = String::from_utf8_lossy(&text);
            text.parse().unwrap_or_default()
        };
        let owner = self.owner();
        let (token, holds) = (number(self.token()), number(self.number(&COUNTS)));
        let lease = number(self.number(&LEASES));
        let deadline = number(self.number(&[-1, 1, 4_000_000_000_000, i64::MAX]));
        let mut effect = effect(owner, token, holds, lease, deadline);
        match self.below(30) {
            0 => effect.truncate(self.below(effect.len() + 1)),
            1 => {
                let at = self.below(effect.len());
                effect[at] ^= 1 << self.below(8);
            }
            _ => {}
        }
        effect
    }

    pub(crate) fn word(&mut self) -> Vec<u8> {
        if self.one_in(100) {
            return self.anything();
        }
        self.one_of(&WORDS).to_vec()
    }

    /// A number that the command takes, most of the time.
    pub(crate) fn number(&mut self, sensible: &[i64]) -> Vec<u8> {
        match self.below(8) {
            0 => self.odd_number(),
            1 if self.one_in(20) => self.anything(),
            _ => self.one_of(sensible).to_string().into_bytes(),
        }
    }

    fn odd_number(&mut self) -> Vec<u8> {
        let numbers: Vec<_> = NUMBERS.split(' ').chain(BLANKS).collect();
        self.one_of(&numbers).as_bytes().to_vec()
    }

    pub(crate) fn token(&mut self) -> Vec<u8> {
        if self.up_to_the_end && self.one_in(50) {
            return self.one_of(&NEAR_THE_END).to_string().into_bytes();
        }
        match self.below(6) {
            0 => self.odd_number(),
            1 => {
                let any = self.random.random_range(1..TOKENS / 2);
                any.to_string().into_bytes()
            }
            _ => {
                let known = self.tokens.choose(&mut self.random).copied().unwrap_or(1);
                let near = known + self.one_of(&[0, 0, 0, -1, 1, 2_000_000]);
                near.to_string().into_bytes()
            }
        }
    }

    /// A payload for `RESTORE`.
    pub(crate) fn payload(&mut self) -> Vec<u8> {
        match self.dumps.choose(&mut self.random) {
            Some(payload) if !self.random.random_ratio(1, 5) => payload.clone(),
            _ => self.bytes(40),
        }
    }

    /// Up to so many random bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.below(most + 1)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn anything(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => vec![self.one_of(b"x\0%\xff\n"); MIB],
            1 => vec![b'y'; 257],
            2 => self.odd_number(),
            3 => b"%s%n%x\r\n-ERR a reply\r\n".to_vec(),
            _ => self.bytes(64),
        }
    }
}
