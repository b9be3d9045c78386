//! The server's answers, and limic's own client against it over real sockets.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use limic::bootstrap::{Bootstrap, BootstrapError, Pmi1};
use proptest::prelude::*;

use super::super::connection::{Connection, Received};
use super::*;

fn server(ranks: u32) -> PmiServer {
    PmiServer::new("limic_1_2".into(), &[ranks])
}

/// The line that the one answer of a request is sent as.
fn ask(server: &mut PmiServer, line: &str) -> String {
    let effects = server.handle(0, line.as_bytes());
    let Some(Effect::Answer(0, answer)) = effects.first() else {
        panic!("{line}: {effects:?}");
    };
    String::from_utf8(answer.encode())
        .unwrap()
        .trim_end()
        .to_owned()
}

#[test]
fn the_place_of_the_ranks_of_many_nodes_fits_into_a_value() {
    let mut server = PmiServer::new("limic_1_2".into(), &[16; 1000]);
    let request = "cmd=get kvsname=limic_1_2 key=PMI_process_mapping";
    let answer = "cmd=get_result rc=0 value=(vector,(0,1000,16))";
    assert_eq!(ask(&mut server, request), answer);
    let mut server = PmiServer::new("limic_1_2".into(), &[3, 3, 2]);
    let answer = "cmd=get_result rc=0 value=(vector,(0,2,3),(2,1,2))";
    assert_eq!(ask(&mut server, request), answer);
}

#[test]
fn answers_are_those_of_hydra() {
    let mut server = server(3);
    for (request, answer) in [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
        ),
        (
            "cmd=get_maxes",
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=4096",
        ),
        ("cmd=get_appnum", "cmd=appnum rc=0 appnum=0"),
        (
            "cmd=get_my_kvsname",
            "cmd=my_kvsname rc=0 kvsname=limic_1_2",
        ),
        ("cmd=get_universe_size", "cmd=universe_size rc=0 size=3"),
        (
            "cmd=get kvsname=limic_1_2 key=PMI_process_mapping",
            "cmd=get_result rc=0 value=(vector,(0,1,3))",
        ),
        (
            "cmd=put kvsname=limic_1_2 key=a value=1=2",
            "cmd=put_result rc=0",
        ),
        (
            "cmd=get kvsname=limic_1_2 key=a",
            "cmd=get_result rc=0 value=1=2",
        ),
        (
            "cmd=put kvsname=limic_1_2 key=a value=3",
            "cmd=put_result rc=0",
        ),
        (
            "cmd=get kvsname=limic_1_2 key=a",
            "cmd=get_result rc=0 value=3",
        ),
        ("cmd=get key=b", "cmd=get_result rc=-1 msg=key_b_not_found"),
        ("cmd=finalize", "cmd=finalize_ack rc=0"),
    ] {
        assert_eq!(ask(&mut server, request), answer);
    }
}

#[test]
fn a_barrier_opens_when_all_are_in() {
    let mut server = server(2);
    for _ in 0..2 {
        assert_eq!(server.handle(1, b"cmd=barrier_in"), []);
        let out = Message::new("barrier_out").with("rc", "0");
        let both = [Effect::Answer(0, out.clone()), Effect::Answer(1, out)];
        assert_eq!(server.handle(0, b"cmd=barrier_in"), both);
    }
}

#[test]
fn a_barrier_fails_for_all_once_a_rank_left() {
    let mut server = server(3);
    assert_eq!(server.handle(0, b"cmd=barrier_in"), []);
    let effects = server.leave(2);
    let [Effect::Answer(0, answer)] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert!(answer.text("msg").unwrap().contains("rank_2_left"));
    assert!(matches!(
        server.handle(1, b"cmd=barrier_in")[..],
        [Effect::Answer(1, _)]
    ));
    assert_eq!(server.leave(1), []);
}

#[test]
fn an_abort_carries_code_and_text() {
    let effects = server(1).handle(0, b"cmd=abort exitcode=7 message=no_path");
    let text = "no path".into();
    assert_eq!(effects, [Effect::Abort { code: 7, text }]);
    let effects = server(1).handle(0, b"cmd=abort exitcode=x");
    assert!(matches!(effects[..], [Effect::Abort { code: 1, .. }]));
}

#[test]
fn whatever_a_rank_sends_it_gets_an_answer() {
    let mut server = server(1);
    for line in [
        "hello",
        "cmd=",
        "cmd=barrier_in2",
        "cmd=put key=a",
        "cmd=put value=a",
        "cmd=get",
        "cmd=init pmi_version=2",
        "cmd=lookup_name service=x",
    ] {
        assert!(ask(&mut server, line).contains("rc=-1"), "{line}");
    }
    let long = format!("cmd=put key=a value={}", "x".repeat(VALUE_MAX));
    assert!(ask(&mut server, &long).contains("too_long"));
    for line in ["mcmd=spawn", "nprocs=1", "execname=x"] {
        assert_eq!(server.handle(0, line.as_bytes()), []);
    }
    assert!(ask(&mut server, "endcmd").contains("cmd=spawn_result rc=-1"));
}

#[test]
fn the_user_is_warned_once_of_each_rank() {
    let mut server = server(2);
    let mut warnings = |rank, line: &[u8]| {
        let effects = server.handle(rank, line);
        let warnings = effects.iter().filter(|e| matches!(e, Effect::Warn(_)));
        warnings.count()
    };
    assert_eq!(warnings(0, b"cmd=get_appnum"), 0);
    for (rank, expected) in [(0, 1), (0, 0), (1, 1), (1, 0)] {
        assert_eq!(warnings(rank, b"nonsense"), expected, "rank {rank}");
        assert_eq!(warnings(rank, b"cmd=nonsense"), 0, "rank {rank}");
    }
}

/// Lines of the protocol, whole and broken, and none of it.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let command = prop::sample::select(vec![
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=get_maxes",
        "cmd=put kvsname=x key=a value=1",
        "cmd=get kvsname=x key=a",
        "cmd=barrier_in",
        "cmd=barrier_in",
        "cmd=finalize",
        "cmd=abort exitcode=1",
        "mcmd=spawn",
        "endcmd",
    ]);
    let whole = command.prop_map(|line| line.as_bytes().to_vec());
    let cut = (whole.clone(), any::<prop::sample::Index>());
    let cut = cut.prop_map(|(line, at)| line[..at.index(line.len())].to_vec());
    prop_oneof![4 => whole, 1 => cut, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    /// No rank hears what it has not asked, and none that waits in a barrier is forgotten when
    /// somebody leaves.
    #[test]
    fn each_answer_is_for_a_question(
        said in prop::collection::vec((0_u32..3, lines()), 0..60),
        leaver in 0_u32..3,
    ) {
        let mut server = server(3);
        let mut unanswered = [0_usize; 3];
        let hear = |unanswered: &mut [usize; 3], effects: Vec<Effect>| {
            for effect in effects {
                if let Effect::Answer(to, _) = effect {
                    let left = unanswered[to as usize].checked_sub(1);
                    unanswered[to as usize] = left.expect("an answer without a question");
                }
            }
        };
        for (rank, line) in said {
            unanswered[rank as usize] += 1;
            let effects = server.handle(rank, &line);
            hear(&mut unanswered, effects);
        }
        let waiting = |server: &PmiServer, rank: usize| server.stages[rank] == Stage::InBarrier;
        hear(&mut unanswered, server.leave(leaver));
        for (rank, questions) in unanswered.into_iter().enumerate() {
            prop_assert!(!waiting(&server, rank), "rank {rank}, {questions} without an answer");
        }
    }
}

#[test]
fn the_number_of_entries_is_bounded_however_short_they_are() {
    let mut server = server(1);
    let entries = (0..ENTRIES_MAX as u64).map(|key| (key.to_le_bytes().to_vec(), Vec::new()));
    server.values = entries.collect();
    assert!(ask(&mut server, "cmd=put key=a value=").contains("space_is_full"));
    server.values.remove(&0_u64.to_le_bytes()[..]);
    assert_eq!(
        ask(&mut server, "cmd=put key=a value="),
        "cmd=put_result rc=0"
    );
    assert_eq!(
        ask(&mut server, "cmd=put key=a value=b"),
        "cmd=put_result rc=0"
    );
    assert!(ask(&mut server, "cmd=put key=b value=").contains("space_is_full"));
}

/// Serves until all ranks closed their ends.
fn serve(mut server: PmiServer, sockets: Vec<UnixStream>) {
    let mut connections: Vec<_> = sockets
        .into_iter()
        .map(|s| Some(Connection::new(s.into())))
        .collect();
    while connections.iter().any(Option::is_some) {
        let mut ready = Vec::new();
        {
            let open = connections.iter().flatten();
            let mut fds: Vec<_> = open
                .map(|c| rustix::event::PollFd::new(c, c.interest()))
                .collect();
            rustix::event::poll(&mut fds, None).unwrap();
        }
        for (rank, slot) in (0..).zip(&mut connections) {
            let Some(connection) = slot else { continue };
            connection.flush();
            if matches!(connection.read(), Received::End) {
                *slot = None;
                ready.extend(server.leave(rank));
                continue;
            }
            while let Some(line) = connection.next_line().unwrap() {
                ready.extend(server.handle(rank, &line));
            }
        }
        for effect in ready {
            if let Effect::Answer(rank, message) = effect
                && let Some(connection) = &mut connections[rank as usize]
            {
                connection.answer(&message.encode());
            }
        }
    }
}

fn with_clients(ranks: u32, client: impl Fn(Pmi1) + Sync) {
    let (mine, theirs): (Vec<_>, Vec<_>) = (0..ranks).map(|_| UnixStream::pair().unwrap()).unzip();
    std::thread::scope(|scope| {
        scope.spawn(|| serve(server(ranks), mine));
        for (rank, socket) in (0..).zip(theirs) {
            let client = &client;
            scope.spawn(move || {
                let limit = Some(Duration::from_secs(60));
                client(Pmi1::from_socket(socket.into(), rank, ranks, limit).unwrap());
            });
        }
    });
}

#[test]
fn limics_client_gathers_through_it() {
    let blob = |rank: u32, round: u32| vec![rank as u8; (rank * 3000 + round) as usize];
    with_clients(4, |mut client| {
        for round in 0..3 {
            let all = client.all_gather(&blob(client.rank(), round)).unwrap();
            let expected: Vec<_> = (0..4).map(|rank| blob(rank, round)).collect();
            assert_eq!(all, expected);
            client.barrier().unwrap();
        }
        client.finalize().unwrap();
    });
}

#[test]
fn limics_client_hears_that_a_rank_left() {
    with_clients(3, |mut client| {
        if client.rank() == 1 {
            return;
        }
        let error = client.all_gather(b"x").unwrap_err();
        assert!(matches!(error, BootstrapError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("rank_1_left"), "{error}");
    });
}
