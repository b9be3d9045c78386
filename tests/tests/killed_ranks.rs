//! A rank that is killed: the others learn it at once, by name, and nothing of it is left.

use limic::{Address, Endpoint, Error, HybridEndpoint, Peer, PeerFailure, Selector};
use limic_tests::process::{
    abstract_socket_exists, die, idle_child, monotonic_ns, pass, socket_name,
};
use limic_tests::{Cast, Random, Rank, Report, check, content};
use std::time::Duration;

const VICTIM: u32 = 2;

/// Kills the process from another thread after some microseconds, wherever it is then.
fn die_in(rank: &Rank, micros: u64) {
    let note = rank.directory.join("killed-at");
    std::thread::spawn(move || {
        pass(Duration::from_micros(micros));
        std::fs::write(note, monotonic_ns().to_string()).expect("the shared directory");
        die();
    });
}

/// Prints how long it took to learn of the death. The watchdog is the only limit.
fn print_delay(rank: &Rank) {
    let now = monotonic_ns();
    let text = std::fs::read_to_string(rank.directory.join("killed-at"));
    let killed: Option<u64> = text.ok().and_then(|text| text.parse().ok());
    if let Some(killed) = killed {
        let micros = now.saturating_sub(killed) / 1000;
        println!("rank {} learned of the death after {micros} us", rank.rank);
    }
}

fn names_the_victim(error: &Error, victim: Peer) {
    match error {
        Error::PeerFailed {
            peer,
            // Unreachable: it died before the two had met.
            why: PeerFailure::Died | PeerFailure::Unreachable,
        } => assert_eq!(*peer, victim, "{error}"),
        other => panic!("not a death: {other}"),
    }
}

/// Rounds of everybody with everybody, until all survivors have seen the death. The survivors' own
/// messages go on undisturbed.
fn stream(rank: &Rank) {
    let endpoint = HybridEndpoint::open().expect("open");
    let peers = rank.connect(&endpoint);
    let mut random = Random::new(rank.seed ^ u64::from(rank.rank));
    let others: Vec<usize> = (0..4)
        .filter(|other| *other != rank.rank as usize)
        .collect();
    let victim = peers[VICTIM as usize];
    if rank.rank == VICTIM {
        die_in(rank, 2000 + random.below(150_000));
    }
    let mut noticed = false;
    let mut round = 0_u64;
    loop {
        let mut receives = Vec::new();
        let mut sends = Vec::new();
        // The same to everybody, so that all survivors stop after the same round.
        let said = noticed;
        for other in &others {
            if noticed && *other == VICTIM as usize {
                continue;
            }
            let len = 1 + random.length(19);
            let number = round * 16 + u64::from(rank.rank) * 4 + *other as u64;
            let mut message = vec![u8::from(said)];
            message.extend(content(number, len));
            match endpoint.irecv((peers[*other], round), vec![0; (1 << 19) + 10]) {
                Ok(receive) => receives.push((*other, receive)),
                Err(error) => {
                    names_the_victim(&error, victim);
                    noticed = true;
                    continue;
                }
            }
            match endpoint.isend(peers[*other], round, message) {
                Ok(send) => sends.push(send),
                Err(error) => {
                    names_the_victim(&error, victim);
                    noticed = true;
                }
            }
        }
        let mut all_noticed = said;
        for (other, receive) in receives {
            match receive.wait() {
                Ok((status, buffer)) => {
                    let number = round * 16 + other as u64 * 4 + u64::from(rank.rank);
                    check(number, &buffer[1..status.len as usize]);
                    if other != VICTIM as usize {
                        all_noticed &= buffer[0] == 1;
                    }
                }
                Err(error) => {
                    names_the_victim(&error, victim);
                    if !noticed {
                        print_delay(rank);
                    }
                    noticed = true;
                }
            }
        }
        for send in sends {
            if let Err(error) = send.wait() {
                names_the_victim(&error, victim);
                noticed = true;
            }
        }
        round += 1;
        if said && all_noticed {
            break;
        }
    }
    println!("{round} rounds");
    let after = endpoint.send(victim, 1_u64, b"anybody there?");
    names_the_victim(&after.expect_err("it is dead"), victim);
    rank.link.meet(&endpoint);
}

fn nothing_is_left(report: &Report) {
    for (rank, blob) in report.exchanges[0].iter().enumerate() {
        let address = Address::from_bytes(blob.as_ref().expect("an address")).expect("an address");
        let name = socket_name(&address);
        assert!(
            !abstract_socket_exists(&name),
            "rank {rank} left its socket {name}"
        );
    }
    for ended in &report.ended {
        let path = format!("/proc/{}/comm", ended.pid);
        assert!(
            !std::path::Path::new(&path).exists(),
            "process {} is left",
            ended.pid
        );
        for line in ended
            .output
            .lines()
            .filter(|l| l.contains("learned of") || l.contains("rounds"))
        {
            println!("{line}");
        }
    }
    let shm = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    for file in shm {
        let name = file.file_name().to_string_lossy().into_owned();
        assert!(!name.contains("limic"), "/dev/shm/{name} is left");
    }
}

macro_rules! killed_in_mid_stream {
    ($($name:ident)+) => {
        $(
            /// Every run has another seed, and so another moment.
            #[test]
            fn $name() {
                let cast = Cast::new(stringify!($name)).ranks(4).dies(VICTIM).alone();
                if let Some(report) = cast.run(stream) {
                    println!("seed {}", report.seed);
                    nothing_is_left(&report);
                }
            }
        )+
    };
}

killed_in_mid_stream! {
    mid_stream_1 mid_stream_2 mid_stream_3 mid_stream_4 mid_stream_5 mid_stream_6 mid_stream_7 mid_stream_8
}

/// A rank that waits for anybody learns of it as well, also asleep.
#[test]
fn a_wildcard_receive_reports_the_death() {
    let cast = Cast::new("a_wildcard_receive_reports_the_death")
        .dies(1)
        .alone();
    let report = cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        endpoint.send(other, 1_u64, &[1]).expect("send");
        endpoint.recv((other, 1), &mut [0]).expect("recv");
        if rank.rank == 1 {
            pass(Duration::from_millis(200));
            die();
        }
        let error = endpoint
            .recv(Selector::any(), &mut [0; 8])
            .expect_err("nobody sends");
        names_the_victim(&error, other);
    });
    if let Some(report) = report {
        nothing_is_left(&report);
    }
}

/// A long message whose sender dies before, or whose receiver dies meanwhile.
#[test]
fn in_the_middle_of_a_long_message() {
    let cast = Cast::new("in_the_middle_of_a_long_message").dies(1).alone();
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        if rank.rank == 1 {
            // Offers a message, takes one half-way, and dies in between.
            let offer = endpoint
                .isend(other, 1_u64, content(1, 8 << 20))
                .expect("isend");
            let receive = endpoint.irecv((other, 2), vec![0; 8 << 20]).expect("irecv");
            endpoint.recv((other, 3), &mut []).expect("recv");
            die_in(rank, rank.seed % 3000);
            let _ = (receive.wait(), offer.wait());
            loop {
                endpoint.progress();
            }
        }
        let send = endpoint
            .isend(other, 2_u64, content(2, 8 << 20))
            .expect("isend");
        let claim = endpoint.wait_matched_probe((other, 1)).expect("claim");
        endpoint.send(other, 3_u64, &[]).expect("send");
        if let Err(error) = send.wait() {
            names_the_victim(&error, other);
        }
        match claim.recv_vec() {
            Ok(data) => check(1, &data),
            Err(error) => names_the_victim(&error, other),
        }
        let gone = endpoint.recv((other, 9), &mut []).expect_err("it is dead");
        names_the_victim(&gone, other);
    });
}

/// A child that the dead rank had forked still holds its sockets open. That must not hide the
/// death.
#[test]
fn a_forked_child_does_not_hide_the_death() {
    let cast = Cast::new("a_forked_child_does_not_hide_the_death")
        .dies(1)
        .alone();
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        endpoint.send(other, 1_u64, &[1]).expect("send");
        endpoint.recv((other, 1), &mut [0]).expect("recv");
        if rank.rank == 1 {
            let child = idle_child();
            std::fs::write(rank.directory.join("child"), child.to_string()).expect("write");
            let _ = rank.link.exchange(b"forked");
            die();
        }
        let _ = rank.link.exchange(b"forked");
        let error = endpoint.recv((other, 2), &mut [0; 8]);
        let child = std::fs::read_to_string(rank.directory.join("child")).expect("written");
        let child = nix::unistd::Pid::from_raw(child.parse().expect("a pid"));
        nix::sys::signal::kill(child, nix::sys::signal::SIGKILL).expect("it still sleeps");
        names_the_victim(&error.expect_err("nobody sends"), other);
    });
}

/// Only a contact that this side makes finds out.
#[test]
fn a_receive_from_a_rank_that_died_before_they_met_fails() {
    let cast = Cast::new("a_receive_from_a_rank_that_died_before_they_met_fails").dies(1);
    cast.run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        if rank.rank == 1 {
            die();
        }
        let mut buffer = [0; 8];
        let blocking = endpoint.recv((peers[1], 1), &mut buffer);
        let error = blocking.expect_err("nobody is left to send");
        names_the_victim(&error, peers[1]);
    });
}

/// The same for a receive that waits while its endpoint only polls.
#[test]
fn a_posted_receive_from_such_a_rank_fails_while_others_are_polled() {
    let cast = Cast::new("a_posted_receive_from_such_a_rank_fails_while_others_are_polled");
    cast.dies(1).run(|rank| {
        let endpoint = HybridEndpoint::open().expect("open");
        let peers = rank.connect(&endpoint);
        if rank.rank == 1 {
            die();
        }
        let mut receive = endpoint.irecv((peers[1], 1), vec![0; 8]).expect("posted");
        while !receive.test() {
            endpoint.progress();
        }
        let error = receive.wait().expect_err("nobody is left to send");
        names_the_victim(&error, peers[1]);
    });
}
