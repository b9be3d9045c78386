//! The client against a launcher that answers from a script.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::*;

const START: &str = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n\
                     cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=33\n\
                     cmd=my_kvsname rc=0 kvsname=kvs_1\n";

/// A client whose launcher answers with `answers`, whatever it is asked; and the launcher's
/// end.
fn scripted(answers: &str) -> (Result<Pmi1, BootstrapError>, UnixStream) {
    let (mine, mut launcher) = UnixStream::pair().unwrap();
    launcher.write_all(answers.as_bytes()).unwrap();
    let limit = Some(Duration::from_secs(1));
    (
        Pmi1::from_socket(OwnedFd::from(mine), 1, 2, limit),
        launcher,
    )
}

fn sent(client: Pmi1, mut launcher: UnixStream) -> String {
    drop(client);
    let mut text = String::new();
    launcher.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_exchange_is_the_one_that_hydra_speaks() {
    let exchange = "cmd=put_result rc=0\ncmd=barrier_out tag=0\ncmd=get_result rc=0 value=2:6869\n\
                    cmd=finalize_ack rc=0\n";
    let (client, launcher) = scripted(&format!("{START}{exchange}"));
    let mut client = client.unwrap();
    assert_eq!(client.job_id(), "kvs_1");
    let all = client.all_gather(b"me").unwrap();
    assert_eq!(all, [b"hi".to_vec(), b"me".to_vec()]);
    client.finalize().unwrap();
    client.finalize().unwrap();
    assert!(matches!(
        client.barrier(),
        Err(BootstrapError::Finalized { .. })
    ));
    assert_eq!(
        sent(client, launcher),
        "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_my_kvsname\n\
         cmd=put kvsname=kvs_1 key=limic-0-1-0 value=2:6d65\ncmd=barrier_in\n\
         cmd=get kvsname=kvs_1 key=limic-0-0-0\ncmd=finalize\n"
    );
}

#[test]
fn long_blobs_are_split_at_the_launchers_limit() {
    let digits = "61".repeat(20);
    let (first, second) = digits.split_at(29);
    let exchange = format!(
        "cmd=put_result rc=0\ncmd=put_result rc=0\ncmd=barrier_out\ncmd=get_result rc=0 value=20:{first}\n\
         cmd=get_result rc=0 value={second}\n"
    );
    let (client, launcher) = scripted(&format!("{START}{exchange}"));
    let mut client = client.unwrap();
    let all = client.all_gather(&[b'a'; 20]).unwrap();
    assert_eq!(all, [vec![b'a'; 20], vec![b'a'; 20]]);
    let sent = sent(client, launcher);
    assert!(
        sent.contains(&format!("key=limic-0-1-0 value=20:{first}\n")),
        "{sent}"
    );
    assert!(
        sent.contains(&format!("key=limic-0-1-1 value={second}\n")),
        "{sent}"
    );
}

#[test]
fn the_launchers_death_is_an_error_that_says_so() {
    let (client, launcher) = scripted(START);
    let mut client = client.unwrap();
    drop(launcher);
    let error = client.barrier().unwrap_err();
    assert!(
        matches!(error, BootstrapError::LauncherGone { .. }),
        "{error}"
    );
    let error = client.all_gather(b"x").unwrap_err();
    assert!(
        matches!(error, BootstrapError::LauncherGone { .. }),
        "{error}"
    );
    client.abort(3, "nobody listens");
}

#[test]
fn silence_ends_at_the_time_limit() {
    let (client, _launcher) = scripted("cmd=response_to_init rc=0 pmi_version=1\n");
    assert!(matches!(
        client.unwrap_err(),
        BootstrapError::Timeout {
            step: "get_maxes",
            seconds: 1,
            ..
        }
    ));
}

#[test]
fn the_launchers_error_text_is_passed_on() {
    let (client, _launcher) = scripted("cmd=response_to_init rc=-1 msg=no more ranks\n");
    let error = client.unwrap_err().to_string();
    assert!(error.contains("no more ranks"), "{error}");
    let (client, _launcher) = scripted(&format!("{START}cmd=barrier_out rc=1\n"));
    let error = client.unwrap().barrier().unwrap_err().to_string();
    assert!(error.contains("barrier_out with code 1"), "{error}");
}

#[test]
fn nonsense_is_an_error_and_nothing_else() {
    for answers in [
        "hello\n".to_owned(),
        "\0\u{1}\n".to_owned(),
        "cmd=maxes rc=0\n".to_owned(),
        "cmd=response_to_init rc=0 pmi_version=2\n".to_owned(),
        START.replace("vallen_max=33", "vallen_max=-5"),
        START.replace("kvsname=kvs_1", ""),
    ] {
        let (client, _launcher) = scripted(&answers);
        let error = client.unwrap_err();
        assert!(
            matches!(error, BootstrapError::Protocol { .. }),
            "{answers}: {error}"
        );
    }
    for value in [
        "",
        "value=",
        "value=1",
        "value=x:00",
        "value=1:0",
        "value=1:zz",
        "value=1:0000",
        "value=99999999:00",
    ] {
        let exchange = format!(
            "cmd=put_result\ncmd=barrier_out\ncmd=get_result rc=0 {value}\ncmd=get_result rc=0\n"
        );
        let (client, _launcher) = scripted(&format!("{START}{exchange}"));
        let error = client.unwrap().all_gather(b"").unwrap_err();
        assert!(
            matches!(error, BootstrapError::Protocol { .. }),
            "{value}: {error}"
        );
    }
}

#[test]
fn an_abort_is_one_field_without_blanks() {
    let (client, launcher) = scripted(START);
    let mut client = client.unwrap();
    client.abort(7, "no path:\nrank=3");
    let sent = sent(client, launcher);
    assert!(
        sent.ends_with("cmd=abort exitcode=7 message=no_path:_rank:3\n"),
        "{sent}"
    );
}

#[test]
fn too_long_a_blob_is_refused_before_anything_is_sent() {
    let (client, launcher) = scripted(START);
    let mut client = client.unwrap();
    let error = client.all_gather(&vec![0; MAX_BLOB + 1]).unwrap_err();
    assert!(
        matches!(error, BootstrapError::BlobTooLong { .. }),
        "{error}"
    );
    assert!(!sent(client, launcher).contains("put"));
}

#[test]
fn a_descriptor_that_is_no_socket_is_named() {
    for number in [-1, 0, 999_999] {
        let error = Pmi1::from_descriptor(number, 0, 1, None).unwrap_err();
        assert!(error.to_string().contains("PMI_FD"), "{error}");
    }
}
