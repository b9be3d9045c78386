//! The provider as it was built, for programs that a test starts, and the wait for these.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest that anything here may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A folder with nothing in it but the provider, under the name that it is installed with.
pub(crate) fn provider() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    // Beside the tests' own folder `deps`.
    let tests = std::env::current_exe().expect("a path");
    let built = tests
        .ancestors()
        .map(|folder| folder.join("liblimic_fi.so"))
        .find(|file| file.is_file())
        .expect("cargo builds the shared library with the tests");
    std::fs::copy(built, folder.path().join("liblimic-fi.so")).expect("copied");
    folder
}

/// A program with the provider in its environment, and without settings that were meant for others.
pub(crate) fn command(program: impl AsRef<Path>, provider: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("FI_") || text.starts_with("LIMIC_") {
            command.env_remove(&name);
        }
    }
    command
        .env("FI_PROVIDER_PATH", provider)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for a program, and kills it if it takes too long.
pub(crate) fn finish(mut child: Child) -> Output {
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().expect("killed");
            let output = child.wait_with_output().expect("output");
            panic!("it hangs; it said: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("output")
}
