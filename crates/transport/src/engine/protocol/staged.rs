//! Bytes in a staging buffer that a peer's record names are read.

use limic_pools::staging::{BufferDescriptor, buffer_window};
use limic_records::Violation;
use limic_shm::bytes::{ReceiveBuffer, Window};

use crate::engine::cx::Cx;

/// Shows the bytes that a record names to `read`, and hands the buffer on.
///
/// # Errors
/// What is wrong with what the peer said.
#[inline]
pub(crate) fn read_buffer<T>(
    cx: &mut Cx,
    from: u32,
    descriptor: BufferDescriptor,
    read: impl FnOnce(&mut Cx, &Window<'_>) -> T,
) -> Result<Option<T>, Violation> {
    let Some(pair) = cx.peers.pair(from) else {
        return Ok(None);
    };
    let then = pair
        .staging
        .begin_read(&mut cx.staging, from, &descriptor)?;
    // A clone of the view, since reading needs the whole context: one reference count, on a path
    // that copies a hundred bytes and more.
    let memory = pair.staging.memory_of(&cx.staging, &descriptor).clone();
    let window = buffer_window(&memory, descriptor.page(), descriptor.len())?;
    let value = read(cx, &window);
    if let Some(pair) = cx.peers.pair(from) {
        let (pool, out) = (&mut cx.staging, &mut pair.out);
        pair.staging.end_read(pool, out, &descriptor, then);
    }
    Ok(Some(value))
}

/// Copies what a record names into a buffer, from byte `at` of a message of `whole` bytes on.
///
/// # Errors
/// What is wrong with what the peer said.
#[inline]
pub(crate) fn copy_buffer(
    cx: &mut Cx,
    from: u32,
    descriptor: BufferDescriptor,
    at: u64,
    whole: u64,
    into: &ReceiveBuffer,
) -> Result<(), Violation> {
    let pair = cx.peers.pair(from).ok_or("bytes before a greeting")?;
    let (pool, out) = (&mut cx.staging, &mut pair.out);
    pair.staging
        .read_in_place(pool, out, from, &descriptor, |window| {
            into.copy_part(at, descriptor.len(), window, whole);
            Ok(())
        })
}
