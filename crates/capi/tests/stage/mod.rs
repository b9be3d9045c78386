//! Builds and runs C programs against the libraries as `cargo xtask install` lays them out.
#![allow(
    dead_code,
    reason = "each test binary uses the part of these that it needs"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Far beyond what any program here needs; it turns a hang into a failure.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Where the libraries were installed.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) prefix: PathBuf,
    /// The `limic` command, installed.
    pub(crate) limic: PathBuf,
    programs: PathBuf,
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// C11 with AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
    /// C11 as a user compiles it.
    C,
    /// The same source as C++11.
    Cpp,
    /// C11, linked with the static library.
    Static,
}

/// A task of xtask, by the cargo that runs this test.
pub(crate) fn xtask(task: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["xtask", task]).current_dir(root());
    // The environment's DESTDIR is for installations of a user.
    cargo.env_remove("DESTDIR");
    cargo
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("the repository")
}

/// Installs once per test binary, into a folder below the target directory.
pub(crate) fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
        std::fs::create_dir_all(folder.join("programs")).expect("a folder in the target directory");
        // Test binaries of several packages may come here at once.
        let lock = File::create(folder.join("lock")).expect("a lock file");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("flock");
        let prefix = folder.join("prefix");
        succeed(xtask("install").arg("--debug").arg("--prefix").arg(&prefix));
        Stage {
            limic: prefix.join("bin/limic"),
            prefix,
            programs: folder.join("programs"),
        }
    })
}

/// Runs a command that has to work.
pub(crate) fn succeed(command: &mut Command) -> String {
    let shown = format!("{command:?}");
    let output = finish(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{shown}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Runs a command to its end, bounded; its whole process group is killed if it does not end.
pub(crate) fn finish(command: &mut Command) -> Output {
    use std::os::unix::process::CommandExt;
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    let limit = if command.get_program().to_string_lossy().contains("cargo") {
        WATCHDOG * 8
    } else {
        WATCHDOG
    };
    let child = command
        .spawn()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let pid = Pid::from_child(&child);
    let fd = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
    let watchdog = std::thread::spawn(move || {
        let limit = Timespec::try_from(limit).expect("a short time");
        let ended = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
        if ended != Ok(1) {
            // It may have ended just now.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        ended == Ok(1)
    });
    let output = child.wait_with_output().expect("the output of the program");
    assert!(
        watchdog.join().expect("the watchdog does not panic"),
        "{command:?} did not end in {limit:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Why a language cannot be compiled here, if it cannot.
pub(crate) fn missing(language: Language) -> Option<String> {
    let compiler = language.compiler();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let source = folder.path().join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let program = folder.path().join("empty");
    let mut command = Command::new(compiler);
    command
        .args(language.flags())
        .arg(&source)
        .arg("-o")
        .arg(&program);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let works = command.status().is_ok_and(|status| status.success())
        && Command::new(&program)
            .status()
            .is_ok_and(|status| status.success());
    let what = match language {
        Language::Sanitized => "with -fsanitize=address,undefined",
        Language::Cpp => "as C++11",
        Language::C | Language::Static => "as C11",
    };
    (!works).then(|| format!("{compiler} builds no programs {what} here"))
}

impl Language {
    fn compiler(self) -> &'static str {
        match self {
            Self::Cpp => "c++",
            _ => "cc",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Sanitized => &[
                "-std=c11",
                "-g",
                "-O1",
                "-fno-omit-frame-pointer",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
            ],
            Self::C | Self::Static => &["-std=c11", "-O2"],
            Self::Cpp => &["-x", "c++", "-std=c++11", "-O1"],
        }
    }
}

impl Stage {
    /// What pkg-config says about a library of the stage.
    pub(crate) fn pkg_config(&self, words: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig"));
        let flags = succeed(command.args(words));
        flags.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles a program. Every warning is an error.
    pub(crate) fn compile(&self, source: &Path, package: &str, language: Language) -> PathBuf {
        self.compile_with(source, package, language, &[])
    }

    /// Compiles a program, with more arguments.
    pub(crate) fn compile_with(
        &self,
        source: &Path,
        package: &str,
        language: Language,
        extra: &[&str],
    ) -> PathBuf {
        let name = source.file_stem().expect("a source has a name");
        // One that is compiled otherwise is another program.
        let other = if extra.is_empty() { "" } else { "-other" };
        let program = format!("{package}-{}-{language:?}{other}", name.to_string_lossy());
        let program = self.programs.join(program);
        let mut command = Command::new(language.compiler());
        command.args(["-Wall", "-Wextra", "-Werror", "-pthread", "-D_GNU_SOURCE"]);
        command.args(language.flags()).args(extra).arg(source);
        if language == Language::Cpp {
            // What follows are libraries and no sources.
            command.args(["-x", "none"]);
        }
        if language == Language::Static {
            command.args(self.pkg_config(&["--cflags", package]));
            command.arg(self.prefix.join(format!("lib/lib{package}.a")));
            let all = self.pkg_config(&["--libs", "--static", package]);
            let own = format!("-l{package}");
            command.args(all.into_iter().filter(|flag| *flag != own));
        } else {
            command.args(self.pkg_config(&["--cflags", "--libs", package]));
        }
        succeed(command.arg("-o").arg(&program));
        program
    }

    /// For a program that finds the libraries where they were installed.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        command.env("UBSAN_OPTIONS", "print_stacktrace=1");
    }

    /// Runs a program under `limic run`.
    pub(crate) fn run(&self, ranks: u32, program: &Path) -> String {
        let mut command = Command::new(&self.limic);
        command.args(["run", "-n", &ranks.to_string()]).arg(program);
        self.prepare(&mut command);
        succeed(&mut command)
    }
}
