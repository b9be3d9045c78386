//! Both ranks begin with a loan, before either has received anything: it waits for the other to
//! answer, not for its receive.

use limic::{Endpoint, HybridEndpoint, Settings};
use limic_tests::{Cast, check, content};

const LEN: usize = 1 << 20;

#[test]
fn both_begin_with_a_loan() {
    Cast::new("both_begin_with_a_loan").run(|rank| {
        let settings = Settings::builder().without_environment().build();
        let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let mut loan = endpoint.loan(LEN).expect("a loan");
        loan.copy_from_slice(&content(u64::from(rank.rank), LEN));
        loan.send(other, 7_u64).expect("send");
        let loaned = endpoint.recv_loaned((other, 7_u64)).expect("a loan");
        check(1 - u64::from(rank.rank), &loaned.to_vec());
        drop(loaned);
    });
}
