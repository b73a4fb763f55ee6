//! Liveness of locals: the variables that a function resumed at an instruction must be given.

use crate::{Code, EdgeKind, Flow, Instruction, Opcode, Operand};

/// The slots that are live before each instruction: locals, cells and free variables by their index in the frame.
///
/// A slot is live if some path reads it, deletes it or makes it a cell before anything writes it. Writing to a cell keeps the cell itself
/// live: `STORE_DEREF` needs it too. `locals()` and other accesses to the frame from outside are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    before: Vec<Slots>,
}

/// A set of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slots(Vec<u64>);

impl Slots {
    fn insert(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    fn contains(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Adds all of `other`.
    fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }
}

/// Returns the slots that an instruction reads and those that it writes. It reads before it writes.
pub(crate) fn uses(code: &Code, instruction: &Instruction) -> (Vec<u32>, Vec<u32>) {
    use Opcode as Op;
    let arg = instruction.arg;
    match instruction.opcode {
        Op::LoadFastLoadFast | Op::LoadFastBorrowLoadFastBorrow => (vec![arg >> 4, arg & 15], vec![]),
        Op::StoreFastStoreFast => (vec![], vec![arg >> 4, arg & 15]),
        // This one stores first: a load of the same slot reads the stored value.
        Op::StoreFastLoadFast if arg >> 4 == arg & 15 => (vec![], vec![arg >> 4]),
        Op::StoreFastLoadFast => (vec![arg & 15], vec![arg >> 4]),
        Op::StoreFast => (vec![], vec![arg]),
        Op::DeleteFast | Op::LoadFastAndClear | Op::MakeCell => (vec![arg], vec![arg]),
        opcode => match opcode.operand(code.version) {
            Some(Operand::Local | Operand::Free) => (vec![arg], vec![]),
            _ => (vec![], vec![]),
        },
    }
}

impl Liveness {
    /// Computes the liveness of all slots at all instructions.
    pub fn of(code: &Code, flow: &Flow) -> Self {
        let mut before = vec![Slots::default(); code.instructions.len()];
        let order = flow.reverse_postorder();
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().rev() {
                let mut live = Slots::default();
                let mut at_handler = Slots::default();
                for edge in &flow.blocks[block].successors {
                    let into = if edge.kind == EdgeKind::Exception { &mut at_handler } else { &mut live };
                    into.extend(&before[flow.blocks[edge.to].first]);
                }
                for at in (flow.blocks[block].first..flow.blocks[block].end).rev() {
                    let (reads, writes) = uses(code, &code.instructions[at]);
                    for slot in writes {
                        live.remove(slot);
                    }
                    for slot in reads {
                        live.insert(slot);
                    }
                    // It may raise before it writes.
                    live.extend(&at_handler);
                    if before[at] != live {
                        before[at].clone_from(&live);
                        changed = true;
                    }
                }
            }
        }
        Self { before }
    }

    /// Returns true if a slot is live before the instruction with this index.
    pub fn is_live(&self, instruction: usize, slot: u32) -> bool {
        self.before.get(instruction).is_some_and(|live| live.contains(slot))
    }

    /// Returns the slots that are live before an instruction, ascending.
    pub fn live(&self, instruction: usize) -> Vec<u32> {
        let count = self.before.get(instruction).map_or(0, |live| live.0.len() as u32 * 64);
        (0..count).filter(|&slot| self.is_live(instruction, slot)).collect()
    }
}
