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
