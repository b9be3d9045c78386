//! A process that is at a limit of its system: first contacts wait, and nobody is taken for dead.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use limic::settings::FabricUse;
use limic::{Endpoint, Error, HybridEndpoint, Peer, Selector, Settings, Tag};
use limic_tests::process::descriptor_numbers;
use limic_tests::{Cast, Rank, check, content};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, sendmsg,
    shutdown, socketpair,
};

const NOBODY: u32 = 65_534;

/// Sets how many descriptors this process may have; gives what the limit was.
fn limit_descriptors(most: u64) -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("getrlimit");
    setrlimit(Resource::RLIMIT_NOFILE, most, hard).expect("setrlimit");
    soft
}

/// A limit that leaves some descriptors free, however many are open.
fn few() -> u64 {
    descriptor_numbers().into_iter().max().unwrap_or(0) as u64 + 20
}

/// Tries for a while what cannot succeed.
fn try_in_vain(endpoint: &HybridEndpoint) {
    for _ in 0..50 {
        endpoint.sleep(Some(Duration::ZERO));
    }
}

/// A message to a peer that was not met yet, while no descriptor is free.
#[test]
fn a_sender_without_a_free_descriptor_waits() {
    send_without_descriptors("a_sender_without_a_free_descriptor_waits", FabricUse::Auto);
}

/// The same over TCP.
#[test]
fn a_sender_over_tcp_without_a_free_descriptor_waits() {
    let name = "a_sender_over_tcp_without_a_free_descriptor_waits";
    send_without_descriptors(name, FabricUse::TcpOnly);
}

fn send_without_descriptors(name: &str, fabric: FabricUse) {
    Cast::new(name).run(|rank| {
        let settings = Settings::builder().fabric(fabric).build();
        let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
        let peers = rank.connect(&endpoint);
        if rank.rank == 1 {
            let mut inbox = vec![0; 5000];
            for number in 0..3 {
                endpoint.recv((peers[0], 1), &mut inbox).expect("recv");
                check(number, &inbox);
            }
        } else {
            let soft = limit_descriptors(3);
            let send = |number| {
                endpoint
                    .isend(peers[1], 1_u64, content(number, 5000))
                    .expect("isend")
            };
            let sends = [0, 1, 2].map(send);
            try_in_vain(&endpoint);
            limit_descriptors(soft);
            for send in sends {
                send.wait().expect("the peer lives");
            }
        }
        rank.link.meet(&endpoint);
    });
}

/// Uses up all descriptors but `free`, until what is returned is dropped.
fn use_up_descriptors(free: usize) -> Vec<OwnedFd> {
    let mut held = Vec::new();
    while let Ok(one) = std::io::stdout().as_fd().try_clone_to_owned() {
        held.push(one);
    }
    held.truncate(held.len() - free);
    held
}

/// An endpoint that has met the other one of two ranks.
fn met(rank: &Rank) -> (HybridEndpoint, Peer) {
    let endpoint = HybridEndpoint::open().expect("open");
    let other = rank.connect(&endpoint)[1 - rank.rank as usize];
    let mut inbox = [0; 4];
    endpoint
        .send_recv(other, 1_u64, b"here", (other, 1), &mut inbox)
        .expect("a peer");
    (endpoint, other)
}

/// A loan lies in memory that its receiver maps when it comes, which takes a descriptor for that
/// time.
#[test]
fn a_loan_arrives_though_no_descriptor_is_free() {
    Cast::new("a_loan_arrives_though_no_descriptor_is_free").run(|rank| {
        let (endpoint, other) = met(rank);
        if rank.rank == 1 {
            limit_descriptors(few());
            let held = use_up_descriptors(0);
            let _ = rank.link.exchange(&[]);
            let taken = endpoint.recv_loaned((other, 2)).expect("the peer lives");
            check(1, &taken.to_vec());
            let mut copied = vec![0; 9 << 20];
            endpoint
                .recv((other, 3), &mut copied)
                .expect("the peer lives");
            check(2, &copied);
            drop(held);
        } else {
            let _ = rank.link.exchange(&[]);
            // The second one does not fit the arena of the first.
            for (number, len) in [(1, 5000), (2, 9 << 20)] {
                let mut loan = endpoint.loan(len).expect("loan");
                loan.copy_from_slice(&content(number, len));
                loan.send(other, number + 1).expect("send");
            }
        }
        rank.link.meet(&endpoint);
    });
}

/// One that greets sends descriptors, which the other side has no room for at the time.
#[test]
fn a_greeting_waits_for_free_descriptors() {
    Cast::new("a_greeting_waits_for_free_descriptors").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let data = content(1, 5000);
        if rank.rank == 0 {
            let send = endpoint.isend(peers[1], 1_u64, data).expect("isend");
            let _ = rank.link.exchange(&[]);
            let _ = rank.link.exchange(&[]);
            send.wait().expect("the peer lives");
        } else {
            let soft = limit_descriptors(few());
            // For the connection, and one of the two that come with the greeting.
            let held = use_up_descriptors(2);
            let _ = rank.link.exchange(&[]);
            try_in_vain(&endpoint);
            drop(held);
            limit_descriptors(soft);
            let _ = rank.link.exchange(&[]);
            let mut inbox = vec![0; 5000];
            endpoint
                .recv((peers[0], 1), &mut inbox)
                .expect("the peer lives");
            check(1, &inbox);
        }
        rank.link.meet(&endpoint);
    });
}

/// The answer to a greeting brings descriptors too, and what its sender says next is in the ring
/// already.
#[test]
fn what_follows_a_welcome_waits_for_free_descriptors() {
    Cast::new("what_follows_a_welcome_waits_for_free_descriptors").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let mut inbox = [0; 100];
        if rank.rank == 0 {
            let soft = limit_descriptors(few());
            // For the connection alone.
            let held = use_up_descriptors(1);
            let send = endpoint
                .isend(other, 1_u64, content(0, 100))
                .expect("isend");
            let _ = rank.link.exchange(&[]);
            let _ = rank.link.exchange(&[]);
            try_in_vain(&endpoint);
            drop(held);
            limit_descriptors(soft);
            for number in 1..4 {
                endpoint.recv((other, 1), &mut inbox).expect("a message");
                check(number, &inbox);
            }
            send.wait().expect("the peer lives");
        } else {
            let _ = rank.link.exchange(&[]);
            // The greeting is there, and is answered.
            try_in_vain(&endpoint);
            for number in 1..4 {
                endpoint
                    .send(other, 1_u64, &content(number, 100))
                    .expect("send");
            }
            let _ = rank.link.exchange(&[]);
            endpoint.recv((other, 1), &mut inbox).expect("a message");
            check(0, &inbox);
        }
        rank.link.meet(&endpoint);
    });
}

/// Lets this process use so many bytes of addresses more, and no others; gives what the limit was.
fn limit_addresses(more: u64) -> (u64, u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_AS).expect("getrlimit");
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = status.split(' ').next().expect("a size");
    let pages: u64 = pages.parse().expect("pages");
    setrlimit(Resource::RLIMIT_AS, pages * 4096 + more, hard).expect("setrlimit");
    (soft, hard)
}

/// A loan lies in memory of its sender, which its receiver has no addresses for: the receive says
/// so, the sender has its room back, and the two go on.
#[test]
fn a_loan_that_cannot_be_mapped_ends_its_receive_alone() {
    const LEN: usize = 64 << 20;
    Cast::new("a_loan_that_cannot_be_mapped_ends_its_receive_alone").run(|rank| {
        let (endpoint, other) = met(rank);
        if rank.rank == 1 {
            let (soft, hard) = limit_addresses(LEN as u64 / 4);
            let _ = rank.link.exchange(&[]);
            let error = endpoint.recv_loaned((other, 2)).map(|_| ());
            let Err(Error::NoMemory(why)) = error else {
                panic!("{error:?}");
            };
            assert!(why.contains("no memory for a copy of it"), "{why}");
            let mut copied = vec![0; 1 << 20];
            endpoint
                .recv((other, 3), &mut copied)
                .expect("the peer lives");
            check(3, &copied);
            setrlimit(Resource::RLIMIT_AS, soft, hard).expect("setrlimit");
        } else {
            let _ = rank.link.exchange(&[]);
            let loan = endpoint.loan(LEN).expect("loan");
            loan.send(other, 2_u64).expect("send");
            endpoint
                .send(other, 3_u64, &content(3, 1 << 20))
                .expect("the peer lives");
        }
        rank.link.meet(&endpoint);
    });
}

/// A message that there is no memory for stays where it is, and is received as soon as there is
/// some.
#[test]
fn a_message_without_memory_waits() {
    const LEN: usize = 64 << 20;
    Cast::new("a_message_without_memory_waits").run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        if rank.rank == 0 {
            endpoint
                .send(peers[1], 1_u64, &content(1, LEN))
                .expect("send");
        } else {
            let from = Selector::from((peers[0], 1));
            endpoint.wait_probe(from).expect("probe");
            let before = limit_addresses(LEN as u64 / 4);
            let error = endpoint.recv_loaned(from).map(|_| ());
            assert!(matches!(error, Err(Error::NoMemory(_))), "{error:?}");
            let (soft, hard) = before;
            setrlimit(Resource::RLIMIT_AS, soft, hard).expect("setrlimit");
            let loaned = endpoint.recv_loaned(from).expect("there is memory now");
            check(1, &loaned.to_vec());
        }
        rank.link.meet(&endpoint);
    });
}

/// Descriptors that are on their way between processes of this user, until what is returned is
/// dropped.
fn descriptors_in_flight(count: usize) -> (OwnedFd, OwnedFd) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let kind = SockType::Stream;
    let pair = socketpair(AddressFamily::Unix, kind, None, flags).expect("a pair of sockets");
    let raw: Vec<RawFd> = vec![pair.0.as_raw_fd(); count];
    for some in raw.chunks(200) {
        let control = [ControlMessage::ScmRights(some)];
        let (slices, flags) = ([IoSlice::new(b"x")], MsgFlags::empty());
        sendmsg::<UnixAddr>(pair.0.as_raw_fd(), &slices, &control, flags, None).expect("sendmsg");
    }
    pair
}

/// One of the two may send no descriptors for a while (ETOOMANYREFS), and with that no greeting.
fn meet_with_a_limit(rank: &Rank, limited: u32) {
    if nix::unistd::geteuid().is_root() {
        // Root has no such limit.
        nix::unistd::setgroups(&[]).expect("setgroups");
        nix::unistd::setgid(NOBODY.into()).expect("setgid");
        nix::unistd::setuid(NOBODY.into()).expect("setuid");
    }
    let endpoint = HybridEndpoint::open().expect("open");
    let peers = rank.connect(&endpoint);
    let held = (rank.rank == limited).then(|| {
        let held = descriptors_in_flight(600);
        (held, limit_descriptors(200))
    });
    let _ = rank.link.exchange(&[]);
    let messages = [8, 5000, 300_000];
    let sends = messages.map(|len| {
        let data = content(len as u64, len);
        (rank.rank == 0).then(|| endpoint.isend(peers[1], 1_u64, data).expect("isend"))
    });
    let _ = rank.link.exchange(&[]);
    try_in_vain(&endpoint);
    let _ = rank.link.exchange(&[]);
    if let Some((held, soft)) = held {
        drop(held);
        limit_descriptors(soft);
    }
    for send in sends.into_iter().flatten() {
        send.wait().expect("the peer lives");
    }
    if rank.rank == 1 {
        for len in messages {
            let mut inbox = vec![0; len];
            endpoint.recv((peers[0], 1), &mut inbox).expect("recv");
            check(len as u64, &inbox);
        }
    }
    rank.link.meet(&endpoint);
}

#[test]
fn a_hello_that_cannot_be_sent_is_sent_later() {
    Cast::new("a_hello_that_cannot_be_sent_is_sent_later").run(|rank| meet_with_a_limit(rank, 0));
}

#[test]
fn a_welcome_that_cannot_be_sent_is_sent_later() {
    Cast::new("a_welcome_that_cannot_be_sent_is_sent_later").run(|rank| meet_with_a_limit(rank, 1));
}

/// A process that knows the secret meets an endpoint as many others.
#[test]
fn one_process_leaves_descriptors_for_others() {
    leave_descriptors("one_process_leaves_descriptors_for_others", |victim| {
        let greedy: Vec<_> = (0..GREEDY).filter_map(|_| meet(victim)).collect();
        assert!(greedy.len() > 20, "a process may have some");
        greedy
    });
}

/// The same, while each of them is given up as soon as it is met.
#[test]
fn a_process_that_breaks_its_connections_leaves_descriptors_for_others() {
    let name = "a_process_that_breaks_its_connections_leaves_descriptors_for_others";
    leave_descriptors(name, |victim| {
        let before = descriptor_numbers();
        let met = meet_many(victim, |_endpoint| {
            for number in descriptor_numbers() {
                if !before.contains(&number) {
                    // It is no socket, or one that is not connected, or this breaks it.
                    let _ = shutdown(number, Shutdown::Both);
                }
            }
        });
        assert!(met > 20, "a process may break some: {met}");
        Vec::new()
    });
}

/// The same, while each of them holds a loan of the victim's, and leaves in good order.
#[test]
fn a_process_that_keeps_loans_leaves_descriptors_for_others() {
    let name = "a_process_that_keeps_loans_leaves_descriptors_for_others";
    leave_descriptors(name, |victim| {
        let met = meet_many(victim, |endpoint| {
            let peer = endpoint.connect(victim).expect("an address");
            endpoint.send(peer, WANTED, b"a loan").expect("send");
            let loan = endpoint.recv_loaned_timeout((peer, WANTED), PATIENCE);
            core::mem::forget(loan.expect("the victim lives").expect("a loan"));
        });
        assert!(met > 20, "a process may keep some: {met}");
        assert!(met < FEW_DESCRIPTORS / 2, "{met} have left descriptors");
        Vec::new()
    });
}

/// Meets a victim with one endpoint after the other, until it refuses: how many it has met.
fn meet_many(victim: &[u8], mut met_with: impl FnMut(&HybridEndpoint)) -> u64 {
    // A victim that is slow is no refusal.
    let (mut met, mut refused) = (0, 0);
    while met < 2 * FEW_DESCRIPTORS && refused < 5 {
        match meet(victim) {
            Some(endpoint) => {
                met += 1;
                met_with(&endpoint);
            }
            None => refused += 1,
        }
    }
    met
}

/// One process does what takes descriptors of a victim, and another one meets that.
fn leave_descriptors(name: &str, be_greedy: fn(&[u8]) -> Vec<HybridEndpoint>) {
    Cast::new(name).ranks(3).run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let blobs = rank.link.exchange(&endpoint.address().to_bytes());
        let victim = blobs[0].as_deref().expect("it lives");
        let work = || {
            while let Ok(Some(wish)) = endpoint.matched_probe(Selector::any_source(WANTED)) {
                let to = wish.status().peer;
                drop(endpoint.loan(LOAN).expect("memory").isend(to, WANTED));
            }
            endpoint.sleep(Some(Duration::ZERO));
        };
        if rank.rank == 0 {
            limit_descriptors(few().max(FEW_DESCRIPTORS));
        }
        let mut greedy = Vec::new();
        if rank.rank == 1 {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("getrlimit");
            limit_descriptors(hard.min(4096));
            greedy = be_greedy(victim);
        }
        let _ = rank.link.exchange_while(&[], work);
        if rank.rank == 2 {
            let victim = endpoint.connect(victim).expect("an address");
            let mut send = endpoint
                .isend(victim, 1_u64, content(1, 5000))
                .expect("isend");
            assert!(send.wait_timeout(PATIENCE), "there is no room");
            send.wait().expect("the peer lives");
        }
        if rank.rank == 0 {
            let mut inbox = vec![0; 5000];
            let mut receive = || endpoint.recv_timeout(Selector::any(), &mut inbox, PATIENCE);
            let mut status = receive();
            // Each of those that were given up is told of once.
            while matches!(status, Err(Error::PeerFailed { .. })) {
                status = receive();
            }
            assert!(matches!(status, Ok(Some(_))), "{status:?}");
            check(1, &inbox);
        }
        rank.link.meet(&endpoint);
        drop(greedy);
    });
}

/// Whoever sends this gets a loan.
const WANTED: Tag = Tag(2);
/// More than is copied.
const LOAN: usize = 40_000;
/// What the victim may have.
const FEW_DESCRIPTORS: u64 = 200;
/// Endpoints of one process: more than have room in these.
const GREEDY: usize = 70;
/// Longer than a message takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// An endpoint that has met the one of this address; none if that takes no more.
fn meet(address: &[u8]) -> Option<HybridEndpoint> {
    let endpoint = HybridEndpoint::open().expect("open");
    let peer = endpoint.connect(address).expect("an address");
    for _ in 0..500 {
        match endpoint.attach(peer) {
            Ok(true) => return Some(endpoint),
            Ok(false) => endpoint.sleep(Some(Duration::from_millis(1))),
            Err(_) => return None,
        };
    }
    None
}
