//! A peer process: this binary started again as the test `peer::peer_process`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

use limic_copy::{Cma, CmaPeer, Kmod, ProbeWord, RemoteRange, explain};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, Rlimit, setrlimit};

const ROLE: &str = "LIMIC_COPY_TEST_ROLE";
/// Before each line that is for the parent; the harness prints others.
const MARK: &str = "peer: ";
/// A peer that its parent forgot ends by SIGALRM; a parent that waits for it gets end-of-file.
const WATCHDOG_SECONDS: u32 = 60;
/// Mapped part of the buffer of the role `half`; as much after it is not mapped.
pub(crate) const HALF: usize = 64 * 1024;

/// Byte `index` of a fresh buffer.
pub(crate) fn pattern(index: usize) -> u8 {
    (index.wrapping_mul(31) ^ (index >> 8)) as u8
}

/// FNV-1a.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A running peer; killed and reaped on drop.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn start(role: &str) -> Self {
        Self::spawn(Self::command(role)).unwrap()
    }

    /// Starts it in a user namespace of its own; an error if the kernel forbids that.
    pub(crate) fn start_in_own_user_namespace(role: &str) -> std::io::Result<Self> {
        let mut command = Self::command(role);
        let unshare = || {
            // SAFETY: a system call that touches no memory.
            let result = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
            if result == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        };
        // SAFETY: the closure makes a system call and reads errno, which is allowed after a fork.
        unsafe { command.pre_exec(unshare) };
        Self::spawn(command)
    }

    fn command(role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "peer::peer_process",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn spawn(mut command: Command) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// The next line from the peer.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let bytes = self.output.read_line(&mut line).unwrap();
            assert!(bytes > 0, "the peer ended without a word");
            if let Some((_, text)) = line.split_once(MARK) {
                return text.trim_end().to_owned();
            }
        }
    }

    /// Starts a peer with a buffer and probes it: the peer and its buffer.
    pub(crate) fn with_buffer(role: &str) -> (Self, CmaPeer, RemoteRange) {
        let mut peer = Self::start(role);
        let line = peer.line();
        let numbers: Vec<u64> = numbers(&line);
        let [address, len, word, value] = numbers[..] else {
            panic!("{line}")
        };
        let target = Cma::probe(peer.pid(), word, value).unwrap();
        (
            peer,
            target,
            RemoteRange {
                key: 0,
                address,
                len,
            },
        )
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sum of a part of the peer's buffer, as the peer itself sees it.
    pub(crate) fn sum(&mut self, offset: usize, len: usize) -> u64 {
        writeln!(self.input, "{offset} {len}").unwrap();
        self.line().parse().unwrap()
    }

    /// Kills it; it stays a zombie until dropped.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        // End-of-file comes when its descriptors are closed; its memory is gone by then.
        while self.output.read_line(&mut String::new()).unwrap() > 0 {}
    }

    pub(crate) fn reap(&mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails only if it has been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers<T: FromStr>(line: &str) -> Vec<T> {
    line.split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn say(text: impl std::fmt::Display) {
    println!("{MARK}{text}");
}

/// Not a test: what the other tests start as their peer.
#[test]
#[ignore = "the other tests start it as their peer process"]
fn peer_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    nix::unistd::alarm::set(WATCHDOG_SECONDS);
    let (role, arguments) = role.split_once(' ').unwrap_or((&role, ""));
    match role {
        "buffer" => buffer(arguments.parse().unwrap()),
        "half" => half(),
        "probe" => probe(&numbers(arguments)),
        "device" => {
            // No descriptor may be opened any more.
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            setrlimit(Resource::Nofile, none).unwrap();
            say(Kmod::open().unwrap_err());
        }
        "filtered" => {
            crate::refusals::forbid_process_vm();
            say(explain());
        }
        other => panic!("no such role: {other}"),
    }
}

fn announce(address: usize, len: usize, word: &ProbeWord) {
    limic_copy::allow_peers();
    say(format_args!(
        "{address} {len} {} {}",
        word.address(),
        word.value()
    ));
}

fn buffer(len: usize) {
    let word = ProbeWord::new(0xfeed_0000 + u64::from(std::process::id()));
    let mut bytes: Vec<u8> = (0..len).map(pattern).collect();
    let pointer = bytes.as_mut_ptr();
    announce(pointer.expose_provenance(), len, &word);
    for line in std::io::stdin().lines() {
        let [offset, len] = numbers::<usize>(&line.unwrap())[..] else {
            return;
        };
        // SAFETY: a part of `bytes`, made from its exposed pointer; the parent does not write it
        // while it waits for the answer.
        let part = unsafe { std::slice::from_raw_parts(pointer.add(offset), len) };
        say(sum(part));
    }
}

/// A buffer whose second half is not mapped.
fn half() {
    let word = ProbeWord::new(0xbeef_0000 + u64::from(std::process::id()));
    // SAFETY: a new mapping, and its second half taken away again; nothing else knows it.
    let start = unsafe {
        let start = mmap_anonymous(
            std::ptr::null_mut(),
            2 * HALF,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
        .unwrap();
        start.cast::<u8>().write_bytes(7, HALF);
        munmap(start.byte_add(HALF), HALF).unwrap();
        start
    };
    announce(start.expose_provenance(), 2 * HALF, &word);
    // Until the parent is done.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Becomes another user and says what probing a process gives.
fn probe(arguments: &[u64]) {
    let [pid, address, value, uid] = arguments[..] else {
        panic!("{arguments:?}")
    };
    if uid != 0 {
        crate::forked::become_user(libc::uid_t::try_from(uid).unwrap());
    }
    match Cma::probe(i32::try_from(pid).unwrap(), address, value) {
        Ok(_) => say("granted"),
        Err(refused) => say(refused),
    }
}
