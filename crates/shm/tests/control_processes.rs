//! The control socket between real processes: hand-over, and death.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of test functions"
)]

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use limic_shm::control::{
    ControlError, Doorbell, Event, EventSet, Listener, PeerDoorbell, PidfdError, Received, Sent,
    Socket, Trigger, abstract_name,
};
use limic_shm::ring::Memory;
use limic_shm::segment::{Geometry, OwnSegment, PeerSegment, Placement};
use rustix::io::{FdFlags, fcntl_setfd};

const ROLE: &str = "LIMIC_TEST_ROLE";
const ID: &str = "LIMIC_TEST_ID";
/// Nothing here takes long; a wait beyond this is a failure.
const WATCHDOG: Duration = Duration::from_secs(60);

const PEER: u64 = 1;
const DOORBELL: u64 = 2;
const DEATH: u64 = 3;

/// A second process; killed and reaped when dropped.
struct Second {
    child: Child,
    /// The child and its children end when this closes.
    stdin: Option<ChildStdin>,
}

impl Second {
    fn start(role: &str, id: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "second_process", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(ID, id.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listener() -> Listener {
    Listener::bind(getrandom::u64().unwrap()).unwrap()
}

/// Waits for an event of `token`; other events are dropped.
fn await_event(events: &EventSet, token: u64) -> Event {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "no event {token} within {WATCHDOG:?}");
        let mut found = [Event::default(); 8];
        let count = events.wait(Some(left), &mut found).unwrap();
        if let Some(event) = found[..count].iter().find(|event| event.token == token) {
            return *event;
        }
    }
}

fn accept(listener: &Listener) -> Socket {
    let events = EventSet::new().unwrap();
    events.add(listener.as_fd(), PEER, Trigger::Level).unwrap();
    loop {
        if let Some(channel) = listener.accept().unwrap() {
            return channel;
        }
        await_event(&events, PEER);
    }
}

/// The next message.
fn receive(channel: &Socket) -> (Vec<u8>, Vec<OwnedFd>) {
    let events = EventSet::new().unwrap();
    events.add(channel.as_fd(), PEER, Trigger::Level).unwrap();
    let mut buffer = [0; 256];
    loop {
        match channel.receive(&mut buffer).unwrap() {
            Received::Message { len, fds } => return (buffer[..len].to_vec(), fds),
            Received::WouldBlock => {
                await_event(&events, PEER);
            }
            Received::Closed => panic!("the second process has ended"),
        }
    }
}

#[test]
fn a_segment_and_a_doorbell_change_hands() {
    let listener = listener();
    let mut second = Second::start("owner", listener.id());
    let channel = accept(&listener);

    let peer = channel.credentials().unwrap();
    assert_eq!(peer.pid, second.child.id() as i32);
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert_eq!(peer.gid, rustix::process::getegid().as_raw());

    let (message, fds) = receive(&channel);
    let epoch = u64::from_le_bytes(message.try_into().unwrap());
    let [shared, owner, doorbell] = <[OwnedFd; 3]>::try_from(fds).unwrap();
    let segment = PeerSegment::attach([shared.as_fd(), owner.as_fd()], Some(epoch)).unwrap();
    let doorbell = PeerDoorbell::from_fd(doorbell).unwrap();
    let staging = segment.staging();
    for round in 1..=3_u64 {
        staging.word64(64).store(round * 11, Ordering::Release);
        doorbell.ring();
        // Echoed by the owner after it was woken.
        let (message, _) = receive(&channel);
        assert_eq!(message, (round * 11).to_le_bytes());
        assert_eq!(
            segment
                .probe_word(3)
                .unwrap()
                .word64(0)
                .load(Ordering::Acquire),
            round * 11
        );
    }
    assert!(second.child.wait().unwrap().success());
}

/// The second process of `a_segment_and_a_doorbell_change_hands`.
fn owner(id: u64) {
    let segment = OwnSegment::create(Geometry::DEFAULT, Placement::default()).unwrap();
    let [shared, owner] = segment.fds();
    let doorbell = Doorbell::new().unwrap();
    let events = EventSet::new().unwrap();
    doorbell.watch(&events, DOORBELL).unwrap();
    let channel = Socket::connect(id).unwrap();
    let epoch = segment.epoch().to_le_bytes();
    assert_eq!(
        channel
            .send(&epoch, &[shared, owner, doorbell.for_peers()])
            .unwrap(),
        Sent::Done
    );
    let (staging, probe_word) = (segment.staging(), segment.probe_word(3).unwrap());
    let mut seen = 0;
    while seen < 33 {
        await_event(&events, DOORBELL);
        doorbell.silence();
        let value = staging.word64(64).load(Ordering::Acquire);
        if value != seen {
            seen = value;
            probe_word.word64(0).store(value, Ordering::Release);
            assert_eq!(channel.send(&value.to_le_bytes(), &[]).unwrap(), Sent::Done);
        }
    }
}

#[test]
fn sigkill_wakes_the_event_set() {
    let listener = listener();
    let mut second = Second::start("wait", listener.id());
    let channel = accept(&listener);
    assert_eq!(receive(&channel).0, b"up");
    let events = EventSet::new().unwrap();
    events.add(channel.as_fd(), PEER, Trigger::Edge).unwrap();
    let pidfd = channel.pidfd();
    if let Ok(pidfd) = &pidfd {
        events.add(pidfd.as_fd(), DEATH, Trigger::Level).unwrap();
    }
    let mut none = [Event::default(); 4];
    assert_eq!(events.wait(Some(Duration::ZERO), &mut none).unwrap(), 0);

    second.child.kill().unwrap();
    assert!(await_event(&events, PEER).hang_up);
    assert!(matches!(
        channel.receive(&mut [0; 16]).unwrap(),
        Received::Closed
    ));
    assert!(matches!(channel.send(b"x", &[]), Err(ControlError::Closed)));
    match pidfd {
        Ok(_) => assert!(await_event(&events, DEATH).readable),
        Err(error) => println!("SKIPPED: pidfd: {error}"),
    }
    second.child.wait().unwrap();
    // Reaped: nothing to open any more, or (Linux 6.16) a pidfd of the dead.
    match channel.pidfd() {
        Ok(pidfd) => {
            events.add(pidfd.as_fd(), DEATH, Trigger::Level).unwrap();
            assert!(await_event(&events, DEATH).readable || await_event(&events, DEATH).hang_up);
        }
        Err(error) => assert!(matches!(error, PidfdError::Dead), "{error}"),
    }
}

#[test]
fn death_is_seen_while_a_grandchild_holds_the_socket() {
    let listener = listener();
    let mut second = Second::start("parent", listener.id());
    let channel = accept(&listener);
    assert_eq!(receive(&channel).0, b"up");
    let pidfd = match channel.pidfd() {
        Ok(pidfd) => pidfd,
        Err(error) => {
            println!("SKIPPED: {error}");
            return;
        }
    };
    let events = EventSet::new().unwrap();
    events.add(pidfd.as_fd(), DEATH, Trigger::Level).unwrap();
    events.add(channel.as_fd(), PEER, Trigger::Level).unwrap();
    second.kill();
    assert!(await_event(&events, DEATH).readable);
    assert!(matches!(
        channel.receive(&mut [0; 16]).unwrap(),
        Received::WouldBlock
    ));
    // The grandchild ends with its input, and only now does the channel.
    drop(second.stdin.take());
    events.remove(pidfd.as_fd()).unwrap();
    assert!(await_event(&events, PEER).hang_up);
    assert!(matches!(
        channel.receive(&mut [0; 16]).unwrap(),
        Received::Closed
    ));
}

#[test]
fn what_was_sent_before_death_still_arrives() {
    let listener = listener();
    let second = Second::start("wait", listener.id());
    let channel = accept(&listener);
    // Unread by the second process when it dies: the kernel then reports a reset.
    assert_eq!(channel.send(b"never read", &[]).unwrap(), Sent::Done);
    let events = EventSet::new().unwrap();
    drop(second);
    events.add(channel.as_fd(), PEER, Trigger::Level).unwrap();
    while !await_event(&events, PEER).hang_up {}
    let mut buffer = [0; 16];
    match channel.receive(&mut buffer).unwrap() {
        // Killed before it sent, which is as good.
        Received::Closed => return,
        Received::Message { len, .. } => assert_eq!(&buffer[..len], b"up"),
        Received::WouldBlock => panic!("neither a message nor the end"),
    }
    assert!(matches!(
        channel.receive(&mut buffer).unwrap(),
        Received::Closed
    ));
}

#[test]
fn nothing_is_left_after_sigkill() {
    let here = listener();
    let id = getrandom::u64().unwrap();
    let mut second = Second::start("listen", here.id());
    let channel = accept(&here);
    assert_eq!(channel.send(&id.to_le_bytes(), &[]).unwrap(), Sent::Done);
    assert_eq!(receive(&channel).0, b"listening");
    let other = Socket::connect(id).unwrap();
    let name = abstract_name(id);
    let in_use = || {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        sockets.lines().any(|line| line.ends_with(&name))
    };
    assert!(in_use());
    assert!(matches!(
        Listener::bind(id),
        Err(ControlError::NameTaken { .. })
    ));

    let before = shm_names();
    second.kill();
    assert!(!in_use());
    assert!(
        before.iter().all(|name| !name.contains("limic")),
        "{before:?}"
    );
    assert!(shm_names().iter().all(|name| !name.contains("limic")));
    let error = Socket::connect(id).unwrap_err();
    assert!(
        matches!(error, ControlError::NobodyListens { .. }) && error.is_gone(),
        "{error}"
    );
    // A connection that was never accepted ends too, and the name is free.
    assert!(matches!(
        other.receive(&mut [0; 8]).unwrap(),
        Received::Closed
    ));
    Listener::bind(id).unwrap();
}

fn shm_names() -> Vec<String> {
    match std::fs::read_dir("/dev/shm") {
        Ok(entries) => entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Blocks until the test closes the pipe, or ends.
fn until_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
#[ignore = "the second process of the other tests"]
fn second_process() {
    let Ok(role) = std::env::var(ROLE) else {
        println!("SKIPPED: only as a second process");
        return;
    };
    let id = std::env::var(ID).unwrap().parse().unwrap();
    match role.as_str() {
        "owner" => owner(id),
        "wait" => {
            let channel = Socket::connect(id).unwrap();
            assert_eq!(channel.send(b"up", &[]).unwrap(), Sent::Done);
            until_end_of_input();
        }
        "parent" => {
            let channel = Socket::connect(id).unwrap();
            fcntl_setfd(channel.as_fd(), FdFlags::empty()).unwrap();
            let mut grandchild = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "second_process", "--ignored", "--nocapture"])
                .env(ROLE, "hold")
                .spawn()
                .unwrap();
            assert_eq!(channel.send(b"up", &[]).unwrap(), Sent::Done);
            until_end_of_input();
            // Only reached if the test fails: it kills this process before.
            grandchild.wait().unwrap();
        }
        "hold" => until_end_of_input(),
        "listen" => {
            let channel = Socket::connect(id).unwrap();
            let (message, _) = receive(&channel);
            let listener = Listener::bind(u64::from_le_bytes(message.try_into().unwrap())).unwrap();
            let _segment = OwnSegment::create(Geometry::DEFAULT, Placement::default()).unwrap();
            assert_eq!(channel.send(b"listening", &[]).unwrap(), Sent::Done);
            until_end_of_input();
            drop(listener);
        }
        other => panic!("no role {other}"),
    }
}
