//! `noncontig` and `chain`: messages that rest in an area on their way.

use std::time::{Duration, Instant};

use limic_ibverbs::objects::{AdapterMemory, DeviceMemory, HostMemory};
use limic_measure::MeasureError;
use limic_measure::content::{Wrong, fill, seed, verify};
use limic_measure::control::Control;
use rustix::time::{ClockId, clock_gettime};

use super::Args;
use super::bench::{Rail, barrier, gather, link, mesh, rails, verbs};
use super::sheet::{Line, Sheet};
use crate::staging::{AreaCard, Forwarder, Link, Next, Packed, Pieces, REMEMBERED, Way};

/// Pieces of a message, as in the paper; the gaps between them are as long as they.
const PIECES: usize = 8;
/// Parts of the messages that come from buffers which are registered already.
const REUSE: [u32; 4] = [0, 20, 80, 100];

/// The buffers of a row's messages.
struct Buffers {
    /// Offset and length of each piece.
    parts: Vec<(usize, usize)>,
    /// Is registered before its messages.
    kept: Vec<u8>,
    others: Others,
}

impl Buffers {
    fn new(piece: usize) -> Self {
        let parts: Vec<_> = (0..PIECES)
            .map(|number| (2 * number * piece, piece))
            .collect();
        let len = 2 * PIECES * piece;
        let mut kept = vec![0; len];
        fill_pieces(&mut kept, &parts);
        Self {
            parts,
            kept,
            others: Others::new(len),
        }
    }
}

fn fill_pieces(buffer: &mut [u8], parts: &[(usize, usize)]) {
    for (number, &(at, len)) in parts.iter().enumerate() {
        fill(&mut buffer[at..at + len], seed(0, 0, number));
    }
}

/// Buffers of which none comes again while a sender remembers it.
struct Others {
    /// Each begins a page behind the one before.
    area: Vec<u8>,
    len: usize,
    used: usize,
}

impl Others {
    const PAGE: usize = 4096;

    fn new(len: usize) -> Self {
        Self {
            // Not 0: the pages are there.
            area: vec![1; len + REMEMBERED * Self::PAGE],
            len,
            used: 0,
        }
    }

    fn next(&mut self, parts: &[(usize, usize)]) -> &[u8] {
        let at = self.used % (REMEMBERED + 1) * Self::PAGE;
        self.used += 1;
        let buffer = &mut self.area[at..at + self.len];
        fill_pieces(buffer, parts);
        buffer
    }
}

/// Processor time of this thread.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        now.tv_sec.try_into().unwrap_or(0),
        now.tv_nsec.try_into().unwrap_or(0),
    )
}

/// Figures 10 and 11: messages of 8 pieces, packed or gathered, with some of their buffers
/// registered already.
pub(super) fn noncontig(
    args: &Args,
    sheet: &mut Sheet,
    control: &Control,
) -> Result<(), MeasureError> {
    let rail = &rails()?[0];
    let sizes = &args.sizes.sizes;
    let longest = sizes.longest() * PIECES;
    let target = HostMemory::new(&rail.domain, longest).map_err(verbs)?;
    let cards = gather(control, &area_card(&target)?.to_bytes())?;
    let to = AreaCard::from_bytes(&cards[(1 - control.rank().min(1)) as usize]);
    let mut links = mesh(rail, control)?;
    let sends = control.rank() == 0;
    let mut sender = Packed::new(&rail.domain, longest).map_err(verbs)?;
    let mut ways = vec![Some(Way::HostPack), Some(Way::Gather), None];
    if sender.has_device_memory() {
        ways.insert(1, Some(Way::DevicePack));
    }
    for &piece in sizes.as_slice() {
        for &way in &ways {
            for reuse in REUSE {
                sender.forget();
                let mut buffers = Buffers::new(piece);
                let mut seconds = Vec::new();
                let mut busy = Duration::ZERO;
                for round in 0..args.rounds.rounds {
                    barrier(control)?;
                    if sends && let Some(over) = links.get_mut(1).and_then(Option::as_mut) {
                        let count = args.rounds.iterations.unwrap_or(20);
                        let (each, cpu) = messages(
                            rail,
                            &mut sender,
                            over,
                            &to,
                            &mut buffers,
                            way,
                            reuse,
                            count,
                        )
                        .map_err(|error| {
                            let way = way.map_or("cheapest", Way::name);
                            MeasureError::Nothing(format!(
                                "{way}, pieces of {piece} bytes, {reuse} % known: {error}"
                            ))
                        })?;
                        seconds.push(each);
                        busy += cpu.div_f64(count as f64);
                    }
                    barrier(control)?;
                    if control.rank() == 1 && round == 0 {
                        check(&target, piece)?;
                    }
                }
                if sends {
                    let name = way.map_or("cheapest", Way::name);
                    let bytes = (piece * PIECES) as u64;
                    let mut line = Line::new(name, bytes, &seconds).rate(bytes);
                    line.reuse = Some(reuse);
                    line.cpu_us = Some(busy.as_secs_f64() * 1e6 / f64::from(args.rounds.rounds));
                    sheet.rows.push(line);
                }
            }
        }
    }
    let costs = sender.costs();
    sheet.notes.push(format!(
        "measured here: a copy takes {:.2} us for 64 KiB, a registration {:.1} us and {:.2} us more for 64 KiB",
        costs.host_byte * 65_536.0,
        costs.register,
        costs.register_byte * 65_536.0
    ));
    sheet.notes.push(rail.says());
    barrier(control)?;
    Ok(())
}

/// Sends messages; seconds of each, and processor time of all, without what was spent in waiting.
#[expect(clippy::too_many_arguments, reason = "the two ends, and what varies")]
fn messages(
    rail: &Rail,
    sender: &mut Packed,
    over: &mut Link,
    to: &AreaCard,
    buffers: &mut Buffers,
    way: Option<Way>,
    reuse: u32,
    count: u64,
) -> Result<(f64, Duration), MeasureError> {
    let Buffers {
        parts,
        kept,
        others,
    } = buffers;
    let mut lasting = Pieces::new(kept, parts).map_err(link)?;
    lasting.register(&rail.domain).map_err(verbs)?;
    let mut busy = Duration::ZERO;
    let mut time = Duration::ZERO;
    for turn in 0..count {
        // 80 % are 4 of 5, in any order.
        let known = (turn * 7 + 3) % 20 < u64::from(reuse) / 5;
        // The filling is not measured.
        let other = if known {
            None
        } else {
            Some(others.next(parts))
        };
        let begin = (Instant::now(), cpu());
        let mut handed = begin.1;
        let mut after = || handed = cpu();
        if let Some(buffer) = other {
            let mut once = Pieces::new(buffer, parts).map_err(link)?;
            sender
                .send(over, &mut once, to, 0, way, &mut after)
                .map_err(link)?;
            let sent = cpu();
            // Registrations that were kept for the next time end here: this buffer does not come
            // again.
            drop(once);
            busy += (handed - begin.1) + (cpu() - sent);
        } else {
            sender
                .send(over, &mut lasting, to, 0, way, &mut after)
                .map_err(link)?;
            busy += handed - begin.1;
        }
        time += begin.0.elapsed();
    }
    Ok((time.as_secs_f64() / count as f64, busy))
}

/// What the receiver has got.
fn check(target: &HostMemory, piece: usize) -> Result<(), MeasureError> {
    let mut bytes = vec![0; piece];
    for number in 0..PIECES {
        target.read(number * piece, &mut bytes).map_err(verbs)?;
        wrong(1, verify(&bytes, 0, seed(0, 0, number)))?;
    }
    Ok(())
}

fn wrong(rank: u32, checked: Result<(), Wrong>) -> Result<(), MeasureError> {
    checked.map_err(|wrong| MeasureError::Content { rank, wrong })
}

fn area_card(area: &dyn AdapterMemory) -> Result<AreaCard, MeasureError> {
    AreaCard::of(area)
        .ok_or_else(|| MeasureError::Usage("messages of 0 bytes or over 4 GiB".into()))
}

/// Figures 12 to 14: rank 0 sends to rank 1, which passes it on to rank 2, and so on; the last one
/// answers.
pub(super) fn chain(args: &Args, sheet: &mut Sheet, control: &Control) -> Result<(), MeasureError> {
    let (rank, size) = (control.rank(), control.size());
    let rail = &rails()?[0];
    let mut links = mesh(rail, control)?;
    let longest = args.sizes.sizes.longest();
    let host = HostMemory::new(&rail.domain, longest).map_err(verbs)?;
    let mut areas: Vec<(_, Box<dyn AdapterMemory>)> = vec![("host memory", Box::new(host))];
    if let Ok(device) = DeviceMemory::new(&rail.domain, longest) {
        areas.push(("device memory", Box::new(device)));
    }
    for (name, area) in areas {
        let mut node = Forwarder::new(area);
        let card = node
            .card()
            .ok_or_else(|| MeasureError::Usage("messages of 0 bytes".into()))?;
        let cards = gather(control, &card.to_bytes())?;
        let next_area = AreaCard::from_bytes(&cards[((rank + 1) % size) as usize]);
        for &bytes in args.sizes.sizes.as_slice() {
            // Whole messages, and pieces that overlap along the chain.
            let mut pieces = vec![bytes];
            if bytes > PIECE {
                pieces.push(PIECE);
            }
            for piece in pieces {
                // One message is checked, and meets the buffer's pages, before the clock starts.
                let mut buffer = vec![0; bytes];
                if rank == 0 {
                    fill(&mut buffer, seed(0, 0, 0));
                }
                let mut message = |buffer: &mut [u8]| {
                    pass(&mut node, &mut links, next_area, rank, size, buffer, piece)
                };
                message(&mut buffer)?;
                wrong(rank, verify(&buffer, 0, seed(0, 0, 0)))?;
                let mut seconds = Vec::new();
                for _ in 0..args.rounds.rounds {
                    barrier(control)?;
                    let count = args.rounds.iterations.unwrap_or(10);
                    let begin = Instant::now();
                    for _ in 0..count {
                        message(&mut buffer)?;
                    }
                    seconds.push(begin.elapsed().as_secs_f64() / count as f64);
                }
                let case = if piece == bytes {
                    format!("{name}, whole messages")
                } else {
                    format!(
                        "{name}, pieces of {}",
                        limic::settings::ByteSize(piece as u64)
                    )
                };
                sheet
                    .rows
                    .push(Line::new(case, bytes as u64, &seconds).rate(bytes as u64));
            }
        }
    }
    sheet.notes.push(format!(
        "through {size} nodes, until the first one has the last one's notice of 8 bytes"
    ));
    sheet.notes.push(rail.says());
    barrier(control)?;
    Ok(())
}

/// Pieces that long messages are passed on in.
const PIECE: usize = 64 << 10;

/// One message through this rank's node.
fn pass(
    node: &mut Forwarder,
    links: &mut [Option<Link>],
    next_area: AreaCard,
    rank: u32,
    size: u32,
    buffer: &mut [u8],
    piece: usize,
) -> Result<(), MeasureError> {
    let last = size as usize - 1;
    let here = rank as usize;
    // A node has at most two neighbours: take them out, and put them back.
    let mut before = if here > 0 {
        links[here - 1].take()
    } else {
        None
    };
    let mut after = if here < last {
        links[here + 1].take()
    } else {
        None
    };
    let next = after.as_mut().map(|link| Next {
        link,
        area: next_area,
    });
    let done = match (&mut before, next) {
        (None, Some(mut next)) => node.begin(buffer, piece, &mut next),
        (Some(before), next) => node.take(buffer, piece, before, next),
        (None, None) => Ok(()),
    };
    done.map_err(link)?;
    if here > 0 {
        links[here - 1] = before;
    }
    if here < last {
        links[here + 1] = after;
    }
    // The way back, from the last to the first.
    if here == 0
        && let Some(over) = &mut links[last]
    {
        over.notice().map_err(link)?;
    }
    if here == last
        && let Some(over) = &mut links[0]
    {
        over.notify(0).map_err(link)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Reuse;

    #[test]
    fn a_sender_knows_none_of_the_other_buffers() {
        let Buffers {
            parts, mut others, ..
        } = Buffers::new(100);
        let mut reuse = Reuse::default();
        for _ in 0..3 * REMEMBERED {
            let buffer = others.next(&parts);
            assert_eq!(reuse.note(buffer.as_ptr() as usize, buffer.len()), 0.0);
            let (at, len) = parts[PIECES - 1];
            assert_eq!(
                verify(&buffer[at..at + len], 0, seed(0, 0, PIECES - 1)),
                Ok(())
            );
        }
    }
}
