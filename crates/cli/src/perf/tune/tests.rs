//! Where a profile is written, and what is said about it.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, a failed unwrap is the report"
)]

use clap::Parser;

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// What `--output path` asks for, before anything is measured.
fn place(path: &FilePath) -> Result<PathBuf, MeasureError> {
    let line = Line::parse_from(["tune".as_ref(), "--output".as_ref(), path.as_os_str()]);
    target(&line.args).map(Option::unwrap)
}

/// A profile that this machine loads.
fn good() -> String {
    profile::text(&[], &profile::Kept::default())
}

/// The names of what lies in a folder.
fn names(folder: &FilePath) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_no_regular_file_is_refused_before_measuring() {
    let home = tempfile::tempdir().unwrap();
    let link = home.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let nowhere = home.path().join("nowhere");
    std::os::unix::fs::symlink("not-there", &nowhere).unwrap();
    for path in [FilePath::new("/dev/null"), home.path(), &link, &nowhere] {
        let refused = place(path);
        assert!(
            matches!(refused, Err(MeasureError::Usage(_))),
            "{}: {refused:?}",
            path.display()
        );
    }
    assert_eq!(names(home.path()), ["link", "nowhere"]);
}

#[test]
fn a_file_beside_which_nothing_can_be_written_is_refused_before_measuring() {
    let home = tempfile::tempdir().unwrap();
    // The name is as long as one may be: that of the file beside it is longer.
    let path = home.path().join("x".repeat(255));
    std::fs::write(&path, "").unwrap();
    let refused = place(&path);
    assert!(
        matches!(refused, Err(MeasureError::File { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_symbolic_link_stays_one() {
    let home = tempfile::tempdir().unwrap();
    let (file, link) = (home.path().join("file"), home.path().join("link"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    let text = good();
    profile::write(&place(&link).unwrap(), &text).unwrap();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(names(home.path()), ["file", "link"]);
}

#[test]
fn only_a_profile_that_runs_load_is_said_to_be_loaded() {
    let home = tempfile::tempdir().unwrap();
    // Named after the host; only its folder differs from this user's own.
    let Some(own) = default_profile() else { return };
    let default = home.path().join("limic").join(own.file_name().unwrap());
    let other = home.path().join("other.toml");
    for path in [&default, &other] {
        profile::write(&profile::prepare(path).unwrap(), &good()).unwrap();
    }
    let said = |path: &FilePath, named: Option<&FilePath>| {
        let xdg = ("XDG_CONFIG_HOME", home.path());
        let named = named.map(|path| ("LIMIC_PROFILE", path));
        let settings = Settings::builder().with_environment(named.into_iter().chain([xdg]));
        outcome(Some(path), Some(&settings.build().unwrap()), "")
    };
    let off = Some(FilePath::new("off"));
    for (path, named, loads) in [
        (&default, None, true),
        (&other, None, false),
        (&other, Some(&*other), true),
        (&default, Some(&*other), false),
        (&default, off, false),
    ] {
        let said = said(path, named);
        let whole = path.canonicalize().unwrap();
        let advice = format!("set LIMIC_PROFILE={} to load it", whole.display());
        assert_eq!(
            said.contains("later runs on this machine load it"),
            loads,
            "{said}"
        );
        assert_eq!(said.contains(&advice), !loads, "{said}");
    }
    let nothing = outcome(None, None, "the text");
    assert!(
        nothing.starts_with("nothing written") && nothing.contains("the text"),
        "{nothing}"
    );
}

#[test]
fn a_text_that_no_run_would_load_leaves_the_old_profile() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("profile.toml");
    let old = good();
    profile::write(&path, &old).unwrap();
    let bad = old.replace("version = ", "version = 9");
    assert!(profile::write(&path, &bad).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), old);
    assert_eq!(names(home.path()), ["profile.toml"]);
}
