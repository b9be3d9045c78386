//! The provider under the system's libfabric: found, and called as its manual pages say.

mod events;
mod provider;
mod strangers;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use self::provider::{LIMIT, command, finish, provider};

/// One test at a time: two spinning processes each are enough for a small machine.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // Guards nothing that a failed test could leave half done.
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn found(program: &str) -> bool {
    let there = Command::new(program)
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !there {
        println!("SKIPPED: no {program} (package libfabric-bin)");
    }
    there
}

#[test]
fn fi_info_lists_it() {
    if !found("fi_info") {
        return;
    }
    let provider = provider();
    let mut info = command("fi_info", provider.path());
    let output = finish(info.args(["-p", "limic", "-v"]).spawn().expect("started"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for line in [
        "type: FI_EP_RDM",
        "prov_name: limic",
        "mem_tag_format: 0x5555555555555555",
        "FI_TAGGED",
        "FI_ATOMIC",
    ] {
        assert!(text.contains(line), "{line} is not in: {text}");
    }
}

/// libfabric unloads its providers at its end; a thread that is inside of this one then must not
/// lose its code.
#[test]
fn it_stays_in_memory_when_it_is_unloaded() {
    let provider = provider();
    let read = Command::new("readelf")
        .arg("-d")
        .arg(provider.path().join("liblimic-fi.so"))
        .output();
    let Ok(read) = read else {
        println!("SKIPPED: no readelf (package binutils)");
        return;
    };
    let dynamic = String::from_utf8_lossy(&read.stdout);
    assert!(dynamic.contains("NODELETE"), "{read:?}");
}

#[test]
fn other_kinds_of_endpoints_are_not_offered() {
    if !found("fi_info") {
        return;
    }
    let provider = provider();
    for kind in ["FI_EP_MSG", "FI_EP_DGRAM"] {
        let mut info = command("fi_info", provider.path());
        let output = finish(
            info.args(["-p", "limic", "-t", kind])
                .spawn()
                .expect("started"),
        );
        assert!(!output.status.success(), "{output:?}");
    }
}

#[test]
fn other_nodes_are_offered_only_if_they_can_be_reached_or_nobody_is_there() {
    if !found("fi_info") {
        return;
    }
    let provider = provider();
    let asked = |ranks_here: Option<&str>| {
        let mut info = command("fi_info", provider.path());
        info.args(["-p", "limic", "-c", "FI_REMOTE_COMM"])
            .env("LIMIC_FABRIC", "off")
            .env("OMPI_COMM_WORLD_SIZE", "4")
            .env_remove("SLURM_STEP_NUM_NODES")
            .env_remove("OMPI_COMM_WORLD_LOCAL_SIZE")
            .envs(ranks_here.map(|ranks| ("OMPI_COMM_WORLD_LOCAL_SIZE", ranks)));
        finish(info.spawn().expect("started")).status.success()
    };
    assert!(!asked(None) && !asked(Some("2")));
    assert!(asked(Some("4")));
}

/// libfabric's own ping-pong, with its check of the data.
fn ping_pong(mode: &str) {
    if !found("fi_pingpong") {
        return;
    }
    let _alone = alone();
    let provider = provider();
    let port = free_port().to_string();
    let common = ["-p", "limic", "-e", "rdm", "-m", mode, "-I", "50", "-c"];
    let start = |words: &[&str]| {
        let mut program = command("fi_pingpong", provider.path());
        program.args(common).args(words).spawn().expect("started")
    };
    let mut server = start(&["-B", &port]);
    // The client gives up if nobody listens yet, so it is asked again.
    let begin = Instant::now();
    let client = loop {
        let client = finish(start(&["-P", &port, "127.0.0.1"]));
        if client.status.success() || begin.elapsed() > LIMIT {
            break client;
        }
        if server.try_wait().expect("a child").is_some() {
            break client;
        }
    };
    if !client.status.success() {
        // It may have ended already.
        let _ = server.kill();
    }
    let server = finish(server);
    assert!(client.status.success(), "{client:?}\n{server:?}");
    assert!(server.status.success(), "{server:?}");
    assert!(
        String::from_utf8_lossy(&client.stdout).contains("1m"),
        "{client:?}"
    );
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn untagged_ping_pong() {
    ping_pong("msg");
}

#[test]
fn tagged_ping_pong() {
    ping_pong("tagged");
}

const SOURCES: [&str; 18] = [
    "asked.c",
    "atomics.c",
    "main.c",
    "setup.c",
    "tagged.c",
    "threads.c",
    "messages.c",
    "moved.c",
    "flags.c",
    "memory.c",
    "objects.c",
    "names.c",
    "vectors.c",
    "waiting.c",
    "ends.c",
    "writes.c",
    "events.c",
    "orders.c",
];

/// Compiles the C program of these tests. `None`: it cannot be done here.
fn calls(folder: &Path) -> Option<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls");
    let headers = Command::new("cc")
        .args([
            "-include",
            "rdma/fabric.h",
            "-fsyntax-only",
            "-xc",
            "/dev/null",
        ])
        .output();
    if !headers.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no C compiler, or no libfabric headers (package libfabric-dev)");
        return None;
    }
    let program = folder.join("calls");
    let status = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"])
        // libfabric 2 warns of poll sets, which applications still have.
        .args(["-Wno-deprecated-declarations", "-o"])
        .arg(&program)
        .args(SOURCES.map(|name| sources.join(name)))
        .arg("-lfabric")
        .status()
        .expect("a compiler");
    assert!(status.success(), "the C program does not compile");
    Some(program)
}

/// Runs a part of it; gives what it said, and its errors. `None`: it cannot be done here.
fn part(name: &str) -> Option<(String, String)> {
    part_with(name, &[])
}

/// As [`part`], with settings.
fn part_with(name: &str, settings: &[(&str, &str)]) -> Option<(String, String)> {
    let _alone = alone();
    let provider = provider();
    let program = calls(provider.path())?;
    let output = finish(
        command(program, provider.path())
            .env("FI_LOG_LEVEL", "warn")
            .env("LIMIC_FI_STATS", "1")
            .envs(settings.iter().copied())
            .arg(name)
            .spawn()
            .expect("started"),
    );
    let right = format!("{name}: right");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(&right),
        "{output:?}"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    for wrong in ["a bug of limic", "unknown variable"] {
        assert!(!errors.contains(wrong), "{errors}");
    }
    Some((said.into_owned(), errors.into_owned()))
}

#[test]
fn tagged_messages() {
    part("tagged");
}

#[test]
fn untagged_messages_and_room_for_many() {
    part("messages");
}

#[test]
fn memory_and_atomics() {
    if let Some((_, errors)) = part("memory") {
        let refused = "on memory here (key 1042, offset 0x0, elements: 1) is refused: no memory";
        assert!(errors.contains(refused), "{errors}");
    }
}

#[test]
fn memory_with_keys_and_addresses_of_the_provider() {
    part("basic-memory");
}

#[test]
fn sleeping_on_a_queue() {
    part("waiting");
}

#[test]
fn waits_for_a_queue_and_for_a_counter_say_what_they_wait_for() {
    if let Some((_, errors)) = part_with("waiting", &[("LIMIC_PATIENCE_MS", "100")]) {
        for wanted in [
            "has waited for 100ms in fi_cq_sread for recv of tag 77 from peer ",
            "has waited for 100ms in fi_cntr_wait for recv of tag 78 from peer ",
        ] {
            assert!(errors.contains(wanted), "{errors}");
        }
    }
}

#[test]
fn counts_and_order_of_atomics() {
    part("atomics");
}

#[test]
fn order_of_atomics_whose_bytes_come_later() {
    part_with(
        "atomics",
        &[("LIMIC_EAGER_MAX", "1K"), ("LIMIC_LONG", "pipeline")],
    );
}

#[test]
fn writes_with_data() {
    part("writes");
}

#[test]
fn writes_with_data_whose_bytes_come_later() {
    part_with(
        "writes",
        &[("LIMIC_EAGER_MAX", "1K"), ("LIMIC_LONG", "pipeline")],
    );
}

#[test]
fn order_of_accesses() {
    part("orders");
}

#[test]
fn order_of_accesses_with_which_their_owner_helps() {
    part_with("orders", &[("LIMIC_PATHS", "inline,eager,pipeline")]);
}

#[test]
fn objects_are_bound_once_and_taken_out_for_good() {
    part("objects");
}

#[test]
fn objects_where_there_is_no_network() {
    part_with("objects", &[("LIMIC_FABRIC", "off")]);
}

#[test]
fn closed_peers_where_they_are_errors() {
    part_with("objects", &[("LIMIC_FI_CLOSED", "error")]);
}

#[test]
fn endpoints_by_node_and_service() {
    part("names");
}

/// What a closing endpoint has sent is not given up before a test has taken it.
const LINGERS: (&str, &str) = ("LIMIC_LINGER_MS", "60000");

#[test]
fn threads_that_ask_while_another_one_moves_messages() {
    part_with("threads", &[LINGERS]);
}

#[test]
fn peers_that_make_no_call() {
    part("moved");
}

#[test]
fn peers_that_make_no_call_and_take_long() {
    let settings = [("LIMIC_PATHS", "inline,eager,pipeline"), LINGERS];
    part_with("moved", &settings);
}

#[test]
fn control_calls_of_any_thread() {
    part_with("controls", &[LINGERS]);
}

#[test]
fn a_killed_peer() {
    part("killed");
}

#[test]
fn injected_messages_that_are_lost() {
    part("lost");
}

#[test]
fn what_is_delivered_when_its_sender_is_killed() {
    part_with("delivered", &[("LIMIC_EAGER_MAX", "64K")]);
}

#[test]
fn a_region_that_a_stopped_peer_writes() {
    part("stopped");
}

#[test]
fn a_region_that_a_stopped_peer_writes_when_its_endpoint_is_closed() {
    part("abandoned");
}

#[test]
fn operations_that_are_lost_on_their_way() {
    part("shortage");
}

#[test]
fn default_flags_of_operations() {
    part("flags");
}

#[test]
fn processes_that_end_without_closing() {
    let Some((said, errors)) = part("leaving") else {
        return;
    };
    // What endpoints of the parent have moved is not the forked child's to say.
    let forked = said.lines().find_map(|line| line.strip_prefix("forked: "));
    let forked = forked.expect("the parent names it");
    assert!(
        errors.contains("process") && !errors.contains(forked),
        "{forked} {errors}"
    );
}
