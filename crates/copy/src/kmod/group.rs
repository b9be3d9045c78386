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
    let bytes = token.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
