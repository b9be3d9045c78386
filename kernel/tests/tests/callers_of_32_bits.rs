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
        // A group of one, and a message to oneself.
        let join = abi::Join {
            token: limic_module_tests::token(),
            flags: abi::JOIN_CREATE,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::JOIN, at(128), &join), 0);
        assert_eq!(get::<abi::Join>(at(128)).token, join.token);
        let member = abi::Member::default();
        assert_eq!(compat_ioctl(fd, abi::MEMBER, at(128), &member), 0);
        assert_eq!(get::<abi::Member>(at(128)).state, abi::MEMBER_PRESENT);
        put(at(64), &low.part(PAGE, PAGE));
        let send = abi::Send_ {
            iov: at(64) as u64,
            nr_iov: 1,
            tag: 9,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::SEND, at(128), &send), 0);
        assert_eq!(get::<abi::Send_>(at(128)).state, abi::PENDING);
        let probe = abi::Probe {
            tag: 9,
            mask: !0,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::PROBE, at(128), &probe), 0);
        assert_eq!(get::<abi::Probe>(at(128)).len, PAGE as u64);
        put(at(64), &low.part(3 * PAGE, PAGE));
        let recv = |tag: u64| abi::Recv {
            iov: at(64) as u64,
            nr_iov: 1,
            tag,
            mask: !0,
            slot: 1,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::RECV, at(128), &recv(9)), 0);
        assert_eq!(get::<abi::Recv>(at(128)).state, abi::DONE);
        limic_module_tests::check(&low[3 * PAGE..4 * PAGE], 7, 0);
        assert_eq!(compat_ioctl(fd, abi::RECV, at(128), &recv(10)), 0);
        assert_eq!(get::<abi::Recv>(at(128)).state, abi::PENDING);
        let cancel = abi::Cancel {
            slot: 1,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::CANCEL, at(128), &cancel), 0);
        // The list of slots 0 and 1.
        put(
            at(64),
            &abi::Cancel {
                slot: 0,
                flags: 1,
                reserved: 0,
            },
        );
        let wait = abi::Wait {
            slots: at(64) as u64,
            nr: 2,
            min: 2,
            timeout_ns: -1,
            ..Default::default()
        };
        assert_eq!(compat_ioctl(fd, abi::WAIT, at(128), &wait), 0);
        assert_eq!(get::<abi::Wait>(at(128)).done, 2);
        // This one takes no structure.
        assert_eq!(compat_ioctl(fd, abi::PING, at(128), &cancel), 0);
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
    // SAFETY: the 32-bit system call reads and writes the structure at `at` only. It does not keep
    // r8 to r11. `rbx` is the compiler's, so it is swapped in and out.
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
