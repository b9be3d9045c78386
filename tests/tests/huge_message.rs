//! A message of more than 4 GiB: lengths do not fit 32 bits.

use limic::settings::Path;
use limic::{Endpoint, HybridEndpoint, Settings};
use limic_tests::process::available_memory;
use limic_tests::{Cast, skip};
use std::time::Duration;

const LEN: usize = (4 << 30) + 4099;
/// Marks are this far apart, so that only few pages of the sender are real.
const STRIDE: usize = (16 << 20) + 4093;
const NEEDED: u64 = 9 << 30;

/// Checked at marks, at both ends, and around 4 GiB.
#[test]
fn more_than_four_gibibytes() {
    if available_memory() < NEEDED && std::env::var_os("LIMIC_TEST_RANK").is_none() {
        return skip("it takes 9 GiB of free memory");
    }
    let cast = Cast::new("more_than_four_gibibytes").alone();
    let cast = cast.limit(Duration::from_secs(240));
    cast.run(|rank| {
        // Where single copy is refused the pipeline carries it, more slowly in a debug build.
        let settings = Settings::builder()
            .without_environment()
            .long_path(Path::Cma);
        let settings = settings.build().expect("settings");
        let endpoint = HybridEndpoint::with(settings).expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let places = || {
            (0..LEN)
                .step_by(STRIDE)
                .chain([(4 << 30) - 1, 4 << 30, LEN - 1])
        };
        let mark = |at: usize| (at % 251) as u8 + 1;
        let mut buffer = vec![0_u8; LEN];
        if rank.rank == 0 {
            places().for_each(|at| buffer[at] = mark(at));
            endpoint.send(other, 1_u64, &buffer).expect("send");
        } else {
            let status = endpoint.recv((other, 1), &mut buffer).expect("recv");
            assert_eq!(status.len, LEN as u64);
            for at in places() {
                assert_eq!(buffer[at], mark(at), "byte {at}");
                let beside = (at + 7) % LEN;
                assert!(
                    places().any(|place| place == beside) || buffer[beside] == 0,
                    "byte {beside}"
                );
            }
        }
    });
}
