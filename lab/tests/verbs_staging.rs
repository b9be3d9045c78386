//! Messages that rest in an area on their way, over Soft-RoCE, whose areas lie in host memory.

use std::sync::Arc;
use std::time::Duration;

use limic_ibverbs::objects::{
    AdapterMemory, Context, HostMemory, PortSettings, ProtectionDomain, devices,
};
use limic_lab_tests::in_guest;
use limic_papers::staging::{
    AreaCard, Costs, Forwarder, Link, LinkError, Next, Packed, Pieces, Way, area,
};

const PATIENCE: Duration = Duration::from_secs(40);

fn domain() -> Arc<ProtectionDomain> {
    let device = devices().expect("a device").remove(0);
    let context = Context::open(&device).expect("it opens");
    ProtectionDomain::new(&context).expect("a domain")
}

/// Two ends in one process.
fn linked(domain: &Arc<ProtectionDomain>) -> [Link; 2] {
    let port = domain
        .context()
        .first_port(&PortSettings::default())
        .expect("a port");
    let new = || Link::new(domain, port, PATIENCE).expect("a link");
    let mut ends = [new(), new()];
    let cards = [ends[0].card(), ends[1].card()];
    ends[0].connect(&cards[1]).expect("connect");
    ends[1].connect(&cards[0]).expect("connect");
    ends
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[test]
fn pieces_arrive_packed_and_gathered() {
    if !in_guest() {
        return;
    }
    let domain = domain();
    let [mut here, _there] = linked(&domain);
    let target = HostMemory::new(&domain, 256 << 10).expect("an area");
    let to = AreaCard::of(&target).expect("a card");
    let mut sender = Packed::new(&domain, 256 << 10).expect("a sender");
    assert!(!sender.has_device_memory(), "Soft-RoCE has none");
    println!("REPORT: {:?}", sender.costs());
    let buffer = pattern(300_000);
    for count in [1, 3, 8, 40] {
        let parts: Vec<_> = (0..count).map(|n| (n * 7000, 1 + n * 50)).collect();
        let expected: Vec<u8> = parts
            .iter()
            .flat_map(|&(at, len)| buffer[at..at + len].to_vec())
            .collect();
        for way in [Some(Way::HostPack), Some(Way::Gather), None] {
            for registered in [false, true] {
                let mut pieces = Pieces::new(&buffer, &parts).expect("inside");
                if registered {
                    pieces.register(&domain).expect("registered");
                }
                let mut handed = false;
                let sent = sender
                    .send(&mut here, &mut pieces, &to, 64, way, || handed = true)
                    .expect("sent");
                assert!(handed);
                assert!(way.is_none_or(|way| way == sent.way));
                let mut got = vec![0; expected.len()];
                target.read(64, &mut got).expect("inside");
                assert_eq!(got, expected, "{count} pieces, {way:?}, {registered}");
            }
        }
    }
    let mut pieces = Pieces::new(&buffer, &[(0, 10)]).expect("inside");
    let refused = sender.send(&mut here, &mut pieces, &to, 0, Some(Way::DevicePack), || {});
    assert!(matches!(refused, Err(LinkError::Pieces(_))), "{refused:?}");
    assert!(Pieces::new(&buffer, &[(299_999, 2)]).is_err());
}

#[test]
fn a_chain_passes_messages_on_and_keeps_a_copy_at_each_node() {
    if !in_guest() {
        return;
    }
    let domain = domain();
    const LEN: usize = 100_000;
    let node = || Forwarder::new(area(&domain, LEN).expect("an area"));
    let (mut first, mut middle, mut last) = (node(), node(), node());
    assert!(!first.on_adapter());
    let cards = [middle.card().expect("bytes"), last.card().expect("bytes")];
    let [mut out, mut before_middle] = linked(&domain);
    let [mut on, mut before_last] = linked(&domain);
    for piece in [LEN, 4096, 33_333] {
        let message = pattern(LEN);
        let (mut copy, mut end) = (vec![0; LEN], vec![0; LEN]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = Next {
                    link: &mut out,
                    area: cards[0],
                };
                first.begin(&message, piece, &mut next).expect("begun");
            });
            scope.spawn(|| {
                let next = Next {
                    link: &mut on,
                    area: cards[1],
                };
                middle
                    .take(&mut copy, piece, &mut before_middle, Some(next))
                    .expect("passed on");
            });
            last.take(&mut end, piece, &mut before_last, None)
                .expect("taken");
        });
        assert!(copy == message && end == message, "pieces of {piece}");
    }
}

#[test]
fn a_refused_write_is_an_error_and_costs_are_not_negative() {
    if !in_guest() {
        return;
    }
    let domain = domain();
    let costs = Costs::measure(&domain).expect("measured");
    assert!(costs.host_byte > 0.0 && costs.register > 0.0 && costs.register_byte >= 0.0);
    assert_eq!(costs.device_byte, None);
    let [mut here, _there] = linked(&domain);
    let source = HostMemory::new(&domain, 4096).expect("an area");
    let piece = source.slice(0, 64).expect("inside");
    let nowhere = AreaCard {
        start: 0x1000,
        key: 0x0123_4567,
        len: 64,
    };
    let ticket = here.write(&[piece], nowhere.at(0)).expect("posted");
    assert!(matches!(here.wait(ticket), Err(LinkError::Failed(_))));
}
