//! A call that waits for long says what it waits for. Each case is a process of its own: this
//! program, once more, which waits for what its parent sends only when it has read the line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use limic::topology::CpuSet;
use limic::{Barrier, Endpoint, HybridEndpoint, Peer, Selector, Tag};

/// What a process that this test starts waits in.
const ROLE: &str = "LIMIC_TEST_ROLE";
/// Its parent's address, in hexadecimal digits.
const PARENT: &str = "LIMIC_TEST_PARENT";
/// More loans than fit the rings and have flags.
const LENT: u32 = 20_000;
/// Longer than anything here takes.
const WATCHDOG: Duration = Duration::from_secs(60);

struct Waiting {
    child: Child,
    /// Taken by who reads it.
    stderr: Option<BufReader<std::process::ChildStderr>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(role: &str, parent: &HybridEndpoint) -> Waiting {
    let bytes = parent.address().to_bytes();
    let address: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["a_process_waits", "--exact", "--nocapture"])
        .env_remove("LIMIC_LOG")
        .env("LIMIC_PROFILE", "off")
        .env("LIMIC_PATIENCE_MS", "20")
        .env("LIMIC_RANK", "7")
        .env(ROLE, role)
        .env(PARENT, address)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let stderr = child.stderr.take().map(BufReader::new);
    Waiting { child, stderr }
}

#[test]
fn a_process_waits() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let hex = std::env::var(PARENT).expect("an address");
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    let address: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
    let endpoint = HybridEndpoint::open().expect("open");
    let parent = endpoint.connect(&address).expect("an address");
    endpoint.send(parent, 1, b"here").expect("the parent lives");
    match role.as_str() {
        "recv" => {
            let status = endpoint.recv((parent, 5), &mut [0; 8]).expect("it comes");
            assert_eq!(status.len, 3);
        }
        "probe" => {
            let any_tag = Selector::any_tag(parent);
            assert_eq!(endpoint.wait_probe(any_tag).expect("it comes").len, 3);
            endpoint.recv(any_tag, &mut [0; 8]).expect("it is here");
        }
        "loan" => {
            let loaned = endpoint.recv_loaned((parent, 5)).expect("it comes");
            assert_eq!(loaned.to_vec(), b"now");
        }
        "lend" => {
            for _ in 0..LENT {
                let loan = endpoint.loan(8).expect("it comes back");
                loan.send(parent, 6).expect("the parent lives");
            }
            endpoint.recv((parent, 5), &mut [0; 8]).expect("it comes");
        }
        _ => {
            let myself = endpoint.myself();
            assert_eq!(myself.index(), 1, "the ranks are in order");
            let node = endpoint.address().node();
            let ranks = [0, 1].map(|cpu| (node, CpuSet::from_iter([cpu])));
            let barrier = Barrier::new(1, &Barrier::heads(&ranks)).expect("a rank");
            barrier.wait(&endpoint, Tag(5)).expect("all ranks come");
        }
    }
}

/// Starts a process, reads the line that it says while it waits, answers with `message`, and gives
/// the line.
fn said(role: &str, message: &[u8]) -> String {
    said_before(role, message, |_, _| {})
}

/// The same; the parent does something before it answers.
fn said_before(role: &str, message: &[u8], before: impl FnOnce(&HybridEndpoint, Peer)) -> String {
    let endpoint = HybridEndpoint::open().expect("open");
    let mut waiting = start(role, &endpoint);
    let came = endpoint.recv(Selector::any(), &mut [0; 8]);
    let child = came.expect("the child says that it is there").peer;
    let (tell, told) = mpsc::channel();
    let mut stderr = waiting.stderr.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        stderr.read_line(&mut line).expect("text");
        tell.send(line).expect("the test waits");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("text");
        rest
    });
    let line = told.recv_timeout(WATCHDOG).expect("it says nothing");
    before(&endpoint, child);
    endpoint.send(child, 5, message).expect("the child lives");
    assert!(waiting.child.wait().expect("a child").success());
    assert_eq!(reader.join().expect("text"), "", "one line is all");
    line
}

#[test]
fn a_receive_of_what_nobody_sends_names_tag_and_peer() {
    assert_eq!(
        said("recv", b"now"),
        "limic: warning: rank 7 has waited for 20ms in recv of tag 5 from peer 0 \
         (LIMIC_LOG=off ends such lines)\n"
    );
}

#[test]
fn a_probe_for_what_nobody_sends_names_the_peer() {
    assert_eq!(
        said("probe", b"now"),
        "limic: warning: rank 7 has waited for 20ms in wait_probe of any tag from peer 0 \
         (LIMIC_LOG=off ends such lines)\n"
    );
}

#[test]
fn a_receive_in_place_of_what_nobody_sends_names_tag_and_peer() {
    let line = said("loan", b"now");
    let wanted = "waited for 20ms in recv_loaned of tag 5 from peer 0 ";
    assert!(line.contains(wanted), "{line}");
}

#[test]
fn a_loan_that_nobody_takes_names_tag_and_peer() {
    let line = said_before("lend", b"", |endpoint, child| {
        for _ in 0..LENT {
            let loaned = endpoint.recv_loaned((child, 6)).expect("the child lives");
            assert_eq!(loaned.len(), 8);
        }
    });
    let wanted = "waited for 20ms in send of tag 6 to peer 0, which takes nothing";
    assert!(line.contains(wanted), "{line}");
}

#[test]
fn a_barrier_names_the_rank_that_is_missing() {
    let line = said("barrier", b"");
    assert!(
        line.contains("in barrier: recv of tag 5 from peer 0"),
        "{line}"
    );
}
