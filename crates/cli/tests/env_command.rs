//! `limic env`: what a shell and a command get from it.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::{Builder, TempDir};

mod launcher;
use launcher::{err, finish, out};

/// `limic` installed below a prefix whose name a shell has to be told with care.
fn installed() -> TempDir {
    installed_below("it's a \"$HOME\"")
}

fn installed_below(name: &str) -> TempDir {
    let mut prefix = Builder::new();
    prefix.prefix(name);
    let prefix = prefix.tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for folder in ["bin", "lib/libfabric"] {
        fs::create_dir_all(prefix.path().join(folder)).unwrap();
    }
    fs::hard_link(env!("CARGO_BIN_EXE_limic"), prefix.path().join("bin/limic")).unwrap();
    for library in ["lib/libfabric/liblimic-fi.so", "lib/liblimic-heap.so"] {
        fs::write(prefix.path().join(library), "").unwrap();
    }
    prefix
}

/// Runs a script whose first argument is the command.
fn shell(script: &str, limic: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(limic);
    command
        .env("FI_PROVIDER_PATH", "/others")
        .env_remove("LD_PRELOAD");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command)
}

#[test]
fn a_shell_and_a_command_get_the_same() {
    let prefix = installed();
    let limic = prefix.path().join("bin/limic");
    let evaluated = shell(
        r#"eval "$("$1" env --mpi mpich)"; printenv FI_PROVIDER_PATH FI_PROVIDER"#,
        &limic,
    );
    let folder = prefix.path().join("lib/libfabric");
    let expected = format!("{}:/others\nlimic\n", folder.display());
    assert_eq!(out(&evaluated), expected, "{}", err(&evaluated));
    let handed = shell(
        r#""$1" env --mpi mpich -- printenv FI_PROVIDER_PATH FI_PROVIDER"#,
        &limic,
    );
    assert_eq!(out(&handed), expected, "{}", err(&handed));
}

#[test]
fn each_mpi_has_its_variables() {
    let prefix = installed();
    let limic = prefix.path().join("bin/limic");
    for (mpi, line) in [
        ("mpich", "export MPIR_CVAR_NOLOCAL='1'"),
        ("impi", "export I_MPI_FABRICS='ofi'"),
        ("openmpi", "export OMPI_MCA_mtl='ofi'"),
    ] {
        let plain = shell(&format!(r#""$1" env --mpi {mpi}"#), &limic);
        assert!(
            out(&plain).lines().any(|said| said == line),
            "{}",
            out(&plain)
        );
        assert!(!out(&plain).contains("LD_PRELOAD"), "{}", out(&plain));
    }
}

#[test]
fn open_mpi_gets_limic_where_the_environment_leaves_it_out() {
    let prefix = installed();
    let limic = prefix.path().join("bin/limic");
    let said = |filter: &str| {
        let script = format!(r#"FI_PROVIDER='{filter}' "$1" env --mpi openmpi"#);
        out(&shell(&script, &limic))
    };
    for filter in ["tcp", "tcp,shm", "^shm,limic"] {
        let lines = said(filter);
        assert!(lines.contains("export FI_PROVIDER='limic'\n"), "{lines}");
    }
    for filter in ["", "limic", "tcp,limic", "^tcp"] {
        let lines = said(filter);
        assert!(!lines.contains("FI_PROVIDER="), "{filter}: {lines}");
    }
}

#[test]
fn the_heap_is_preloaded_once_and_only_where_it_can_be() {
    let twice = r#"for i in 1 2; do LD_PRELOAD=$(eval "$("$1" env --mpi mpich --heap)"; echo "$LD_PRELOAD"); done; echo "$LD_PRELOAD""#;
    let refused = shell(twice, &installed_below("a space").path().join("bin/limic"));
    assert!(
        err(&refused).contains("LD_PRELOAD cannot"),
        "{}",
        err(&refused)
    );
    let prefix = installed_below("plain");
    let preloaded = shell(twice, &prefix.path().join("bin/limic"));
    let library = prefix.path().join("lib/liblimic-heap.so");
    let expected = format!("{}\n", library.display());
    assert_eq!(out(&preloaded), expected, "{}", err(&preloaded));
}

#[test]
fn without_a_provider_nothing_is_printed_and_the_reason_is_said() {
    let limic = Path::new(env!("CARGO_BIN_EXE_limic"));
    let output = shell(r#""$1" env --mpi openmpi"#, limic);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out(&output), "");
    assert!(err(&output).contains("--provider"), "{}", err(&output));
}
