//! libfabric unloads its providers when a process ends, beside threads that may still be inside of
//! this one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The code stays where it is until the process is gone.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
