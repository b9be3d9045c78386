//! The conformance suite over TCP alone: every message through a socket, also between processes of
//! one machine.

use std::sync::mpsc::channel;
use std::time::Duration;

use limic::raw::Messages;
use limic::settings::FabricUse;
use limic::{Endpoint, HybridEndpoint};
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn tcp_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| s.fabric(FabricUse::TcpOnly))?)
}

/// The loopback, over IPv6.
fn tcp6_endpoint() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::TcpOnly).tcp_interface("::1")
    })?)
}

fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !has {
        limic_tests::skip("this machine has no IPv6");
    }
    has
}

conformance!(tcp, tcp_endpoint);
conformance!(tcp_threads, tcp_endpoint, threads);
conformance!(tcp6, tcp6_endpoint, only crate::has_ipv6);

/// Whoever knows that a send is over may not call again for long.
#[test]
fn sends_that_are_over_need_no_further_call() {
    const WAYS: usize = 4;
    const LIMIT: Duration = Duration::from_secs(60);
    const LAST: u64 = 2;
    let (tell_address, address) = channel();
    let (tell, told) = channel();
    let receiver = std::thread::spawn(move || -> limic::Result<()> {
        let endpoint = tcp_endpoint()?;
        tell_address
            .send(endpoint.address())
            .expect("it is waited for");
        while endpoint.recv(limic::Selector::any(), &mut [0; 8])?.tag != limic::Tag::from(LAST) {
            // Nobody waits for the last ones if the test has failed.
            let _ = tell.send(());
        }
        Ok(())
    });
    let endpoint = tcp_endpoint().unwrap();
    let peer = endpoint
        .connect(&address.recv_timeout(LIMIT).unwrap().to_bytes())
        .unwrap();
    let all_come = |sends: usize| {
        for _ in 0..sends {
            told.recv_timeout(LIMIT)
                .expect("it came without a further call");
        }
    };
    endpoint.send(peer, 1, &[7; 8]).unwrap();
    all_come(1);
    for way in 0..WAYS {
        let done = endpoint.scope(|scope| {
            let mut sends = Vec::new();
            while !endpoint.holds_messages() {
                sends.push(scope.isend(peer, 1, &[7; 8])?);
            }
            let mut last = sends.pop().expect("some");
            match way {
                0 => while !last.test() {},
                1 => assert!(last.wait_timeout(LIMIT)),
                2 => last.wait().map(drop)?,
                // The end of the scope.
                _ => return Ok(sends.len() + 1),
            }
            all_come(sends.len() + 1);
            Ok(0)
        });
        all_come(done.unwrap());
        let mut sends = Vec::new();
        while !endpoint.holds_messages() {
            sends.push(endpoint.isend(peer, 1, vec![7; 8]).unwrap());
        }
        let mut last = sends.pop().expect("some");
        match way {
            0 => while !last.test() {},
            1 => assert!(last.wait_timeout(LIMIT)),
            2 => drop(last.wait().unwrap()),
            _ => drop(last),
        }
        all_come(sends.len() + 1);
    }
    endpoint.send(peer, LAST, &[7; 8]).unwrap();
    receiver.join().unwrap().unwrap();
}
