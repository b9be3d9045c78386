//! The address of Debian's archive: the variable `LIMIC_LAB_MIRROR`, or that of this machine's
//! apt.

use limic_runner::{Failure, Job};

const VARIABLE: &str = "LIMIC_LAB_MIRROR";

/// The address of the folder that holds `dists` and `pool`, without a slash at the end.
pub(crate) fn find() -> Result<String, Failure> {
    if let Ok(named) = std::env::var(VARIABLE)
        && !named.is_empty()
    {
        return Ok(named.trim_end_matches('/').to_owned());
    }
    // What apt has fetched says whose archive it is. Before the first `apt-get update` there are
    // addresses alone.
    let known = targets(&[], "$(LABEL) $(REPO_URI)").and_then(|listed| labelled(&listed));
    known
        .or_else(|| {
            targets(&["--no-release-info"], "$(REPO_URI)").and_then(|listed| called(&listed))
        })
        .ok_or_else(|| {
            Failure::Missing(format!(
                "the apt of this machine knows no archive of Debian's; {VARIABLE}=<address of a \
                 mirror of it, the folder that holds dists and pool> names one"
            ))
        })
}

/// The remedy if a mirror fails.
pub(crate) const ADVICE: &str = "LIMIC_LAB_MIRROR names another mirror of Debian's archive";

/// The package indices that apt is configured to use.
fn targets(options: &[&str], format: &str) -> Option<String> {
    Job::new("apt-get", 1)
        .arg("indextargets")
        .args(options)
        .args(["--format", format, "Created-By: Packages"])
        .capture_quietly()
}

/// The first address of an archive that calls itself Debian.
fn labelled(listed: &str) -> Option<String> {
    let mut addresses = listed
        .lines()
        .filter_map(|line| line.strip_prefix("Debian "));
    addresses.find_map(fetchable)
}

/// The first address that ends with Debian's name.
fn called(listed: &str) -> Option<String> {
    let mut addresses = listed.lines().filter_map(fetchable);
    addresses.find(|address| address.ends_with("/debian"))
}

/// An address without a CD or another method that needs more configuration.
fn fetchable(address: &str) -> Option<String> {
    let known = ["http://", "https://", "file:/"];
    let address = address.trim().trim_end_matches('/');
    let plain = known.iter().any(|start| address.starts_with(start));
    plain.then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_is_found_among_other_archives() {
        let listed = "Debian cdrom://disc/\n\
                      Debian-Security http://one.example/debian-security/\n\
                      Other Vendor https://two.example/debian/\n\
                      Debian http://three.example/debian/\n";
        assert_eq!(
            labelled(listed).as_deref(),
            Some("http://three.example/debian")
        );
        assert_eq!(labelled("Ubuntu http://four.example/ubuntu/\n"), None);
        let plain = "http://one.example/debian-security/\nhttps://two.example/debian/\n";
        assert_eq!(called(plain).as_deref(), Some("https://two.example/debian"));
        assert_eq!(called("mirror+file:/etc/apt/mirrors/debian\n"), None);
    }
}
