//! Packets of a fabric: bytes that are read lie within the packet.
#![no_main]

use limic_ibverbs::packet::{Arrival, Form, Messages, PacketHeader, Sequence};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut order = Sequence::default();
    let mut last: Option<Form> = None;
    // Several packets of one connection, each behind its length.
    let mut rest = bytes;
    while let Some((len, behind)) = rest.split_first() {
        let (packet, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        let Ok((header, messages)) = PacketHeader::split(packet) else {
            continue;
        };
        assert_eq!(
            &header.to_bytes()[..],
            &packet[..packet.len() - messages.len()]
        );
        match order.arrive(header.sequence) {
            Ok(Arrival::Now) => read(messages, &mut last),
            Ok(Arrival::Early) => order.keep(header.sequence, messages.to_vec()),
            Ok(Arrival::Again) | Err(_) => {}
        }
        while let Some(kept) = order.take_next() {
            read(&kept, &mut last);
        }
    }
});

fn read(messages: &[u8], last: &mut Option<Form>) {
    let mut bytes = 0;
    for message in Messages::new(messages, last) {
        let Ok(message) = message else { return };
        assert_eq!(message.payload.len(), message.form.len as usize);
        bytes += message.payload.len() + 1;
        assert!(bytes <= messages.len());
    }
}
