//! Which group of the module an endpoint joins: its job's.

use std::os::fd::RawFd;

use limic_bootstrap::launcher;
use limic_copy::Group;

use crate::{Error, Result};

/// Ranks that a group has room for. They are given out once in its life.
const RANKS: u32 = 16384;

/// The group that the settings name, or that of the launcher's job; without either, as under Hydra,
/// which names no job, the one of all endpoints of this user. The module keeps groups of different
/// users apart in any case.
pub(super) fn find(setting: Option<&str>) -> Result<Group> {
    let Some(word) = setting else {
        let job = launcher::job().unwrap_or_default();
        return Ok(Group::Token(token(&job), RANKS));
    };
    let Some(descriptor) = word.strip_prefix("fd:") else {
        return Ok(Group::Token(token(&format!("word={word}")), RANKS));
    };
    let number: RawFd = descriptor.parse().map_err(|_| {
        Error::Settings(format!(
            "LIMIC_KERNEL_GROUP=fd:{descriptor}: a number of a descriptor is expected behind 'fd:'"
        ))
    })?;
    Ok(Group::Descriptor(number))
}

/// 128 bits of a word, the same in every process: FNV-1a from two beginnings.
fn token(word: &str) -> [u64; 2] {
    [0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15].map(|start: u64| {
        let bytes = b"limic ".iter().chain(word.as_bytes());
        let hash = bytes.fold(start, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash.max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_groups_of_their_own() {
        let token = |word| match find(Some(word)) {
            Ok(Group::Token(token, _)) => token,
            other => panic!("{other:?}"),
        };
        assert_eq!(token("one"), token("one"));
        assert_ne!(token("one"), token("two"));
        assert_eq!(find(Some("fd:12")), Ok(Group::Descriptor(12)));
        let error = find(Some("fd:x")).expect_err("no number");
        assert!(error.to_string().contains("fd:x"), "{error}");
    }
}
