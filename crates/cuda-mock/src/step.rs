//! Executes one instruction on one thread.
#![expect(clippy::float_cmp, reason = "what is compared is compared as the hardware does it")]
#![expect(clippy::cast_precision_loss, reason = "conversions round, as the hardware's do")]

use crate::{
    code::{Binary, Compare, Instruction, Op, Operand, Round, Special, Ty, Unary},
    number::{bits, float, flushed, single, whole},
};

/// A thread: its registers and its position.
pub struct Thread {
    /// The registers, by number; a predicate is zero or nonzero.
    pub registers: Vec<u64>,
    /// The carry of the latest sum with carry out.
    pub carry: bool,
    /// The index of the next instruction.
    pub at: usize,
    /// Its index in the block.
    pub id: [usize; 3],
    /// Its number among all threads of the block.
    pub linear: usize,
}

/// The values that are the same for all threads of a block.
pub struct Around<'a> {
    /// The index of the block.
    pub block: [usize; 3],
    /// The number of blocks.
    pub blocks: [usize; 3],
    /// The number of threads in the block.
    pub threads: [usize; 3],
    /// The launch's parameters.
    pub parameters: &'a [u64],
}

/// The continuation after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next instruction.
    Next,
    /// The instruction with this index.
    Jump(usize),
    /// The end of the thread.
    Done,
}

/// Executes an instruction that does not need other threads; `variables` are the addresses of variables as this thread sees them.
pub fn step(thread: &mut Thread, instruction: &Instruction, around: &Around<'_>, variables: &[usize]) -> Result<Then, String> {
    let operands = &instruction.operands;
    let ty = instruction.ty;
    let value = |thread: &Thread, index: usize| read(thread, around, variables, &operands[index]);
    match instruction.op {
        Op::Branch => {
            return match operands[0] {
                Operand::Label(target) => Ok(Then::Jump(target)),
                _ => Err(format!("a branch to nowhere: {}", instruction.text)),
            };
        }
        Op::Return => return Ok(Then::Done),
        Op::Load => load(thread, instruction, around, variables)?,
        Op::Store => store(thread, instruction, around, variables)?,
        Op::Move => move_bits(thread, instruction, around, variables),
        Op::Binary(binary) => {
            let result = two(binary, instruction, value(thread, 1), value(thread, 2));
            write(thread, &operands[0], result);
        }
        Op::Unary(unary) => {
            let result = one(unary, instruction, value(thread, 1));
            write(thread, &operands[0], result);
        }
        Op::MulAdd { part: Binary::MulWide, .. } => {
            let sum = two(Binary::MulWide, instruction, value(thread, 1), value(thread, 2)).wrapping_add(value(thread, 3));
            write(thread, &operands[0], sum);
        }
        Op::MulAdd { part, carry_in, carry_out } => {
            let product = two(part, instruction, value(thread, 1), value(thread, 2));
            let third = value(thread, 3);
            let sum = carried(thread, ty, (product, third), carry_in, carry_out);
            write(thread, &operands[0], sum);
        }
        Op::AddCarry { carry_in, carry_out } => {
            let both = (value(thread, 1), value(thread, 2));
            let sum = carried(thread, ty, both, carry_in, carry_out);
            write(thread, &operands[0], sum);
        }
        Op::Fma => {
            let [a, b, c] = [1, 2, 3].map(|index| float(ty, value(thread, index)));
            let result = match ty {
                Ty::F64 => a.mul_add(b, c).to_bits(),
                // Computed in single precision: in double, the product of two singles is exact but the sum would be rounded twice, which
                // matters only at halfway points.
                Ty::F32 if instruction.round == Round::Nearest => (a as f32).mul_add(b as f32, c as f32).to_bits().into(),
                _ => bits(ty, a.mul_add(b, c), instruction.round),
            };
            let result = if instruction.flush { flushed(f32::from_bits(result as u32)).to_bits().into() } else { result };
            write(thread, &operands[0], result);
        }
        Op::Compare { how, or_nan } => {
            let result = compare(ty, how, or_nan, value(thread, 1), value(thread, 2));
            write(thread, &operands[0], result.into());
        }
        Op::Select => {
            let chosen = if value(thread, 3) != 0 { value(thread, 1) } else { value(thread, 2) };
            write(thread, &operands[0], chosen);
        }
        Op::Convert { from, whole, saturate } => {
            let result = if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
                let element = if ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 };
                let [high, low] = [1, 2].map(|index| bits(element, float(from, value(thread, index)), instruction.round));
                high << 16 | low
            } else {
                convert(instruction, from, (whole, saturate), value(thread, 1))
            };
            write(thread, &operands[0], result);
        }
        Op::Permute => {
            let bytes = value(thread, 1) & 0xFFFF_FFFF | value(thread, 2) << 32;
            let selector = value(thread, 3);
            let result = (0..4).fold(0, |result, i| {
                let chosen = selector >> (4 * i) & 15;
                let byte = bytes >> (8 * (chosen & 7)) & 0xFF;
                let byte = if chosen & 8 == 0 { byte } else { u64::from(byte & 0x80 != 0) * 0xFF };
                result | byte << (8 * i)
            });
            write(thread, &operands[0], result);
        }
        Op::Funnel { left, clamp } => {
            let both = (value(thread, 1) & 0xFFFF_FFFF) | value(thread, 2) << 32;
            let count = value(thread, 3) & 0xFFFF_FFFF;
            let count = if clamp { count.min(32) } else { count & 31 };
            let result = if left { both.wrapping_shl(count as u32) >> 32 } else { both >> count };
            write(thread, &operands[0], result & 0xFFFF_FFFF);
        }
        Op::Extract => {
            let (from, start, length) = (value(thread, 1), value(thread, 2) & 0xFF, value(thread, 3) & 0xFF);
            let width = 8 * ty.bytes() as u64;
            let shifted = if start >= width { 0 } else { masked(ty, from) >> start };
            let length = length.min(width.saturating_sub(start)).min(width);
            let field = if length >= 64 { shifted } else { shifted & ((1 << length) - 1) };
            let negative = matches!(ty, Ty::Signed(_)) && length > 0 && field >> (length - 1) & 1 == 1;
            write(thread, &operands[0], masked(ty, if negative && length < 64 { field | u64::MAX << length } else { field }));
        }
        Op::Insert => {
            let (field, into, start, length) = (value(thread, 1), value(thread, 2), value(thread, 3) & 0xFF, value(thread, 4) & 0xFF);
            let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
            let result = if start >= 64 { into } else { into & !(mask << start) | (field & mask) << start };
            write(thread, &operands[0], masked(ty, result));
        }
        Op::Barrier | Op::Shuffle(_) | Op::Product { .. } => return Err("an instruction of several threads".to_owned()),
    }
    Ok(Then::Next)
}

/// The value of an operand.
pub fn read(thread: &Thread, around: &Around<'_>, variables: &[usize], operand: &Operand) -> u64 {
    match *operand {
        Operand::Register(index) => thread.registers[index as usize],
        Operand::Number(number) => number,
        Operand::Variable(index) => variables[index] as u64,
        Operand::Parameter(index) => around.parameters[index],
        Operand::Special(special) => match special {
            Special::Thread(axis) => thread.id[axis] as u64,
            Special::Threads(axis) => around.threads[axis] as u64,
            Special::Block(axis) => around.block[axis] as u64,
            Special::Blocks(axis) => around.blocks[axis] as u64,
            Special::Lane => thread.linear as u64 % 32,
        },
        Operand::Several(_) | Operand::At(..) | Operand::Label(_) | Operand::Nothing => 0,
    }
}

/// A sum that takes the thread's carry as input and sets it.
fn carried(thread: &mut Thread, ty: Ty, (left, right): (u64, u64), carry_in: bool, carry_out: bool) -> u64 {
    let sum = u128::from(masked(ty, left)) + u128::from(masked(ty, right)) + u128::from(carry_in && thread.carry);
    if carry_out {
        thread.carry = sum >> (8 * ty.bytes()) != 0;
    }
    masked(ty, sum as u64)
}

/// Writes a value to a register.
pub fn write(thread: &mut Thread, operand: &Operand, value: u64) {
    if let Operand::Register(index) = *operand {
        thread.registers[index as usize] = value;
    }
}

/// Keeps only the bits that a type has.
fn masked(ty: Ty, value: u64) -> u64 {
    match ty.bytes() {
        8 => value,
        bytes => value & ((1 << (8 * bytes)) - 1),
    }
}

/// Sign-extends a value of a type.
fn signed(ty: Ty, value: u64) -> i64 {
    let unused = 64 - 8 * ty.bytes();
    ((value << unused) as i64) >> unused
}

/// The address of an operand in brackets, and the parts of the other operand.
fn place<'a>(
    thread: &Thread,
    instruction: &'a Instruction,
    around: &Around<'_>,
    variables: &[usize],
    (address, parts): (usize, usize),
) -> Result<(usize, &'a [Operand]), String> {
    let Operand::At(base, distance) = &instruction.operands[address] else { return Err(format!("no address: {}", instruction.text)) };
    let start = read(thread, around, variables, base).wrapping_add(*distance as u64) as usize;
    let parts = match &instruction.operands[parts] {
        Operand::Several(parts) => &parts[..],
        single => std::slice::from_ref(single),
    };
    let bytes = instruction.ty.bytes() * parts.len();
    if start.is_multiple_of(bytes) && start != 0 {
        Ok((start, parts))
    } else {
        Err(format!("{bytes} bytes at {start:#x}: {}", instruction.text))
    }
}

fn load(thread: &mut Thread, instruction: &Instruction, around: &Around<'_>, variables: &[usize]) -> Result<(), String> {
    // A parameter is not in memory here.
    if let Operand::At(base, 0) = &instruction.operands[1]
        && let Operand::Parameter(index) = **base
    {
        write(thread, &instruction.operands[0], around.parameters[index]);
        return Ok(());
    }
    let (start, parts) = place(thread, instruction, around, variables, (1, 0))?;
    let bytes = instruction.ty.bytes();
    for (index, part) in parts.iter().enumerate() {
        let mut word = [0; 8];
        // SAFETY: the caller of a launch promises that a kernel reads valid memory, as for a real driver.
        unsafe { std::ptr::copy_nonoverlapping((start + index * bytes) as *const u8, word.as_mut_ptr(), bytes) };
        let value = u64::from_le_bytes(word);
        write(thread, part, if matches!(instruction.ty, Ty::Signed(_)) { signed(instruction.ty, value) as u64 } else { value });
    }
    Ok(())
}

fn store(thread: &mut Thread, instruction: &Instruction, around: &Around<'_>, variables: &[usize]) -> Result<(), String> {
    let (start, parts) = place(thread, instruction, around, variables, (0, 1))?;
    let bytes = instruction.ty.bytes();
    for (index, part) in parts.iter().enumerate() {
        let word = read(thread, around, variables, part).to_le_bytes();
        // SAFETY: as for loads, for the memory that a kernel writes.
        unsafe { std::ptr::copy_nonoverlapping(word.as_ptr(), (start + index * bytes) as *mut u8, bytes) };
    }
    Ok(())
}

/// Moves values, and unpacks or packs registers.
fn move_bits(thread: &mut Thread, instruction: &Instruction, around: &Around<'_>, variables: &[usize]) {
    let [to, from] = &instruction.operands[..] else { return };
    let width = |parts: &[Operand]| 8 * instruction.ty.bytes() / parts.len();
    let mask = |width: usize| (1_u64 << width) - 1;
    match (to, from) {
        (Operand::Several(parts), from) => {
            let value = read(thread, around, variables, from);
            let width = width(parts);
            for (index, part) in parts.iter().enumerate() {
                write(thread, part, value >> (index * width) & mask(width));
            }
        }
        (to, Operand::Several(parts)) => {
            let width = width(parts);
            let each =
                parts.iter().enumerate().map(|(index, part)| (read(thread, around, variables, part) & mask(width)) << (index * width));
            let value = each.fold(0, |all, part| all | part);
            write(thread, to, value);
        }
        (to, from) => {
            let value = read(thread, around, variables, from);
            write(thread, to, value);
        }
    }
}

fn two(binary: Binary, instruction: &Instruction, left: u64, right: u64) -> u64 {
    let ty = instruction.ty;
    if ty.is_float() && !matches!(binary, Binary::And | Binary::Or | Binary::Xor) {
        return real(binary, instruction, left, right);
    }
    let (a, b) = (masked(ty, left), masked(ty, right));
    let (i, j) = (signed(ty, left), signed(ty, right));
    let is_signed = matches!(ty, Ty::Signed(_));
    let width = 8 * ty.bytes() as u64;
    let result = match binary {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::MulWide if is_signed => return i.wrapping_mul(j) as u64,
        Binary::MulWide => return a.wrapping_mul(b),
        Binary::MulHigh if is_signed => ((i128::from(i) * i128::from(j)) >> width) as u64,
        Binary::MulHigh => ((u128::from(a) * u128::from(b)) >> width) as u64,
        // The hardware's result of a division by zero is unspecified.
        Binary::Div if is_signed => i.checked_div(j).unwrap_or(-1) as u64,
        Binary::Div => a.checked_div(b).unwrap_or(u64::MAX),
        Binary::Rem if is_signed => i.checked_rem(j).unwrap_or(i) as u64,
        Binary::Rem => a.checked_rem(b).unwrap_or(a),
        Binary::Min | Binary::MinNan if is_signed => i.min(j) as u64,
        Binary::Min | Binary::MinNan => a.min(b),
        Binary::Max | Binary::MaxNan if is_signed => i.max(j) as u64,
        Binary::Max | Binary::MaxNan => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        // A shift count has 32 bits; one that is too large shifts everything out.
        Binary::ShiftLeft => match right & 0xFFFF_FFFF {
            count if count >= width => 0,
            count => a << count,
        },
        Binary::ShiftRight => match (right & 0xFFFF_FFFF, is_signed) {
            (count, true) => (i >> count.min(width - 1)) as u64,
            (count, false) if count >= width => 0,
            (count, false) => a >> count,
        },
        Binary::CopySign => a,
    };
    masked(ty, result)
}

fn real(binary: Binary, instruction: &Instruction, left: u64, right: u64) -> u64 {
    let (ty, round) = (instruction.ty, instruction.round);
    let read = |word| {
        let value = float(ty, word);
        if instruction.flush { f64::from(flushed(value as f32)) } else { value }
    };
    let (a, b) = (read(left), read(right));
    let single_result = |f: fn(f32, f32) -> f32, exact: f64| {
        if ty == Ty::F32 && round == Round::Nearest { f64::from(f(a as f32, b as f32)) } else { exact }
    };
    let lesser = |a: f64, b: f64| if a < b || (a == b && a.is_sign_negative()) { a } else { b };
    let greater = |a: f64, b: f64| if a > b || (a == b && a.is_sign_positive()) { a } else { b };
    let result = match binary {
        Binary::Add => single_result(|a, b| a + b, a + b),
        Binary::Sub => single_result(|a, b| a - b, a - b),
        Binary::Mul => single_result(|a, b| a * b, a * b),
        Binary::Div => single_result(|a, b| a / b, a / b),
        Binary::MinNan | Binary::MaxNan if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Min | Binary::Max if a.is_nan() => b,
        Binary::Min | Binary::Max if b.is_nan() => a,
        Binary::Min | Binary::MinNan => lesser(a, b),
        Binary::Max | Binary::MaxNan => greater(a, b),
        // The sign is taken from the first operand.
        Binary::CopySign => b.copysign(a),
        _ => f64::NAN,
    };
    let result = bits(ty, result, round);
    if instruction.flush { flushed(f32::from_bits(result as u32)).to_bits().into() } else { result }
}

fn one(unary: Unary, instruction: &Instruction, value: u64) -> u64 {
    let ty = instruction.ty;
    let width = 8 * ty.bytes() as u32;
    let sign = 1_u64 << (width - 1);
    match unary {
        Unary::Neg if ty.is_float() => return masked(ty, value) ^ sign,
        Unary::Abs if ty.is_float() => return masked(ty, value) & !sign,
        Unary::Neg => return masked(ty, value.wrapping_neg()),
        Unary::Abs => return masked(ty, signed(ty, value).unsigned_abs()),
        Unary::Not if ty == Ty::Pred => return u64::from(value == 0),
        Unary::Not => return masked(ty, !value),
        Unary::CountOnes => return masked(ty, value).count_ones().into(),
        Unary::LeadingZeros => return u64::from(masked(ty, value).leading_zeros() - (64 - width)),
        Unary::Reverse => return masked(ty, value).reverse_bits() >> (64 - width),
        _ => {}
    }
    let x = float(ty, value);
    let x = if instruction.flush { f64::from(flushed(x as f32)) } else { x };
    let result = match unary {
        Unary::Sqrt => x.sqrt(),
        Unary::Reciprocal => 1.0 / x,
        Unary::ReciprocalSqrt => 1.0 / x.sqrt(),
        Unary::Exp2 => x.exp2(),
        Unary::Log2 => x.log2(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        _ => x.tanh(),
    };
    let result = bits(ty, result, instruction.round);
    if instruction.flush { flushed(f32::from_bits(result as u32)).to_bits().into() } else { result }
}

fn compare(ty: Ty, how: Compare, or_nan: bool, left: u64, right: u64) -> bool {
    let order = if ty.is_float() {
        float(ty, left).partial_cmp(&float(ty, right))
    } else if matches!(ty, Ty::Signed(_)) {
        Some(signed(ty, left).cmp(&signed(ty, right)))
    } else {
        Some(masked(ty, left).cmp(&masked(ty, right)))
    };
    let Some(order) = order else { return or_nan || how == Compare::Unordered };
    match how {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
        Compare::Ordered => true,
        Compare::Unordered => false,
    }
}

fn convert(instruction: &Instruction, from: Ty, (to_whole, saturate): (bool, bool), value: u64) -> u64 {
    let (to, round) = (instruction.ty, instruction.round);
    if !from.is_float() && !to.is_float() {
        let wide = if matches!(from, Ty::Signed(_)) { signed(from, value) as u64 } else { masked(from, value) };
        // A register may be wider than the type; it is extended according to the type.
        return if matches!(to, Ty::Signed(_)) { signed(to, wide) as u64 } else { masked(to, wide) };
    }
    if !from.is_float() {
        let exact = if matches!(from, Ty::Signed(_)) { i128::from(signed(from, value)) } else { i128::from(masked(from, value)) };
        return match to {
            Ty::F64 => (exact as f64).to_bits(),
            Ty::F32 if round == Round::Nearest => (exact as f32).to_bits().into(),
            _ => bits(to, exact as f64, round),
        };
    }
    let real = float(from, value);
    let real = if instruction.flush { f64::from(flushed(real as f32)) } else { real };
    let real = if to_whole { whole(real, round) } else { real };
    match to {
        // Values out of range saturate, and a NaN becomes zero.
        Ty::Signed(1) => (real as i8) as u64,
        Ty::Signed(2) => (real as i16) as u64,
        Ty::Signed(4) => u64::from((real as i32) as u32),
        Ty::Signed(_) => (real as i64) as u64,
        Ty::Unsigned(1) => (real as u8).into(),
        Ty::Unsigned(2) => (real as u16).into(),
        Ty::Unsigned(4) => (real as u32).into(),
        Ty::Unsigned(_) => real as u64,
        _ if saturate => bits(to, if real.is_nan() { 0.0 } else { real.clamp(0.0, 1.0) }, round),
        Ty::F32 if !to_whole => single(real, round).to_bits().into(),
        _ => bits(to, real, if to_whole { Round::Nearest } else { round }),
    }
}
