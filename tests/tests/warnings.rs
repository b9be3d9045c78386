//! What a misspelt variable says, and to whom. Each case is a process of its own: this program,
//! once more.

use std::process::Command;

use limic::Settings;

/// Says how a process that this test starts looks at its settings.
const ROLE: &str = "LIMIC_TEST_ROLE";

/// Standard error of a process that opens its settings twice, with these variables.
fn said(role: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["a_process_reads_its_settings", "--exact", "--nocapture"])
        .env_remove("LIMIC_LOG")
        .env("LIMIC_PROFILE", "off")
        .env(ROLE, role)
        .envs(variables.iter().copied())
        .output()
        .expect("this program starts again");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_process_reads_its_settings() {
    match std::env::var(ROLE).as_deref() {
        Ok("alone") => {}
        Ok("subscriber") => tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init(),
        Ok("other subscriber") => tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter("mine=info")
            .init(),
        _ => return,
    }
    for _ in 0..2 {
        Settings::from_environment().expect("only a warning");
    }
}

const TYPO: (&str, &str) = ("LIMIC_EAGR_MAX", "1K");
const LINE: &str = "unknown variable LIMIC_EAGR_MAX ignored; did you mean LIMIC_EAGER_MAX?";

#[test]
fn a_misspelt_variable_is_said_once_on_standard_error() {
    assert_eq!(
        said("alone", &[TYPO]),
        format!("limic: warning: {LINE} (LIMIC_LOG=off ends such lines)\n")
    );
}

#[test]
fn a_profile_that_is_not_there_is_said() {
    let said = said("alone", &[("LIMIC_PROFILE", "/nonexistent")]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("/nonexistent (from LIMIC_PROFILE) cannot be read"),
        "{said}"
    );
}

#[test]
fn a_subscriber_that_takes_warnings_gets_the_line_alone() {
    let said = said("subscriber", &[TYPO]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&format!("WARN limic: {LINE}")), "{said}");
}

#[test]
fn a_subscriber_that_takes_none_hides_nothing() {
    let said = said("other subscriber", &[TYPO]);
    assert!(said.starts_with("limic: warning: "), "{said}");
}

#[test]
fn warnings_can_be_switched_off() {
    for level in ["off", "error"] {
        assert_eq!(said("alone", &[TYPO, ("LIMIC_LOG", level)]), "");
    }
}

#[test]
fn variables_of_others_are_left_alone() {
    let variables = [
        ("LIMIC_ROOT", "/opt/limic"),
        ("LIMICX", "1"),
        ("LIMIC_LOG", "debug"),
    ];
    assert_eq!(said("alone", &variables), "");
}
