//! Message sizes as the user writes them: `8,64,1K` and `1..4M`.

use std::str::FromStr;

use limic::settings::ByteSize;

/// The longest message that the benchmarks send: 16 GiB.
const MAX_BYTES: u64 = 16 << 30;

/// A list of message sizes in bytes, ascending and without repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeList(Vec<usize>);

/// The text is not a list of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSizes {
    /// A word that is none.
    #[error(
        "'{0}' is not a size; accepted: a number of bytes with an optional suffix K, M or G, or a range of powers of two like 1..4M"
    )]
    NotASize(String),
    /// A message that nobody sends.
    #[error("{0} is more than the 16G that the benchmarks send")]
    TooLong(String),
    /// A range that ends before it begins.
    #[error("the range '{0}' is empty: its end is below its beginning")]
    EmptyRange(String),
}

impl SizeList {
    /// The powers of two from `from` to `to`, which are powers of two.
    pub fn powers(from: usize, to: usize) -> Self {
        let doubled = |size: &usize| size.checked_mul(2);
        Self(
            std::iter::successors(Some(from), doubled)
                .take_while(|size| *size <= to)
                .collect(),
        )
    }

    /// These sizes.
    pub fn of(sizes: &[usize]) -> Self {
        Self(sizes.to_vec())
    }

    /// All of them.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The longest one, at least 1 so that a buffer has an address.
    pub fn longest(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0).max(1)
    }
}

impl FromStr for SizeList {
    type Err = BadSizes;

    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let mut sizes = Vec::new();
        for item in text.split(',') {
            match item.split_once("..") {
                Some((from, to)) => {
                    let (from, to) = (size(from, item)?, size(to, item)?);
                    if from > to {
                        return Err(BadSizes::EmptyRange(item.trim().to_owned()));
                    }
                    sizes.push(from);
                    let first = (from + 1).next_power_of_two();
                    sizes.extend(Self::powers(first, to).0);
                }
                None => sizes.push(size(item, item)?),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

fn size(text: &str, item: &str) -> Result<usize, BadSizes> {
    let ByteSize(bytes) = text
        .parse()
        .map_err(|_| BadSizes::NotASize(item.trim().to_owned()))?;
    if bytes > MAX_BYTES {
        return Err(BadSizes::TooLong(text.trim().to_owned()));
    }
    usize::try_from(bytes).map_err(|_| BadSizes::TooLong(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<usize>, String> {
        let list = text.parse::<SizeList>();
        list.map(|list| list.0).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parsed("8"), Ok(vec![8]));
        assert_eq!(parsed("64, 8,1K,8"), Ok(vec![8, 64, 1024]));
        assert_eq!(parsed("1..16"), Ok(vec![1, 2, 4, 8, 16]));
        assert_eq!(parsed("0..4,7"), Ok(vec![0, 1, 2, 4, 7]));
        assert_eq!(parsed("3..9"), Ok(vec![3, 4, 8]));
        assert_eq!(parsed("1M..1M"), Ok(vec![1 << 20]));
        assert_eq!(SizeList::powers(4, 16).0, [4, 8, 16]);
    }

    #[test]
    fn what_is_wrong_is_quoted() {
        for (text, part) in [
            ("", "'' is not a size"),
            ("8,x", "'x' is not a size"),
            ("1...4", "'1...4' is not a size"),
            ("4..", "'4..' is not a size"),
            ("8..4", "the range '8..4' is empty"),
            ("17G", "17G is more than"),
            ("unlimited", "unlimited is more than"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
