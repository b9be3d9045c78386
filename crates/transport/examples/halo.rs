//! 2-D heat equation with a halo exchange over a grid of processes, checked against a serial run.
//!
//! `limic run -n 4 target/release/examples/halo [CELLS PER SIDE] [STEPS]`
//!
//! Each rank holds a block of the plane and a halo beyond each of its four sides. Messages are
//! bytes, which `bytemuck` sees in the cells without a copy, so an edge goes out from where it
//! lies: a row in one piece, a column as a list of pieces.

use std::ops::Range;
use std::process::ExitCode;

use bytemuck::{bytes_of, cast_slice, cast_slice_mut};
use limic::{Endpoint, Peer, Tag, World};

const COLD: f64 = 0.0;
const HOT: f64 = 100.0;

// The sides of a block; the opposite one is `side ^ 1`. Also the tags of what is sent over them.
const UP: usize = 0;
const DOWN: usize = 1;
const LEFT: usize = 2;
const RIGHT: usize = 3;

struct Block {
    width: usize,
    /// Row by row.
    cells: Vec<f64>,
    /// What lies beyond each side: a neighbour's edge, or the border of the plane.
    halos: [Vec<f64>; 4],
}

impl Block {
    /// A cold plane, hot beyond its upper side.
    fn new(height: usize, width: usize) -> Self {
        let cold = |cells: usize| vec![COLD; cells];
        Self {
            width,
            cells: cold(height * width),
            halos: [vec![HOT; width], cold(width), cold(height), cold(height)],
        }
    }

    /// One explicit step in time: each cell moves towards the mean of its neighbours.
    fn step(&mut self) {
        let (cells, width, [up, down, left, right]) = (&self.cells, self.width, &self.halos);
        let last = cells.len() - width;
        let next = |i: usize| {
            let (y, x) = (i / width, i % width);
            let above = if i < width { up[x] } else { cells[i - width] };
            let below = if i < last { cells[i + width] } else { down[x] };
            let before = if x == 0 { left[y] } else { cells[i - 1] };
            let behind = if x + 1 < width {
                cells[i + 1]
            } else {
                right[y]
            };
            cells[i] + 0.2 * (above + below + before + behind - 4.0 * cells[i])
        };
        self.cells = (0..cells.len()).map(next).collect();
    }

    /// Sends each edge to the neighbour behind it, and receives theirs into the halos.
    ///
    /// Every step uses the same tags: messages of one peer match in the order sent.
    fn exchange(&mut self, world: &World, neighbours: [Option<Peer>; 4]) -> limic::Result<()> {
        let (cells, width, halos) = (&self.cells, self.width, &mut self.halos);
        let column = |x: usize| cells[x..].iter().step_by(width).map(bytes_of);
        let last = cells.len() - width;
        world.scope(|scope| {
            for (side, halo) in halos.iter_mut().enumerate() {
                if let Some(peer) = neighbours[side] {
                    scope.irecv((peer, tag(side ^ 1)), cast_slice_mut(halo))?;
                }
            }
            for (side, peer) in neighbours.into_iter().enumerate() {
                let Some(peer) = peer else { continue };
                match side {
                    UP => scope.isend(peer, tag(UP), cast_slice(&cells[..width]))?,
                    DOWN => scope.isend(peer, tag(DOWN), cast_slice(&cells[last..]))?,
                    LEFT => scope.isend_vectored(peer, tag(LEFT), column(0))?,
                    _ => scope.isend_vectored(peer, tag(RIGHT), column(width - 1))?,
                };
            }
            Ok(()) // The end of the scope waits for all of them.
        })
    }
}

fn tag(side: usize) -> Tag {
    Tag(side as u64)
}

/// The `index`-th of `parts` nearly equal parts of `0..len`.
fn part(len: usize, parts: u32, index: u32) -> Range<usize> {
    let bound = |i: u32| len * i as usize / parts as usize;
    bound(index)..bound(index + 1)
}

fn main() -> Result<ExitCode, limic::Error> {
    let mut numbers = std::env::args().skip(1).map_while(|word| word.parse().ok());
    let cells = numbers.next().unwrap_or(240);
    let steps = numbers.next().unwrap_or(100);

    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    // The grid of ranks: as square as their number allows.
    let fits = |n: &u32| size % *n == 0;
    let down = (1..=size.isqrt()).rev().find(fits).unwrap_or(1);
    let across = size / down;
    if cells < across as usize {
        world.abort(2, "fewer cells per side than ranks per side");
    }
    let (y, x) = (rank / across, rank % across);
    let peer = |there: bool, rank: u32| there.then(|| Peer::from_index(rank));
    let neighbours = [
        peer(y > 0, rank.wrapping_sub(across)),
        peer(y + 1 < down, rank + across),
        peer(x > 0, rank.wrapping_sub(1)),
        peer(x + 1 < across, rank + 1),
    ];

    let (rows, columns) = (part(cells, down, y), part(cells, across, x));
    let mut block = Block::new(rows.len(), columns.len());
    let mut serial = Block::new(cells, cells);
    for _ in 0..steps {
        block.exchange(&world, neighbours)?;
        block.step();
        serial.step();
    }

    // The same part of the plane that this rank has computed alone.
    let expected = rows.flat_map(|y| &serial.cells[y * cells..][columns.clone()]);
    let differences = expected.zip(&block.cells).map(|(a, b)| (a - b).abs());
    let largest = differences.fold(0.0, f64::max);
    let shape = (block.cells.len() / block.width, block.width);
    println!("rank {rank} of {down} x {across}: {shape:?} cells, largest difference {largest}");
    world.finalize()?;
    Ok(ExitCode::from(u8::from(largest != 0.0)))
}
