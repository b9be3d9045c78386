//! The guest itself: what later tests rely on.

use std::path::Path;
use std::process::Command;

use limic_lab_tests::in_guest;

#[test]
fn rxe_is_there() {
    if !in_guest() {
        return;
    }
    assert!(
        Path::new("/sys/class/infiniband/rxe0").exists(),
        "no Soft-RoCE device"
    );
    let links = Command::new("rdma").args(["link", "show"]).output();
    let links = links.expect("iproute2's rdma starts");
    let text = String::from_utf8_lossy(&links.stdout);
    assert!(
        text.contains("rxe0/1 state ACTIVE"),
        "rdma link show: {text}"
    );
}

/// DKMS builds the module for the series of kernels that it was built and run for here, and for no
/// other.
#[test]
fn dkms_claims_the_series_of_this_kernel() {
    if !in_guest() {
        return;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let series: Vec<&str> = release.splitn(3, '.').take(2).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernel/limic_rs/dkms.conf");
    let text = std::fs::read_to_string(file).expect("the checkout is shared with the guest");
    let claimed = text
        .lines()
        .find_map(|line| line.strip_prefix("BUILD_EXCLUSIVE_KERNEL="));
    let wanted = format!(r#""^{}\.""#, series.join(r"\."));
    assert_eq!(claimed, Some(wanted.as_str()), "Linux {release}");
}
