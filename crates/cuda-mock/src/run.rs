//! Runs a kernel block by block; the threads of a warp each run until they need each other.

use crate::{
    code::{Entry, Instruction, Op, Operand, Shuffle, Space, Ty},
    number::float,
    step::{Around, Then, Thread, read, step, write},
};

const WARP: usize = 32;

/// The place where a thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// At an instruction that the whole warp executes together.
    Warp,
    /// At a barrier of the block.
    Barrier,
    Done,
}

/// Memory of one variable, aligned to 64 bytes.
struct Memory {
    words: Vec<[u64; 8]>,
}

impl Memory {
    fn new(bytes: usize, contents: &[u8]) -> Self {
        let mut memory = Self { words: vec![[0; 8]; bytes.max(1).div_ceil(64) + 1] };
        let start = memory.start();
        // SAFETY: there is room for as many bytes as the variable has, and its contents are not longer.
        unsafe { std::ptr::copy_nonoverlapping(contents.as_ptr(), start as *mut u8, contents.len().min(bytes)) };
        memory
    }

    fn start(&mut self) -> usize {
        (self.words.as_mut_ptr() as usize).next_multiple_of(64)
    }
}

/// A block of threads that is running.
struct Block<'a> {
    entry: &'a Entry,
    around: Around<'a>,
    threads: Vec<Thread>,
    states: Vec<State>,
    /// Per thread, the addresses of all variables.
    variables: Vec<Vec<usize>>,
}

/// Runs a kernel; an error describes the fault of a thread.
pub fn launch(entry: &Entry, grid: [usize; 3], block: [usize; 3], parameters: &[u64]) -> Result<(), String> {
    let count = block.iter().product::<usize>();
    let fits = entry.threads.is_none_or(|most| count <= most.iter().product());
    if parameters.len() != entry.parameters || !fits || count == 0 || count > 1024 {
        return Err(format!("{} is launched with {} parameters and blocks of {block:?}", entry.name, parameters.len()));
    }
    let sized = |space| entry.variables.iter().map(move |variable| (variable, variable.space == space));
    let memories = |space| -> Vec<Memory> {
        sized(space).map(|(variable, here)| Memory::new(if here { variable.bytes } else { 0 }, &variable.contents)).collect()
    };
    let mut of_module = memories(Space::Module);
    let mut of_threads: Vec<_> = (0..count).map(|_| memories(Space::Thread)).collect();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                let mut of_block = memories(Space::Block);
                let variables = of_threads.iter_mut().map(|own| {
                    let each = entry.variables.iter().enumerate().map(|(index, variable)| match variable.space {
                        Space::Module => of_module[index].start(),
                        Space::Block => of_block[index].start(),
                        Space::Thread => own[index].start(),
                    });
                    each.collect()
                });
                let variables: Vec<Vec<usize>> = variables.collect();
                let around = Around { block: [x, y, z], blocks: grid, threads: block, parameters };
                let threads = (0..count).map(|linear| Thread {
                    registers: vec![0; entry.registers],
                    carry: false,
                    at: 0,
                    id: [linear % block[0], linear / block[0] % block[1], linear / block[0] / block[1]],
                    linear,
                });
                let threads = threads.collect();
                Block { entry, around, threads, states: vec![State::Running; count], variables }.run()?;
            }
        }
    }
    Ok(())
}

impl Block<'_> {
    fn run(&mut self) -> Result<(), String> {
        loop {
            for first in (0..self.threads.len()).step_by(WARP) {
                self.warp(first..(first + WARP).min(self.threads.len()))?;
            }
            if self.states.iter().all(|state| *state == State::Done) {
                return Ok(());
            }
            if self.states.contains(&State::Done) {
                return Err(format!("{}: a thread has left before a barrier that others wait at", self.entry.name));
            }
            self.states.fill(State::Running);
        }
    }

    /// Runs a warp until all of its threads are at a barrier or done.
    fn warp(&mut self, lanes: std::ops::Range<usize>) -> Result<(), String> {
        loop {
            for lane in lanes.clone() {
                self.thread(lane)?;
            }
            let Some(waiting) = lanes.clone().find(|lane| self.states[*lane] == State::Warp) else { return Ok(()) };
            let at = self.threads[waiting].at;
            let together = lanes.clone().all(|lane| self.states[lane] == State::Warp && self.threads[lane].at == at);
            let instruction = &self.entry.code[at];
            if !together {
                return Err(format!("{}: not all threads of a warp reach {}", self.entry.name, instruction.text));
            }
            match instruction.op {
                Op::Shuffle(how) => self.shuffle(lanes.clone(), instruction, how),
                _ => self.multiply(lanes.clone(), instruction)?,
            }
            for lane in lanes.clone() {
                self.threads[lane].at += 1;
                self.states[lane] = State::Running;
            }
        }
    }

    /// Runs a thread until it needs another one.
    fn thread(&mut self, lane: usize) -> Result<(), String> {
        let thread = &mut self.threads[lane];
        while self.states[lane] == State::Running {
            let Some(instruction) = self.entry.code.get(thread.at) else {
                self.states[lane] = State::Done;
                break;
            };
            if instruction.guard.is_some_and(|(register, negated)| (thread.registers[register as usize] != 0) == negated) {
                thread.at += 1;
                continue;
            }
            match instruction.op {
                Op::Shuffle(_) | Op::Product { .. } => self.states[lane] = State::Warp,
                Op::Barrier => {
                    thread.at += 1;
                    self.states[lane] = State::Barrier;
                }
                _ => match step(thread, instruction, &self.around, &self.variables[lane])? {
                    Then::Next => thread.at += 1,
                    Then::Jump(target) => thread.at = target,
                    Then::Done => self.states[lane] = State::Done,
                },
            }
        }
        Ok(())
    }

    fn value(&self, lane: usize, operand: &Operand) -> u64 {
        read(&self.threads[lane], &self.around, &self.variables[lane], operand)
    }

    fn shuffle(&mut self, lanes: std::ops::Range<usize>, instruction: &Instruction, how: Shuffle) {
        let given: Vec<_> = lanes.clone().map(|lane| self.value(lane, &instruction.operands[1])).collect();
        let taken: Vec<_> = lanes
            .clone()
            .map(|lane| {
                let own = lane - lanes.start;
                let distance = self.value(lane, &instruction.operands[2]) as usize & 31;
                let limits = self.value(lane, &instruction.operands[3]) as usize;
                let (clamp, segment) = (limits & 31, limits >> 8 & 31);
                let (least, most) = (own & segment, (own & segment) | (clamp & !segment));
                let (from, there) = match how {
                    Shuffle::Xor => (own ^ distance, own ^ distance <= most),
                    Shuffle::Down => (own + distance, own + distance <= most),
                    // For this mode the limit is the lowest lane.
                    Shuffle::Up => (own.wrapping_sub(distance), own >= distance && own - distance >= most),
                    Shuffle::Index => (least | (distance & !segment), (least | (distance & !segment)) <= most),
                };
                if there { given.get(from).copied().unwrap_or(given[own]) } else { given[own] }
            })
            .collect();
        for (lane, value) in lanes.zip(taken) {
            write(&mut self.threads[lane], &instruction.operands[0], value);
        }
    }

    /// `mma.sync.m16n8kN.row.col` as the PTX manual defines it: which lane holds which elements of the matrices.
    fn multiply(&mut self, lanes: std::ops::Range<usize>, instruction: &Instruction) -> Result<(), String> {
        let Op::Product { depth } = instruction.op else { return Err(format!("not an instruction of a warp: {}", instruction.text)) };
        let parts = |index: usize| match &instruction.operands[index] {
            Operand::Several(parts) => Ok(parts),
            _ => Err(format!("not registers: {}", instruction.text)),
        };
        let (results, left, right, sums) = (parts(0)?, parts(1)?, parts(2)?, parts(3)?);
        if lanes.len() != WARP {
            return Err("a product of less than a warp".to_owned());
        }
        // A register holds one element of four bytes, or two of two.
        let each = 4 / instruction.ty.bytes();
        let element = |word: u64, second: usize| match instruction.ty {
            Ty::Bits(_) => f64::from(f32::from_bits(word as u32 & !0x1FFF)),
            ty => float(ty, word >> (16 * second) & 0xFFFF),
        };
        let half = depth / 2;
        let word = |lane: usize, register: &Operand| self.value(lanes.start + lane, register);
        let row_of = |r: usize, d: usize| element(word(r % 8 * 4 + d % half / each, &left[r / 8 + d / half * 2]), d % each);
        let column_of = |d: usize, c: usize| element(word(c * 4 + d % half / each, &right[d / half]), d % each);
        let rows: Vec<Vec<f64>> = (0..16).map(|r| (0..depth).map(|d| row_of(r, d)).collect()).collect();
        let columns: Vec<Vec<f64>> = (0..8).map(|c| (0..depth).map(|d| column_of(d, c)).collect()).collect();
        let mut made = Vec::with_capacity(WARP);
        for lane in 0..WARP {
            for (i, sum) in sums.iter().enumerate() {
                let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                let product: f64 = rows[row].iter().zip(&columns[column]).map(|(a, b)| a * b).sum();
                made.push(f32::from_bits(word(lane, sum) as u32) + product as f32);
            }
        }
        for (lane, values) in lanes.zip(made.chunks(4)) {
            for (register, value) in results.iter().zip(values) {
                write(&mut self.threads[lane], register, value.to_bits().into());
            }
        }
        Ok(())
    }
}
