//! Memory that peers read and write by themselves.

use limic::{Endpoint, Error, RegionKey};

use crate::party::TAG;
use crate::{Case, check, content};

/// A counter's size.
pub fn eight_bytes<E: Endpoint>(case: &Case<E>) {
    there_and_back(case, &[8, 1, 0, 7, 64]);
}

/// More than one chunk of anything.
pub fn a_mebibyte<E: Endpoint>(case: &Case<E>) {
    there_and_back(case, &[1 << 20, 4097, (1 << 20) - 3]);
}

fn there_and_back<E: Endpoint>(case: &Case<E>, lengths: &[usize]) {
    let longest = *lengths.iter().max().unwrap_or(&0);
    let lengths = &lengths;
    case.run(2, |party| {
        if party.rank == 1 {
            let region = party
                .endpoint
                .region(content(1, longest + 100))
                .expect("a region");
            assert_eq!(region.len(), longest as u64 + 100);
            let _ = party.words(region.key().0);
            party.meet();
            for (number, len) in (10..).zip(*lengths) {
                let mut found = vec![0; *len];
                party.meet();
                region.read_at(33, &mut found).expect("within");
                check(number, &found);
                party.meet();
            }
            let memory = region.revoke().expect("revoke");
            check(1, &memory[..33]);
            return;
        }
        let key = RegionKey(party.words(0)[1]);
        let (endpoint, other) = (&party.endpoint, party.other());
        for len in *lengths {
            let mut found = vec![0; *len];
            endpoint.read(other, key, 0, &mut found).expect("read");
            check(1, &found);
            endpoint
                .read(other, key, 100 + (longest - len) as u64, &mut found)
                .expect("read");
            let whole = content(1, longest + 100);
            assert_eq!(found, whole[longest - len + 100..]);
        }
        party.meet();
        for (number, len) in (10..).zip(*lengths) {
            endpoint
                .write(other, key, 33, &content(number, *len))
                .expect("write");
            let mut found = vec![0; *len];
            endpoint.read(other, key, 33, &mut found).expect("read");
            check(number, &found);
            party.meet();
            party.meet();
        }
    });
}

/// An access outside names both, and nothing is touched.
pub fn out_of_range<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 1 {
            let region = party.endpoint.region(content(1, 1000)).expect("a region");
            let _ = party.words(region.key().0);
            assert!(matches!(
                region.write_at(993, &[0; 8]),
                Err(Error::OutOfRegion { .. })
            ));
            assert!(matches!(
                region.read_at(1001, &mut []),
                Err(Error::OutOfRegion { .. })
            ));
            party.meet();
            check(1, &region.revoke().expect("revoke"));
            return;
        }
        let key = RegionKey(party.words(0)[1]);
        let (endpoint, other) = (&party.endpoint, party.other());
        for (offset, len) in [
            (993, 8),
            (1000, 1),
            (1001, 0),
            (0, 1001),
            (u64::MAX, 1),
            (u64::MAX - 3, 8),
        ] {
            let wanted = Error::OutOfRegion {
                offset,
                len: len as u64,
                region: 1000,
            };
            let mut buffer = vec![0xa5; len];
            assert_eq!(
                endpoint.read(other, key, offset, &mut buffer),
                Err(wanted.clone())
            );
            assert!(buffer.iter().all(|byte| *byte == 0xa5));
            assert_eq!(endpoint.write(other, key, offset, &buffer), Err(wanted));
        }
        endpoint
            .read(other, key, 1000, &mut [])
            .expect("nothing at the very end");
        party.meet();
    });
}

/// A key that was never given, and one that is no longer valid.
pub fn unknown_and_revoked_keys<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 1 {
            let region = party.endpoint.region(content(1, 1000)).expect("a region");
            let _ = party.words(region.key().0);
            party.meet();
            let memory = region.revoke().expect("revoke");
            check(2, &memory[..500]);
            let again = party.endpoint.region(memory).expect("a region");
            party.meet();
            party.meet();
            let mut found = vec![0; 500];
            again.read_at(0, &mut found).expect("within");
            check(2, &found);
            drop(again);
            return;
        }
        let key = RegionKey(party.words(0)[1]);
        let (endpoint, other) = (&party.endpoint, party.other());
        let unknown = Err(Error::UnknownRegion { peer: other });
        endpoint
            .write(other, key, 0, &content(2, 500))
            .expect("write");
        for wrong in [0, 1, key.0 ^ 1, !key.0] {
            assert_eq!(
                endpoint.read(other, RegionKey(wrong), 0, &mut [0; 8]),
                unknown
            );
            assert_eq!(endpoint.write(other, RegionKey(wrong), 0, &[0; 8]), unknown);
        }
        party.meet();
        party.meet();
        assert_eq!(endpoint.read(other, key, 0, &mut [0; 8]), unknown);
        assert_eq!(endpoint.write(other, key, 0, &[0; 8]), unknown);
        party.meet();
    });
}

/// Messages go on in both directions while both sides access the other's memory.
pub fn beside_messages<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const LEN: usize = 200_000;
        let region = party.endpoint.region(vec![0; 2 * LEN]).expect("a region");
        let (endpoint, other) = (&party.endpoint, party.other());
        let key = RegionKey(party.words(region.key().0)[1 - party.rank as usize]);
        for round in 0..20_u64 {
            let number = round * 2 + u64::from(party.rank);
            let data = content(number, LEN);
            let receive = endpoint.irecv((other, TAG), vec![0; LEN]).expect("irecv");
            let send = endpoint.isend(other, TAG, data.clone()).expect("isend");
            let offset = if round % 2 == 0 { 0 } else { LEN as u64 };
            endpoint.write(other, key, offset, &data).expect("write");
            let mut found = vec![0; LEN];
            endpoint.read(other, key, offset, &mut found).expect("read");
            check(number, &found);
            check(number ^ 1, &receive.wait().expect("receive").1);
            send.wait().expect("send");
            party.meet();
            region.read_at(offset, &mut found).expect("within");
            check(number ^ 1, &found);
        }
        party.meet();
        drop(region);
    });
}

/// One's own region, through the same calls.
pub fn own_region<E: Endpoint>(case: &Case<E>) {
    case.run(1, |party| {
        let (endpoint, me) = (&party.endpoint, party.endpoint.myself());
        let region = endpoint.region(content(1, 5000)).expect("a region");
        let mut found = vec![0; 5000];
        endpoint
            .read(me, region.key(), 0, &mut found)
            .expect("read");
        check(1, &found);
        endpoint
            .write(me, region.key(), 0, &content(2, 5000))
            .expect("write");
        let outside = endpoint.read(me, region.key(), 1, &mut found);
        assert!(
            matches!(outside, Err(Error::OutOfRegion { .. })),
            "{outside:?}"
        );
        check(2, &region.revoke().expect("revoke"));
        let empty = endpoint.region(Vec::new()).expect("a region");
        assert!(empty.is_empty());
        // Many at once are a clear error at some point, and can be had again afterwards.
        let mut regions = vec![empty];
        let error = loop {
            match endpoint.region(vec![0; 8]) {
                Ok(region) => regions.push(region),
                Err(error) => break error,
            }
            if regions.len() > 100_000 {
                return;
            }
        };
        assert!(matches!(error, Error::NoMemory(_)), "{error:?}");
        regions.clear();
        endpoint.region(vec![0; 8]).expect("a region again");
    });
}

/// Accesses that are under way together, with buffers of either kind.
pub fn several_at_once<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        const LEN: usize = 100_000;
        let (endpoint, other) = (&party.endpoint, party.other());
        let region = endpoint.region(content(1, 4 * LEN)).expect("a region");
        let key = RegionKey(party.words(region.key().0)[1 - party.rank as usize]);
        let at = |part: usize| (part * LEN) as u64;
        let whole = content(1, 4 * LEN);

        let mut found = vec![0; LEN];
        let read = endpoint.iread(other, key, at(1), vec![0; LEN]);
        let over = endpoint.scope(|scope| {
            let read = scope.iread(other, key, at(0), &mut found)?;
            read.wait().map(drop)
        });
        over.expect("a read");
        assert_eq!(found, whole[..LEN]);
        let (_, found) = read.expect("iread").wait().expect("a read");
        assert_eq!(found, whole[LEN..2 * LEN]);
        party.meet();

        let data = content(2, LEN);
        let write = endpoint.iwrite(other, key, at(2), data.clone());
        let over = endpoint.scope(|scope| scope.iwrite(other, key, at(3), &data)?.wait());
        over.expect("a write");
        check(2, &write.expect("iwrite").wait().expect("a write"));
        let outside = endpoint.iread(other, key, at(4), vec![0; 1]);
        let outside = outside.and_then(|read| read.wait());
        assert!(
            matches!(outside, Err(Error::OutOfRegion { .. })),
            "{outside:?}"
        );
        party.meet();
        let memory = region.revoke().expect("revoke");
        check(2, &memory[2 * LEN..3 * LEN]);
        check(2, &memory[3 * LEN..]);
    });
}
