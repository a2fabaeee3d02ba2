//! Replies off the wire, of RESP2 and RESP3 and with any bytes in them: a server repeats in its errors
//! what it was sent, and the client library reads only errors that are text.

use redis::Value;

/// A value, or an error's line.
pub(crate) type Answer = Result<Value, String>;

/// Takes the first whole reply off the front of these bytes; none as long as a part of it is missing.
/// An error within an array is read as a simple string, and a push as the array that it is.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Answer> {
    let mut reader = Reader(bytes);
    let answer = reader.answer()?;
    let left = reader.0.len();
    bytes.drain(..bytes.len() - left);
    Some(answer)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn answer(&mut self) -> Option<Answer> {
        let line = self.line()?;
        let text = || String::from_utf8_lossy(&line[1..]).into_owned();
        let number = || -> i64 {
            let number = text().parse();
            number.unwrap_or_else(|_| panic!("a number in {:?}", line.escape_ascii().to_string()))
        };
        let value = match line.first()? {
            b'-' => return Some(Err(text())),
            b'!' => {
                let error = self.bytes(number())?;
                return Some(Err(String::from_utf8_lossy(error).into_owned()));
            }
            b'+' if &line[1..] == b"OK" => Value::Okay,
            b'+' | b'(' => Value::SimpleString(text()),
            b':' => Value::Int(number()),
            b'_' => Value::Nil,
            b'#' => Value::Boolean(&line[1..] == b"t"),
            b',' => Value::Double(text().parse().expect("a double")),
            b'$' | b'*' if number() < 0 => Value::Nil,
            b'$' => Value::BulkString(self.bytes(number())?.to_vec()),
            // Behind three letters that tell the format, and a colon.
            b'=' => Value::BulkString(self.bytes(number())?[4..].to_vec()),
            b'*' | b'>' => Value::Array(self.values(number())?),
            b'~' => Value::Set(self.values(number())?),
            b'%' => {
                let flat = self.values(number() * 2)?;
                let pairs = flat.chunks(2);
                let pairs = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
                Value::Map(pairs.collect())
            }
            _ => panic!("not a reply: {:?}", line.escape_ascii().to_string()),
        };
        Some(Ok(value))
    }

    fn values(&mut self, count: i64) -> Option<Vec<Value>> {
        (0..count)
            .map(|_| Some(self.answer()?.unwrap_or_else(Value::SimpleString)))
            .collect()
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self.0.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 2..];
        Some(line)
    }

    fn bytes(&mut self, length: i64) -> Option<&'a [u8]> {
        let length = usize::try_from(length).expect("a length");
        let (bytes, rest) = self.0.split_at_checked(length)?;
        let (end, rest) = rest.split_at_checked(2)?;
        assert_eq!(end, b"\r\n", "the end of a string");
        self.0 = rest;
        Some(bytes)
    }
}
