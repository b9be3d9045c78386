//! Probing: granted, and refused with the reason that a user can act on.

use limic_copy::{Cma, ProbeWord, RefusalReason, Refused};

use crate::forked::{Forked, Identity};
use crate::peer::Peer;
use crate::{available, skipped};

/// Two users that own nothing.
const USER: libc::uid_t = 65_534;
const OTHER: libc::uid_t = 65_533;

#[test]
fn a_process_can_probe_itself() {
    if !available("a_process_can_probe_itself") {
        return;
    }
    let word = ProbeWord::new(0x1234_5678_9abc_def0);
    let pid = i32::try_from(std::process::id()).unwrap();
    let peer = Cma::probe(pid, word.address(), word.value()).unwrap();
    assert_eq!(peer.pid(), pid);
}

#[test]
fn a_wrong_value_or_address_is_another_process() {
    if !available("a_wrong_value_or_address_is_another_process") {
        return;
    }
    let word = ProbeWord::new(99);
    let pid = i32::try_from(std::process::id()).unwrap();
    let reason = RefusalReason::WrongProcess { pid };
    let wrong = |errno| {
        Err(Refused {
            errno,
            reason: reason.clone(),
        })
    };
    assert_eq!(Cma::probe(pid, word.address(), 98), wrong(None));
    assert_eq!(Cma::probe(pid, 0, 0), wrong(Some(libc::EFAULT)));
    assert_eq!(Cma::probe(pid, u64::MAX - 2, 0), wrong(Some(libc::EFAULT)));
}

#[test]
fn no_process_and_no_pid_are_told_apart() {
    if !available("no_process_and_no_pid_are_told_apart") {
        return;
    }
    let word = ProbeWord::new(1);
    for pid in [0, -1] {
        let refused = Cma::probe(pid, word.address(), 1).unwrap_err();
        assert_eq!(refused.reason, RefusalReason::InvalidPid { pid });
    }
    // Above the largest value of kernel.pid_max.
    let refused = Cma::probe(5_000_000, word.address(), 1).unwrap_err();
    assert_eq!(refused.reason, RefusalReason::NotVisible { pid: 5_000_000 });
    assert_eq!(refused.errno, Some(libc::ESRCH));
}

/// What a process of user `uid` (0: the one who runs the tests) hears when it probes a child that
/// took on `identity`; `None` if that cannot be tried here.
fn verdict(test: &str, identity: Identity, uid: libc::uid_t) -> Option<(String, i32)> {
    if !available(test) {
        return None;
    }
    if uid != 0 && !rustix::process::getuid().is_root() {
        skipped(test, "needs root, to run processes as other users");
        return None;
    }
    // The child has this word at the same address.
    let word = ProbeWord::new(0xabcd);
    let target = match Forked::target(identity) {
        Ok(target) => target,
        Err(reason) => {
            skipped(test, reason);
            return None;
        }
    };
    let pid = target.pid();
    let mut prober = Peer::start(&format!(
        "probe {pid} {} {} {uid}",
        word.address(),
        word.value()
    ));
    Some((prober.line(), pid))
}

#[test]
fn a_device_for_which_no_descriptor_is_free_says_so() {
    let text = Peer::start("device").line();
    let wanted = "EMFILE, no descriptor is free for /dev/limic: close some";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn another_user_is_named() {
    for dumpable in [true, false] {
        let identity = Identity {
            user: Some(USER),
            dumpable,
        };
        let Some((text, _)) = verdict("another_user_is_named", identity, OTHER) else {
            return;
        };
        assert!(
            text.starts_with("EPERM, peer has uid 65534, this process 65533: run all ranks"),
            "{text}"
        );
    }
}

#[test]
fn a_process_that_is_not_dumpable_is_named() {
    let identity = Identity {
        user: Some(USER),
        dumpable: false,
    };
    let test = "a_process_that_is_not_dumpable_is_named";
    let Some((text, pid)) = verdict(test, identity, USER) else {
        return;
    };
    let expected = format!("EPERM, process {pid} is not dumpable: let the peer call prctl");
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn another_user_namespace_is_named() {
    let test = "another_user_namespace_is_named";
    if !available(test) {
        return;
    }
    let word = ProbeWord::new(0xdcba);
    let target = Forked::target(Identity {
        user: None,
        dumpable: true,
    })
    .unwrap();
    let role = format!(
        "probe {} {} {} 0",
        target.pid(),
        word.address(),
        word.value()
    );
    match Peer::start_in_own_user_namespace(&role) {
        Ok(mut prober) => {
            let text = prober.line();
            let named = text.starts_with("EPERM, ") && text.contains("another user namespace");
            assert!(named, "{text}");
        }
        Err(error) => skipped(test, &format!("no user namespace to be had: {error}")),
    }
}

#[test]
fn one_user_is_granted() {
    let test = "one_user_is_granted";
    let identity = Identity {
        user: Some(USER),
        dumpable: true,
    };
    if limic_copy::explain().yama.is_some_and(|scope| scope > 0) {
        skipped(
            test,
            "Yama restricts ptrace to ancestors, and the child does not let others in",
        );
        return;
    }
    let Some((text, _)) = verdict(test, identity, USER) else {
        return;
    };
    assert_eq!(text, "granted");
}

#[test]
fn a_seccomp_filter_is_named() {
    if !available("a_seccomp_filter_is_named") {
        return;
    }
    let text = Peer::start("filtered").line();
    assert!(
        text.starts_with("off: EPERM, a seccomp filter forbids process_vm_readv"),
        "{text}"
    );
    assert!(text.contains("--cap-add=SYS_PTRACE"), "{text}");
}

/// Puts a filter on this thread that answers EPERM to both system calls, as old container
/// profiles do.
pub(crate) fn forbid_process_vm() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        // The opcodes are 16 bits wide, their constants are not.
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let number = |number: libc::c_long| u32::try_from(number).unwrap();
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let (load, equal, ret) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let mut filter = [
        // Offset 0 of seccomp_data: the number of the system call.
        statement(load, 0, 0, 0),
        statement(equal, 1, 0, number(libc::SYS_process_vm_readv)),
        statement(equal, 0, 1, number(libc::SYS_process_vm_writev)),
        statement(ret, 0, 0, deny),
        statement(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` is a valid filter for the call, which copies it.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    assert!(done, "seccomp: {}", std::io::Error::last_os_error());
}
