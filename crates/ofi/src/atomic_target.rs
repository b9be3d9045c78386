//! Atomic operations that peers ask for: executed where the memory is, when its owner makes
//! progress.

use limic::{Access, Peer};

use crate::abi::FI_ATOMIC;
use crate::abi::errno::*;
use crate::atomic_initiator::{AHEAD, LONGEST};
use crate::control_channel::answer_tag;
use crate::endpoint::Endpoint;
use crate::log;
use crate::reduction::{Reduction, knows, op, size_of_type};

impl Endpoint {
    /// A peer asks for an atomic operation.
    pub(crate) fn answer(&self, peer: Peer, number: u32, message: &[u8], fetches: bool) {
        let (result, errno) = match self.execute(message) {
            Ok(before) if fetches => (before, 0),
            Ok(_) => (Vec::new(), 0),
            Err(errno) => (Vec::new(), errno),
        };
        if errno != 0 {
            log::warn(&format_args!(
                "an atomic operation of {peer} is refused: {}",
                crate::errors::text_of(errno).to_string_lossy()
            ));
        }
        let word = Some(errno as u64);
        if let Err(errno) = self.say(peer, answer_tag(number), word, result) {
            log::info(&format_args!("{peer} gets no answer: error {errno}"));
        }
    }

    /// Executes an operation. Whatever the message says is checked first.
    fn execute(&self, message: &[u8]) -> Result<Vec<u8>, i32> {
        if self.caps & FI_ATOMIC == 0 {
            return Err(FI_EKEYREJECTED);
        }
        let word = |number: usize| -> Result<u64, i32> {
            let bytes = message.get(8 * number..).and_then(<[u8]>::first_chunk);
            bytes
                .map(|bytes| u64::from_ne_bytes(*bytes))
                .ok_or(FI_EINVAL)
        };
        let (key, addr, count) = (word(0)?, word(1)?, word(2)?);
        let (datatype, op) = ((word(3)? >> 32) as u32, word(3)? as u32);
        let size = size_of_type(datatype).ok_or(FI_EOPNOTSUPP)?;
        let count = usize::try_from(count).map_err(|_| FI_EINVAL)?;
        if !knows(datatype, op) || count > LONGEST / size {
            return Err(FI_EOPNOTSUPP);
        }
        let bytes = count * size;
        let operands = message.get(AHEAD..).unwrap_or_default();
        let wanted = match op {
            op::READ => 0,
            op if op::compares(op) => 2 * bytes,
            _ => bytes,
        };
        if operands.len() != wanted {
            return Err(FI_EINVAL);
        }
        let regions = self.domain.regions.borrow();
        let region = regions.get(&key).ok_or(FI_EKEYREJECTED)?;
        let access = if op == op::READ {
            Access::READ
        } else {
            Access::WRITE
        };
        let target = region.part(addr, bytes, access)?;
        let (operand, compare) = operands.split_at(bytes.min(operands.len()));
        let reduction = Reduction {
            datatype,
            op,
            operand,
            compare,
        };
        // SAFETY: within the region, which the application registered for such accesses; its own
        // threads that look at it meanwhile accept what libfabric says of that.
        Ok(unsafe { reduction.run(target, count) })
    }
}
