//! A call that waits for long says what it waits for. Each case is a process of its own: this
//! program, once more, which waits for what its parent sends only when it has read the line.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use limic::settings::{FabricUse, Path, PathSet, Settings, VerbsConnect};
use limic::topology::CpuSet;
use limic::{
    Barrier, Endpoint, Error, HybridEndpoint, Peer, RegionKey, Selector, Tag, connect_at_start,
    wait_any, wait_some,
};

/// What a process that this test starts waits in; behind a space, the key of a region of its
/// parent's.
const ROLE: &str = "LIMIC_TEST_ROLE";
/// Its parent's address, in hexadecimal digits.
const PARENT: &str = "LIMIC_TEST_PARENT";
/// More loans than fit the rings and have flags.
const LENT: u32 = 20_000;
/// More than all staging buffers hold.
const REGION: usize = 64 << 20;
/// After how long a child says what it waits for.
const SAYS_AFTER: Duration = Duration::from_millis(300);
/// Longer than anything here takes.
const WATCHDOG: Duration = Duration::from_secs(60);

struct Waiting {
    child: Child,
    /// What it says, line by line.
    said: mpsc::Receiver<String>,
}

impl Waiting {
    /// What it says while it waits.
    fn line(&self) -> String {
        self.said.recv_timeout(WATCHDOG).expect("it says nothing")
    }

    fn ends_well(mut self) {
        assert!(self.child.wait().expect("a child").success());
        let more: Vec<_> = self.said.iter().collect();
        assert!(more.is_empty(), "one line is all: {more:?}");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(role: &str, parent: &HybridEndpoint) -> Waiting {
    start_rank(7, role, parent)
}

fn start_rank(rank: u32, role: &str, parent: &HybridEndpoint) -> Waiting {
    let bytes = parent.address().to_bytes();
    let address: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["a_process_waits", "--exact", "--nocapture"])
        .env_remove("LIMIC_LOG")
        .env("LIMIC_PROFILE", "off")
        .env("LIMIC_PATIENCE_MS", SAYS_AFTER.as_millis().to_string())
        .env("LIMIC_RANK", rank.to_string())
        .env(ROLE, role)
        .env(PARENT, address)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (tell, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stderr.lines() {
            // Who has read enough reads no more.
            let _ = tell.send(line.expect("text"));
        }
    });
    Waiting { child, said }
}

/// An endpoint that accesses regions of others with their help alone.
fn helped() -> HybridEndpoint {
    let paths = PathSet::EMPTY.with(Path::Inline).with(Path::Pipeline);
    let settings = Settings::builder().allowed(paths).build();
    HybridEndpoint::with(settings.expect("settings")).expect("open")
}

/// An endpoint that meets its peers at the start of a job.
fn over_tcp() -> HybridEndpoint {
    let settings = Settings::builder().fabric(FabricUse::TcpOnly);
    let settings = settings.verbs_connect(VerbsConnect::Static).build();
    HybridEndpoint::with(settings.expect("settings")).expect("open")
}

#[test]
fn a_process_waits() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let hex = std::env::var(PARENT).expect("an address");
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    let address: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
    let (role, key) = role.split_once(' ').unwrap_or((&role, "0"));
    let key = RegionKey(key.parse().expect("a number"));
    let endpoint = match role {
        "read" | "write" => helped(),
        "start" => over_tcp(),
        _ => HybridEndpoint::open().expect("open"),
    };
    let parent = endpoint.connect(&address).expect("an address");
    if role == "contact" {
        let loan = endpoint.loan(8).expect("a loan");
        loan.send(parent, 1).expect("the parent lives");
        return;
    }
    if role == "start" {
        let ranks = [parent, endpoint.myself()];
        connect_at_start(&endpoint, 1, &ranks).expect("the parent lives");
    }
    endpoint.send(parent, 1, b"here").expect("the parent lives");
    match role {
        "start" => {}
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
        "some" => {
            let mut receives = vec![endpoint.irecv((parent, 5), vec![0; 8]).expect("irecv")];
            assert_eq!(wait_some(&endpoint, &mut receives).len(), 1);
        }
        "any" => {
            let receives = [5, 6, 5].map(|tag| endpoint.irecv((parent, tag), vec![0; 8]));
            let mut receives: Vec<_> = receives
                .into_iter()
                .map(|one| one.expect("irecv"))
                .collect();
            assert!(wait_any(&endpoint, &mut receives).is_some());
        }
        "circle" => {
            let own = endpoint.address().to_bytes();
            endpoint.send(parent, 2, &own).expect("the parent lives");
            let mut address = own;
            let come = |from, tag: u64, room: &mut [u8]| {
                let came = endpoint.recv_timeout((from, tag), room, WATCHDOG);
                came.expect("the sender lives").expect("it comes");
            };
            come(parent, 3, &mut address);
            let other = endpoint.connect(&address).expect("an address");
            endpoint.send(other, 4, b"met").expect("the other lives");
            come(other, 4, &mut [0; 8]);
            // The other waits for this one.
            let failed = endpoint.recv((other, 5), &mut [0; 8]);
            assert!(
                matches!(failed, Err(Error::PeerFailed { .. })),
                "{failed:?}"
            );
        }
        "revoke" => {
            let region = endpoint.region(vec![1; REGION]).expect("a region");
            let key = region.key().0.to_le_bytes();
            endpoint.send(parent, 2, &key).expect("the parent lives");
            endpoint
                .recv((parent, 3), &mut [0; 8])
                .expect("it has begun");
            assert_eq!(region.revoke().expect("it ends"), vec![2; REGION]);
            endpoint.recv((parent, 5), &mut [0; 8]).expect("it comes");
        }
        "read" | "write" => {
            let mut bytes = vec![2; REGION];
            if role == "read" {
                endpoint.read(parent, key, 0, &mut bytes).expect("a region");
                assert_eq!(bytes, vec![1; REGION]);
            } else {
                endpoint.write(parent, key, 0, &bytes).expect("a region");
            }
            endpoint.send(parent, 6, b"done").expect("the parent lives");
            endpoint.recv((parent, 5), &mut [0; 8]).expect("it comes");
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
    said_until(role, message, |_, _| {})
}

/// The same; what the parent does after its answer ends the wait.
fn said_until(role: &str, message: &[u8], end: impl FnOnce(&HybridEndpoint, Peer)) -> String {
    let endpoint = HybridEndpoint::open().expect("open");
    said_while(&endpoint, role, message, |_| {}, end)
}

/// The same; the parent begins something before the child waits.
fn said_while(
    endpoint: &HybridEndpoint,
    role: &str,
    message: &[u8],
    begin: impl FnOnce(Peer),
    end: impl FnOnce(&HybridEndpoint, Peer),
) -> String {
    let waiting = start(role, endpoint);
    let came = endpoint.recv(Selector::any(), &mut [0; 8]);
    let child = came.expect("the child says that it is there").peer;
    begin(child);
    let line = waiting.line();
    // When its wait ends, this is there: it says no second line.
    endpoint.send(child, 5, message).expect("the child lives");
    end(endpoint, child);
    waiting.ends_well();
    line
}

#[test]
fn a_receive_of_what_nobody_sends_names_tag_and_peer() {
    assert_eq!(
        said("recv", b"now"),
        format!(
            "limic: warning: rank 7 has waited for {SAYS_AFTER:?} in recv of tag 5 from peer 0 \
             (LIMIC_LOG=off ends such lines)"
        )
    );
}

/// Two ranks, each of which receives from the other and sends only behind that.
#[test]
fn who_wait_in_a_circle_name_each_other() {
    let endpoint = HybridEndpoint::open().expect("open");
    let mut ranks = [4, 5].map(|rank| start_rank(rank, "circle", &endpoint));
    let met = ranks.each_ref().map(|_| {
        let mut address = endpoint.address().to_bytes();
        let any = Selector::any_source(Tag(2));
        let came = endpoint.recv(any, &mut address).expect("it lives");
        (came.peer, address)
    });
    for ((to, _), (_, address)) in met.iter().zip(met.iter().rev()) {
        endpoint.send(*to, 3, address).expect("it lives");
    }
    for (rank, waiting) in [4, 5].into_iter().zip(&ranks) {
        assert_eq!(
            waiting.line(),
            format!(
                "limic: warning: rank {rank} has waited for {SAYS_AFTER:?} in recv of tag 5 from \
                 peer 1 (LIMIC_LOG=off ends such lines)"
            )
        );
    }
    // The end of one is the end of the circle.
    ranks[0].child.kill().expect("a child");
    let [_, other] = ranks;
    other.ends_well();
}

#[test]
fn a_probe_for_what_nobody_sends_names_the_peer() {
    assert_eq!(
        said("probe", b"now"),
        format!(
            "limic: warning: rank 7 has waited for {SAYS_AFTER:?} in wait_probe of any tag from peer 0 \
             (LIMIC_LOG=off ends such lines)"
        )
    );
}

#[test]
fn a_wait_for_some_of_what_nobody_sends_names_tag_and_peer() {
    let line = said("some", b"now");
    let wanted = format!("waited for {SAYS_AFTER:?} in recv of tag 5 from peer 0 ");
    assert!(line.contains(&wanted), "{line}");
}

#[test]
fn a_wait_for_any_of_what_nobody_sends_names_each() {
    let line = said("any", b"now");
    let wanted = "in wait_any for 3 operations: recv of tag 5 from peer 0; recv of tag 6 from \
                  peer 0 (";
    assert!(line.contains(wanted), "{line}");
}

/// The parent moves nothing in the middle of an access with the child's help.
#[test]
fn a_revoke_names_the_peer_that_accesses_the_region() {
    let endpoint = helped();
    let data = vec![2; REGION];
    let access = RefCell::new(None);
    let begin = |child| {
        let mut key = [0; 8];
        endpoint
            .recv((child, 2), &mut key)
            .expect("the child lives");
        let key = RegionKey(u64::from_le_bytes(key));
        let written = endpoint.iwrite(child, key, 0, data.clone());
        access.replace(Some(written.expect("the child lives")));
        endpoint.send(child, 3, b"").expect("the child lives");
    };
    let line = said_while(&endpoint, "revoke", b"", begin, |_, _| {
        let access = access.take().expect("it has begun");
        access.wait().expect("the region is there");
    });
    let wanted = format!("waited for {SAYS_AFTER:?} in revoke of a region in use by peer 0 (");
    assert!(line.contains(&wanted), "{line}");
}

#[test]
fn a_receive_in_place_of_what_nobody_sends_names_tag_and_peer() {
    let line = said("loan", b"now");
    let wanted = format!("waited for {SAYS_AFTER:?} in recv_loaned of tag 5 from peer 0 ");
    assert!(line.contains(&wanted), "{line}");
}

#[test]
fn a_loan_that_nobody_takes_names_tag_and_peer() {
    let line = said_until("lend", b"", |endpoint, child| {
        for _ in 0..LENT {
            let loaned = endpoint.recv_loaned((child, 6)).expect("the child lives");
            assert_eq!(loaned.len(), 8);
        }
    });
    let wanted =
        format!("waited for {SAYS_AFTER:?} in send of tag 6 to peer 0, which takes nothing");
    assert!(line.contains(&wanted), "{line}");
}

/// A loan lies in memory of its receiver, so the two meet first; and the parent does nothing. Over
/// a network the ranks of a job meet at its start.
#[test]
fn a_first_contact_names_the_peer() {
    for (role, endpoint, unmet) in [
        (
            "contact",
            HybridEndpoint::open().expect("open"),
            " (not met yet)",
        ),
        ("start", over_tcp(), ""),
    ] {
        let waiting = start(role, &endpoint);
        let line = waiting.line();
        endpoint
            .recv(Selector::any(), &mut [0; 8])
            .expect("the child lives");
        waiting.ends_well();
        let wanted = format!("waited for {SAYS_AFTER:?} in a first contact with peer 0{unmet} (");
        assert!(line.contains(&wanted), "{line}");
    }
}

/// The child needs the help of the parent, which does nothing in the middle of it.
#[test]
fn one_sided_operations_name_the_peer() {
    let write = format!("write of {REGION} bytes to a region of peer 0 (");
    for (role, wanted, after) in [
        ("read", "read of a region of peer 0 (", 1),
        ("write", &write, 2),
    ] {
        let endpoint = HybridEndpoint::open().expect("open");
        let region = endpoint.region(vec![1; REGION]).expect("a region");
        let role = format!("{role} {}", region.key().0);
        let end = |endpoint: &HybridEndpoint, child| {
            endpoint
                .recv((child, 6), &mut [0; 8])
                .expect("the child lives");
        };
        let line = said_while(&endpoint, &role, b"", |_| {}, end);
        assert!(
            line.contains(&format!("waited for {SAYS_AFTER:?} in {wanted}")),
            "{line}"
        );
        assert_eq!(region.revoke().expect("it ends"), vec![after; REGION]);
    }
}

#[test]
fn a_barrier_names_the_rank_that_is_missing() {
    let line = said("barrier", b"");
    assert!(
        line.contains("in barrier: recv of tag 5 from peer 0"),
        "{line}"
    );
}
