//! Groups, in which sessions find each other by their ranks.

use std::os::fd::RawFd;

use super::abi;
use super::call_error::{CallError, refused};
use super::messages::Messages;
use super::session::Session;
use crate::{RefusalReason, Refused};

/// Which group a session joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The one with this token, made if it is not there, with room for so many ranks.
    Token([u64; 2], u32),
    /// The one of the session behind a descriptor, which was inherited or passed over.
    Descriptor(RawFd),
}

/// Ranks that a group has room for. They are given out once in its life.
const RANKS: u32 = 16384;

impl Group {
    /// The group that a setting names, by a word or by `fd:` and a number; else the one of all
    /// endpoints of this user in a job, `""` for no job. The module keeps groups of different users
    /// apart in any case.
    ///
    /// # Errors
    /// Says what is wrong with the setting.
    pub fn named(setting: Option<&str>, job: &str) -> Result<Self, String> {
        let Some(word) = setting else {
            return Ok(Self::Token(token(job), RANKS));
        };
        let Some(descriptor) = word.strip_prefix("fd:") else {
            return Ok(Self::Token(token(&format!("word={word}")), RANKS));
        };
        let number = descriptor.parse();
        let number =
            number.map_err(|_| "a number of a descriptor is expected behind 'fd:'".to_owned())?;
        Ok(Self::Descriptor(number))
    }
}

/// What became of a member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// Nobody has had this rank.
    Absent,
    /// It is there.
    Present,
    /// Its process closed its session.
    Closed,
    /// Its process ended, or runs another program.
    Left,
}

impl Session {
    /// Joins a group, with any rank; gives what the module said.
    pub(crate) fn join(&self, group: Group) -> Result<abi::Join, Refused> {
        let mut join = abi::Join {
            rank: abi::ANY_RANK,
            ..abi::Join::default()
        };
        match group {
            Group::Token(token, size) => {
                (join.token, join.size) = (token, size);
                join.flags = abi::JOIN_CREATE;
            }
            Group::Descriptor(fd) => (join.flags, join.fd) = (abi::JOIN_FD, fd),
        }
        // SAFETY: the call touches its structure alone.
        unsafe { self.call(&mut join) }.map_err(|errno| Refused {
            errno: Some(errno),
            reason: match errno {
                libc::ENOSPC => RefusalReason::GroupFull,
                libc::EBADF | libc::ENOENT => RefusalReason::NoGroup,
                _ => RefusalReason::Module,
            },
        })?;
        Ok(join)
    }
}

impl Messages {
    /// Whether a rank is there.
    ///
    /// # Errors
    /// [`CallError::Other`] with EINVAL: it is no rank of the group.
    pub fn member(&self, rank: u32) -> Result<Member, CallError> {
        let mut call = abi::Member {
            rank,
            ..abi::Member::default()
        };
        // SAFETY: the call touches its structure alone.
        unsafe { self.session.call(&mut call) }.map_err(refused)?;
        Ok(match call.state {
            abi::MEMBER_ABSENT => Member::Absent,
            abi::MEMBER_PRESENT => Member::Present,
            abi::MEMBER_CLOSED => Member::Closed,
            _ => Member::Left,
        })
    }
}

/// FNV-1a of a token: the same in all processes, and no token.
pub(super) fn fingerprint(token: [u64; 2]) -> u64 {
    hash(BEGINNING, token.into_iter().flat_map(u64::to_le_bytes))
}

/// 128 bits of a word, the same in every process.
fn token(word: &str) -> [u64; 2] {
    [BEGINNING, 0x9e37_79b9_7f4a_7c15].map(|beginning| {
        let bytes = b"limic ".iter().chain(word.as_bytes()).copied();
        hash(beginning, bytes).max(1)
    })
}

/// Where FNV-1a begins.
const BEGINNING: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a from another beginning.
fn hash(beginning: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(beginning, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_groups_of_their_own() {
        let token = |word| match Group::named(Some(word), "") {
            Ok(Group::Token(token, _)) => token,
            other => panic!("{other:?}"),
        };
        assert_eq!(token("one"), token("one"));
        assert_ne!(token("one"), token("two"));
        assert_eq!(Group::named(Some("fd:12"), ""), Ok(Group::Descriptor(12)));
        assert!(Group::named(Some("fd:x"), "").is_err());
    }
}
