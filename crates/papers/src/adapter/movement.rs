//! `hostdev`, `ports` and `hotspot`: bytes between host and adapter memory, over one and two
//! ports, and from one rank to many.

use std::time::Instant;

use limic_ibverbs::objects::{AdapterMemory, DeviceMemory, HostMemory};
use limic_measure::MeasureError;
use limic_measure::control::Control;

use super::Args;
use super::bench::{Rail, barrier, gather, link, mesh, rails, verbs};
use super::sheet::{Line, Sheet};
use crate::staging::{AreaCard, Link};

/// Requests that are on their way at a time where bandwidth is measured.
const WINDOW: usize = 16;

/// Requests of one round.
fn turns(args: &Args, default: u64) -> u64 {
    args.rounds.iterations.unwrap_or(default)
}

/// An area, and where it lies.
type Named = (&'static str, Box<dyn AdapterMemory>);

/// Host and device memory of one length, as far as the adapter has it.
fn areas(rail: &Rail, len: usize) -> Result<Vec<Named>, MeasureError> {
    let host = HostMemory::new(&rail.domain, len).map_err(verbs)?;
    let mut areas: Vec<Named> = vec![("host", Box::new(host))];
    if let Ok(device) = DeviceMemory::new(&rail.domain, len) {
        areas.push(("device", Box::new(device)));
    }
    Ok(areas)
}

/// Writes `bytes` from one area into the other until `count` are done; seconds of each.
fn stream(
    from: &dyn AdapterMemory,
    to: &AreaCard,
    over: &mut [Link],
    bytes: usize,
    count: u64,
) -> Result<f64, MeasureError> {
    let piece = from.slice(0, bytes).ok_or_else(|| no_piece(bytes))?;
    let mut tickets = std::collections::VecDeque::new();
    let begin = Instant::now();
    for turn in 0..count {
        let place = turn as usize % over.len();
        if tickets.len() == WINDOW
            && let Some((place, ticket)) = tickets.pop_front()
        {
            let over: &mut Link = &mut over[place];
            over.wait(ticket).map_err(link)?;
        }
        tickets.push_back((place, over[place].write(&[piece], to.at(0)).map_err(link)?));
    }
    for (place, ticket) in tickets {
        over[place].wait(ticket).map_err(link)?;
    }
    Ok(begin.elapsed().as_secs_f64() / count as f64)
}

fn no_piece(bytes: usize) -> MeasureError {
    MeasureError::Usage(format!("{bytes} bytes are more than one request moves"))
}

fn card(area: &dyn AdapterMemory) -> Result<AreaCard, MeasureError> {
    AreaCard::of(area).ok_or_else(|| no_piece(area.len()))
}

/// Figure 2: a local queue pair moves bytes between all combinations of host and device memory; and
/// memcpy beside it.
pub(super) fn hostdev(
    args: &Args,
    sheet: &mut Sheet,
    control: &Control,
) -> Result<(), MeasureError> {
    // One process is enough; the others wait.
    if control.rank() == 0 {
        let rail = &rails()?[0];
        let mut over = rail.loopback()?;
        for &bytes in args.sizes.sizes.as_slice() {
            let count = turns(args, 32);
            let (source, target) = (areas(rail, bytes)?, areas(rail, bytes)?);
            for (from_name, from) in &source {
                for (to_name, to) in &target {
                    let to = card(&**to)?;
                    let mut seconds = Vec::new();
                    for _ in 0..args.rounds.rounds {
                        seconds.push(stream(&**from, &to, &mut over[..1], bytes, count)?);
                    }
                    let line =
                        Line::new(format!("{from_name} to {to_name}"), bytes as u64, &seconds);
                    sheet.rows.push(line.rate(bytes as u64));
                }
            }
            let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
            let mut seconds = Vec::new();
            for _ in 0..args.rounds.rounds {
                let begin = Instant::now();
                for _ in 0..count {
                    to.copy_from_slice(std::hint::black_box(&from));
                    std::hint::black_box(&mut to);
                }
                seconds.push(begin.elapsed().as_secs_f64() / count as f64);
            }
            sheet
                .rows
                .push(Line::new("memcpy", bytes as u64, &seconds).rate(bytes as u64));
        }
        sheet.notes.push(rail.says());
    }
    barrier(control)?;
    Ok(())
}

/// Figures 5 to 8: one way and both ways, over one device and over two.
pub(super) fn ports(args: &Args, sheet: &mut Sheet, control: &Control) -> Result<(), MeasureError> {
    let rails = rails()?;
    let other = 1 - control.rank().min(1);
    let most = args.sizes.sizes.longest();
    // Each rail has its own key for memory, so every rail has an area of its own.
    let mut sides = Vec::new();
    for rail in &rails {
        let area = HostMemory::new(&rail.domain, most).map_err(verbs)?;
        let cards = gather(control, &card(&area)?.to_bytes())?;
        let to = AreaCard::from_bytes(&cards[other as usize]);
        let over = mesh(rail, control)?.into_iter().flatten().take(1).collect();
        sides.push(Side { area, to, over });
    }
    for &bytes in args.sizes.sizes.as_slice() {
        for count in 1..=sides.len() {
            for both in [false, true] {
                let sends = control.rank() == 0 || (both && control.rank() == 1);
                let mut seconds = Vec::new();
                for _ in 0..args.rounds.rounds {
                    barrier(control)?;
                    let begin = Instant::now();
                    if sends {
                        striped(&mut sides[..count], bytes, turns(args, 64))?;
                    }
                    barrier(control)?;
                    seconds.push(begin.elapsed().as_secs_f64() / turns(args, 64) as f64);
                }
                let ways = if both { "both ways" } else { "one way" };
                let case = format!("{count} device{}, {ways}", if count > 1 { "s" } else { "" });
                let moved = bytes as u64 * if both { 2 } else { 1 };
                sheet
                    .rows
                    .push(Line::new(case, bytes as u64, &seconds).rate(moved));
            }
        }
    }
    if let [only] = rails.as_slice() {
        let name = only.domain.context().name();
        sheet.notes.push(format!(
            "{name} is the only device with an active port: nothing is striped"
        ));
    }
    sheet.notes.push(rails[0].says());
    barrier(control)?;
    Ok(())
}

/// A rail with what goes over it.
struct Side {
    area: HostMemory,
    to: AreaCard,
    over: Vec<Link>,
}

/// Every message in equal parts over all sides.
fn striped(sides: &mut [Side], bytes: usize, count: u64) -> Result<(), MeasureError> {
    let share = bytes.div_ceil(sides.len()).max(1);
    let mut tickets = std::collections::VecDeque::new();
    for _ in 0..count {
        if tickets.len() >= WINDOW * sides.len() {
            for _ in 0..sides.len() {
                if let Some((place, ticket)) = tickets.pop_front() {
                    let side: &mut Side = &mut sides[place];
                    side.over[0].wait(ticket).map_err(link)?;
                }
            }
        }
        for (place, side) in sides.iter_mut().enumerate() {
            let piece = side.area.slice(0, share).ok_or_else(|| no_piece(share))?;
            let ticket = side.over[0].write(&[piece], side.to.at(0)).map_err(link)?;
            tickets.push_back((place, ticket));
        }
    }
    for (place, ticket) in tickets {
        sides[place].over[0].wait(ticket).map_err(link)?;
    }
    Ok(())
}

/// Figure 9: rank 0 writes to all others one after the other, and each tells that it has it.
pub(super) fn hotspot(
    args: &Args,
    sheet: &mut Sheet,
    control: &Control,
) -> Result<(), MeasureError> {
    let rail = &rails()?[0];
    let master = control.rank() == 0;
    let most = args.sizes.sizes.longest();
    let mut links = mesh(rail, control)?;
    for (name, area) in areas(rail, most)? {
        let cards = gather(control, &card(&*area)?.to_bytes())?;
        let cards: Vec<_> = cards.iter().map(AreaCard::from_bytes).collect();
        for &bytes in args.sizes.sizes.as_slice() {
            let piece = area.slice(0, bytes).ok_or_else(|| no_piece(bytes))?;
            let mut seconds = Vec::new();
            for _ in 0..args.rounds.rounds {
                barrier(control)?;
                let count = turns(args, 16);
                let begin = Instant::now();
                for turn in 0..count {
                    if master {
                        for (to, over) in cards.iter().zip(&mut links) {
                            let Some(over) = over else { continue };
                            over.write(&[piece], to.at(0)).map_err(link)?;
                            over.notify(turn).map_err(link)?;
                        }
                        for over in links.iter_mut().flatten() {
                            over.notice().map_err(link)?;
                        }
                    } else if let Some(over) = &mut links[0] {
                        over.notice().map_err(link)?;
                        over.notify(turn).map_err(link)?;
                    }
                }
                seconds.push(begin.elapsed().as_secs_f64() / count as f64);
                barrier(control)?;
            }
            let case = format!("{name} to {name}, {} ranks written to", control.size() - 1);
            let moved = bytes as u64 * u64::from(control.size() - 1);
            sheet
                .rows
                .push(Line::new(case, bytes as u64, &seconds).rate(moved));
        }
    }
    sheet
        .notes
        .push("until all have answered with a notice of 8 bytes".to_owned());
    sheet.notes.push(rail.says());
    barrier(control)?;
    Ok(())
}
