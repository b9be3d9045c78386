//! What travels once two endpoints are connected: records, one behind the other.
//!
//! ```text
//! header (`Form::to_header`) | payload
//! ```

use limic_fabric::{Arrivals, Form};

/// Bytes before a record's payload.
pub(crate) const HEADER: usize = Form::HEADER;
/// The longest payload: so much goes to a peer before anything else does.
pub(crate) const LONGEST: usize = 1 << 20;
/// A longer payload is not gathered here, but received part by part.
pub(crate) const LONG: usize = 16 << 10;
/// A longer payload is written out of the memory of its sender.
pub(crate) const WRITTEN_IN_PLACE: usize = 8 << 10;
/// The first bytes of a long payload that are there at once, for words ahead of a message.
pub(crate) const FIRST: usize = 64;
/// The sender has closed its endpoint.
pub(crate) const GOODBYE: u8 = 0xf0;

/// What a stretch of bytes holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes of whole records.
    pub(crate) bytes: usize,
    /// The last one says goodbye; what is behind it is nobody's.
    pub(crate) goodbye: bool,
    /// Behind the whole records a long one begins: so many bytes of it are to come.
    pub(crate) to_come: usize,
    /// The last record is long.
    pub(crate) long: bool,
}

/// Notes the whole records among the bytes in `arrivals`, and the beginning of a long one.
///
/// # Errors
/// What makes no sense.
pub(crate) fn take(bytes: &[u8], arrivals: &mut Arrivals) -> Result<Taken, String> {
    let mut at = 0;
    let mut long = false;
    while let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk::<HEADER>) {
        let form = Form::from_header(head).ok_or("a record whose reserved bytes are not zero")?;
        let Form { kind, len, .. } = form;
        if len as usize > LONGEST {
            return Err(format!("a record of {len} bytes, {LONGEST} is the longest"));
        }
        let end = at + HEADER + len as usize;
        long = len as usize > LONG;
        let enough = if long { at + HEADER + FIRST } else { end };
        if enough > bytes.len() {
            break;
        }
        if kind == GOODBYE && !long {
            return Ok(Taken {
                bytes: end,
                goodbye: true,
                to_come: 0,
                long,
            });
        }
        if kind >= GOODBYE {
            return Err(format!("a record of kind {kind:#04x} and {len} bytes"));
        }
        if end > bytes.len() {
            arrivals.push_begun(form, at + HEADER, bytes.len());
            return Ok(Taken {
                bytes: bytes.len(),
                goodbye: false,
                to_come: end - bytes.len(),
                long,
            });
        }
        arrivals.push(form, at + HEADER);
        at = end;
    }
    Ok(Taken {
        bytes: at,
        goodbye: false,
        to_come: 0,
        long,
    })
}

#[cfg(test)]
mod tests {
    use limic_fabric::ConnectionId;
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u8, tag: u64, payload: &[u8]) -> Vec<u8> {
        let len = payload.len() as u32;
        let mut bytes = Form { kind, tag, len }.to_header().to_vec();
        bytes.extend(payload);
        bytes
    }

    proptest! {
        /// However the bytes are cut, the records come out as they went in.
        #[test]
        fn records_come_out_as_they_went_in(
            records in proptest::collection::vec(
                (0..GOODBYE, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..90)), 0..20),
            cuts in proptest::collection::vec(1..200_usize, 1..40),
        ) {
            let all: Vec<u8> = records.iter().flat_map(|(k, t, p)| record(*k, *t, p)).collect();
            let (mut seen, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = (at + cut).min(all.len());
                kept.extend(&all[at..end]);
                at = end;
                let mut arrivals = Arrivals::new();
                arrivals.begin(ConnectionId(0));
                let taken = take(&kept, &mut arrivals).unwrap();
                *arrivals.bytes_mut() = kept.clone();
                seen.extend(arrivals.messages().map(|(f, p)| (f.kind, f.tag, p.to_vec())));
                kept.drain(..taken.bytes);
                if at == all.len() {
                    break;
                }
            }
            prop_assert!(kept.is_empty());
            prop_assert_eq!(seen, records);
        }

        #[test]
        fn any_bytes_are_read_without_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut arrivals = Arrivals::new();
            if let Ok(taken) = take(&bytes, &mut arrivals) {
                prop_assert!(taken.bytes <= bytes.len());
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let mut arrivals = Arrivals::new();
        let mut too_long = record(1, 2, &[]);
        too_long[..4].copy_from_slice(&(LONGEST as u32 + 1).to_le_bytes());
        let error = take(&too_long, &mut arrivals).unwrap_err();
        assert!(error.contains("1048577"), "{error}");
        assert!(take(&record(0xf1, 0, &[]), &mut arrivals).is_err());
        let mut reserved = record(1, 2, &[]);
        reserved[6] = 1;
        assert!(take(&reserved, &mut arrivals).is_err());
        assert!(arrivals.is_empty());
    }

    #[test]
    fn nothing_is_read_behind_a_goodbye() {
        let mut arrivals = Arrivals::new();
        let mut bytes = record(GOODBYE, 0, &[]);
        bytes.extend([0xff; 40]);
        let taken = take(&bytes, &mut arrivals).unwrap();
        assert_eq!((taken.bytes, taken.goodbye), (HEADER, true));
    }
}
