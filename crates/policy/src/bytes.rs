//! Byte counts as people write them.

use core::fmt;
use core::str::FromStr;

/// A number of bytes, read from and printed as `48`, `16K`, `4M`, `1G` or `unlimited`.
///
/// K, M and G are binary: 1024, 1024² and 1024³. Also accepted: lower case, and a tail of `iB` or
/// `B` (`16KiB`, `16KB`). Printed with the largest suffix that divides it, so that it reads back
/// to the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// The text is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a number of bytes; accepted: a whole number with an optional suffix K, M or G (1024-based), or 'unlimited'"
)]
pub struct ParseByteSizeError(String);

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseByteSizeError(text.to_owned());
        let trimmed = text.trim();
        if trimmed.eq_ignore_ascii_case("unlimited") {
            return Ok(Self(u64::MAX));
        }
        let end = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (digits, suffix) = trimmed.split_at(end);
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let multiple: u64 = match suffix.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(bad()),
        };
        number.checked_mul(multiple).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            u64::MAX => "unlimited".to_owned(),
            0 => "0".to_owned(),
            n if n % (1 << 30) == 0 => format!("{}G", n >> 30),
            n if n % (1 << 20) == 0 => format!("{}M", n >> 20),
            n if n % (1 << 10) == 0 => format!("{}K", n >> 10),
            n => n.to_string(),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suffixes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("48", 48),
            (" 16K ", 16 << 10),
            ("16 KiB", 16 << 10),
            ("16kb", 16 << 10),
            ("7b", 7),
            ("4m", 4 << 20),
            ("2G", 2 << 30),
            ("17179869183G", 17_179_869_183 << 30),
            ("unlimited", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn garbage_is_quoted_back() {
        for text in [
            "",
            "K",
            "-1",
            "1.5K",
            "16Q",
            "16K16",
            "0x10",
            "99999999999G",
            "1 2",
            "+4",
        ] {
            let error = text.parse::<ByteSize>().expect_err(text).to_string();
            assert!(
                error.starts_with(&format!("'{text}' is not a number of bytes")),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
