//! `mma.sync.m16n8k16` and `m16n8k8` as the PTX manual defines them: which lane holds which elements of the matrices.

use std::sync::atomic::Ordering::SeqCst;

use super::exchange;

/// Gives every matrix intrinsic a body that stores its registers to memory and calls [`multiply`], so as not to depend on how the host
/// passes vectors of halves and returns four floats.
pub fn define(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let name = line.strip_prefix("declare ").and_then(|line| line.split_once("@emulated.mma.")).map(|(_, name)| name);
        match name {
            Some(name) if name.starts_with("m16n8k16.row.col.f32.f32(") => out += &definition("m16n8k16.row.col.f32.f32", "<2 x half>", 0),
            Some(name) if name.starts_with("m16n8k16.row.col.bf16(") => out += &definition("m16n8k16.row.col.bf16", "i32", 1),
            Some(name) if name.starts_with("m16n8k8.row.col.tf32(") => out += &definition("m16n8k8.row.col.tf32", "i32", 2),
            Some(name) => panic!("no emulation of mma.{name}"),
            None => out += line,
        }
        out.push('\n');
    }
    if out.contains("@emulated.mma(") { out + "declare void @emulated.mma(ptr, i32)\n" } else { out }
}

fn definition(name: &str, operand: &str, kind: i32) -> String {
    let types: Vec<_> = (0..10).map(|i| if i < 6 { operand } else { "float" }).collect();
    let parameters: Vec<_> = types.iter().enumerate().map(|(i, ty)| format!("{ty} %r{i}")).collect();
    let stores: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| format!("  %p{i} = getelementptr i32, ptr %all, i32 {i}\n  store {ty} %r{i}, ptr %p{i}, align 4\n"))
        .collect();
    let mut results = String::new();
    for i in 0..4 {
        let before = if i == 0 { "poison".into() } else { format!("%s{}", i - 1) };
        results += &format!("  %d{i} = load float, ptr %p{}\n", 6 + i);
        results += &format!("  %s{i} = insertvalue {{ float, float, float, float }} {before}, float %d{i}, {i}\n");
    }
    format!(
        "define {{ float, float, float, float }} @emulated.mma.{name}({}) {{\n  %all = alloca [10 x i32]\n{}  \
         call void @emulated.mma(ptr %all, i32 {kind})\n{results}  ret {{ float, float, float, float }} %s3\n}}\n",
        parameters.join(", "),
        stores.concat()
    )
}

/// One element of a register, which holds two of 16 bits.
fn element(word: u32, second: usize, kind: i32) -> f64 {
    if kind == 2 {
        assert_eq!(word & 0x1FFF, 0, "an operand that is not rounded to tf32");
        return f32::from_bits(word).into();
    }
    let bits = (word >> (16 * second)) as u16;
    if kind == 0 { crate::half(bits) } else { f32::from_bits(u32::from(bits) << 16).into() }
}

/// Rounds to ten bits of fraction, ties away from zero.
pub extern "C" fn round(value: f32) -> u32 {
    value.to_bits().wrapping_add(0x1000) & !0x1FFF
}

/// Replaces a lane's four sums, which follow its four registers of the left and two of the right operand, by its part of the result.
pub extern "C" fn multiply(registers: *mut u32, kind: i32) {
    // SAFETY: `define` passes ten registers of this thread's own stack.
    let registers = unsafe { std::slice::from_raw_parts_mut(registers, 10) };
    let mine = registers.to_vec();
    let sums = exchange(&mine, |words, lane| {
        let word = |lane: usize, register: usize| words[lane][register].load(SeqCst);
        // Row r and depth d of the left operand; the rows of register i begin at 8 * (i % 2), its depths at half * (i / 2).
        // A register holds one or two elements.
        let (depths, half, each) = if kind == 2 { (8, 4, 1) } else { (16, 8, 2) };
        let left = |r: usize, d: usize| element(word(r % 8 * 4 + d % half / each, r / 8 + d / half * 2), d % each, kind);
        // Depth d and column c of the right operand.
        let right = |d: usize, c: usize| element(word(c * 4 + d % half / each, 4 + d / half), d % each, kind);
        (0..4)
            .map(|i| {
                let (row, column) = (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
                let product: f64 = (0..depths).map(|depth| left(row, depth) * right(depth, column)).sum();
                f32::from_bits(word(lane, 6 + i)) + product as f32
            })
            .collect::<Vec<_>>()
    });
    for (register, sum) in registers[6..].iter_mut().zip(sums) {
        *register = sum.to_bits();
    }
}
