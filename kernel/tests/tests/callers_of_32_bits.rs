//! Programs of 32 bits on a kernel of 64.
#![cfg(target_arch = "x86_64")]

use limic_module_tests::abi;
use limic_module_tests::{Memory, PAGE, Session, guest_test};

/// The same calls through the 32-bit entry of the kernel.
#[test]
#[cfg(target_arch = "x86_64")]
fn callers_of_32_bits_are_served_right() {
    guest_test(|| {
        let mut low = Memory::low(16 * PAGE);
        let session = Session::silent().expect("open");
        let fd = session.descriptor();
        let base = low.address() as usize;
        let at = |place: usize| base + place;
        let hello = abi::Hello {
            version: abi::VERSION,
            slots: 8,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::HELLO, at(0), &hello), 0);
        let said: abi::Hello = get(at(0));
        assert_eq!(said.status_bytes, PAGE as u64);
        // A buffer exposed to the session itself, and read by it.
        limic_module_tests::fill(&mut low[PAGE..2 * PAGE], 7);
        let from = low.part(PAGE, PAGE);
        put(at(64), &from);
        let expose = abi::Expose {
            iov: at(64) as u64,
            nr_iov: 1,
            flags: abi::EXPOSE_READ,
            to: abi::TO_SESSION,
            session: said.session,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::EXPOSE, at(128), &expose), 0);
        let exposed: abi::Expose = get(at(128));
        put(at(64), &low.part(2 * PAGE, PAGE));
        let copy = abi::Copy_ {
            handle: exposed.handle,
            iov: at(64) as u64,
            nr_iov: 1,
            flags: abi::COPY_READ,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::COPY, at(256), &copy), 0);
        assert_eq!(get::<abi::Copy_>(at(256)).copied, PAGE as u64);
        limic_module_tests::check(&low[2 * PAGE..3 * PAGE], 7, 0);
        let unknown = abi::Revoke::default();
        assert_eq!(
            compat_ioctl(fd, abi::REVOKE, at(256), &unknown),
            -libc::ENOENT
        );
    });
}

fn put<T: abi::Plain>(at: usize, value: &T) {
    // SAFETY: `at` is in the low mapping of the test, with room for it.
    unsafe { (at as *mut T).write_unaligned(*value) }
}

fn get<T: abi::Plain>(at: usize) -> T {
    // SAFETY: `at` is in the low mapping of the test, and any bytes are a value.
    unsafe { (at as *const T).read_unaligned() }
}

/// An ioctl as a 32-bit program makes it: `int 0x80`, with the structure below 4 GiB.
#[cfg(target_arch = "x86_64")]
fn compat_ioctl<T: abi::Plain>(
    fd: std::ffi::c_int,
    number: std::ffi::c_ulong,
    at: usize,
    value: &T,
) -> i32 {
    const IOCTL_32: i64 = 54;
    put(at, value);
    let result: i64;
    // SAFETY: the 32-bit system call reads and writes the structure at `at` only. It does not keep r8 to r11. `rbx` is
    // the compiler's, so it is swapped in and out.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {fd}",
            "int 0x80",
            "xchg rbx, {fd}",
            fd = inout(reg) i64::from(fd) => _,
            inlateout("rax") IOCTL_32 => result,
            in("rcx") number,
            in("rdx") at,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result as i32
}
