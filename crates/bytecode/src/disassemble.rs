//! Disassembly as text, in the layout of CPython 3.12's `dis` for code of all versions.

use std::fmt::Write;

use crate::{Code, CodeObject, Const, DecodeError, Instruction, Opcode, Operand, Position, Version, repr::repr};

/// The symbols of `COMPARE_OP`.
pub const COMPARISONS: [&str; 6] = ["<", "<=", "==", "!=", ">", ">="];

/// The symbols of `BINARY_OP`. The in-place forms (with `=` appended) follow in the same order.
pub const OPERATORS: [&str; 13] = ["+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"];

/// The argument of the `BINARY_OP` that subscripts (from 3.14 on): it follows the in-place forms.
pub const SUBSCRIPT: usize = 2 * OPERATORS.len();

/// The methods that `LOAD_SPECIAL` looks up (from 3.14 on).
pub const SPECIAL_METHODS: [&str; 4] = ["__enter__", "__exit__", "__aenter__", "__aexit__"];

const CONVERSIONS: [&str; 4] = ["", "str", "repr", "ascii"];

const FUNCTION_ATTRIBUTES: [&str; 5] = ["defaults", "kwdefaults", "annotations", "closure", "annotate"];

const INTRINSICS_1: [&str; 12] = [
    "INTRINSIC_1_INVALID",
    "INTRINSIC_PRINT",
    "INTRINSIC_IMPORT_STAR",
    "INTRINSIC_STOPITERATION_ERROR",
    "INTRINSIC_ASYNC_GEN_WRAP",
    "INTRINSIC_UNARY_POSITIVE",
    "INTRINSIC_LIST_TO_TUPLE",
    "INTRINSIC_TYPEVAR",
    "INTRINSIC_PARAMSPEC",
    "INTRINSIC_TYPEVARTUPLE",
    "INTRINSIC_SUBSCRIPT_GENERIC",
    "INTRINSIC_TYPEALIAS",
];

const INTRINSICS_2: [&str; 6] = [
    "INTRINSIC_2_INVALID",
    "INTRINSIC_PREP_RERAISE_STAR",
    "INTRINSIC_TYPEVAR_WITH_BOUND",
    "INTRINSIC_TYPEVAR_WITH_CONSTRAINTS",
    "INTRINSIC_SET_FUNCTION_TYPE_PARAMS",
    "INTRINSIC_SET_TYPEPARAM_DEFAULT",
];

/// Returns the disassembly of a code object, followed by those of the code objects among its constants.
pub fn disassemble(object: &CodeObject) -> Result<String, DecodeError> {
    let mut out = String::new();
    disassemble_into(object, &mut out)?;
    Ok(out)
}

fn disassemble_into(object: &CodeObject, out: &mut String) -> Result<(), DecodeError> {
    one(object, out)?;
    for value in &object.consts {
        if let Const::Code(nested) = value {
            let _ = writeln!(out, "\nDisassembly of {}:", repr(value));
            disassemble_into(nested, out)?;
        }
    }
    Ok(())
}

/// Writes the listing of one code object, without nested ones.
fn one(object: &CodeObject, out: &mut String) -> Result<(), DecodeError> {
    let code = object.decode()?;
    let positions = object.positions()?;
    let slots = object.slots();
    let mut labels = vec![false; code.index.len() + 1];
    for instruction in &code.instructions {
        labels[instruction.target.unwrap_or(code.index.len() as u32) as usize] = true;
    }
    code.handlers.iter().for_each(|region| labels[region.handler.target as usize] = true);
    let last_line = positions.0.iter().filter_map(|position| position.line).max();
    let line_width = last_line.map(|line| line.to_string().len()).map_or(0, |width| if width > 3 { width } else { 3 });
    let last_offset = (2 * code.index.len()).saturating_sub(2);
    let offset_width = if last_offset >= 10_000 { last_offset.to_string().len() } else { 4 };

    let mut shown = None;
    for instruction in &code.instructions {
        for unit in instruction.start..=instruction.unit {
            let Position { line, .. } = positions.at(unit);
            let starts = line.filter(|_| line != shown);
            shown = line.or(shown);
            if starts.is_some() && unit > 0 {
                out.push('\n');
            }
            if line_width > 0 {
                let _ = write!(out, "{:>line_width$} ", starts.map_or(String::new(), |line| line.to_string()));
            }
            let mark = if labels[unit as usize] { ">>" } else { "  " };
            let _ = write!(out, "    {mark} {:>offset_width$} ", 2 * unit);
            if unit < instruction.unit {
                // The argument accumulated by the prefixes up to this one.
                let _ = writeln!(out, "{:<20} {:>5}", Opcode::ExtendedArg, instruction.arg >> (8 * (instruction.unit - unit)));
            } else if instruction.opcode.operand(code.version) == Some(Operand::Nothing) {
                let _ = writeln!(out, "{}", instruction.opcode);
            } else {
                let meaning = meaning(object, &slots, &code, instruction);
                let meaning = if meaning.is_empty() { meaning } else { format!(" ({meaning})") };
                let _ = writeln!(out, "{:<20} {:>5}{meaning}", instruction.opcode, instruction.arg);
            }
        }
    }
    if !code.handlers.is_empty() {
        out.push_str("ExceptionTable:\n");
        for region in &code.handlers {
            let lasti = if region.handler.lasti { " lasti" } else { "" };
            let (start, end, target) = (2 * region.start, (2 * region.end).saturating_sub(2), 2 * region.handler.target);
            let _ = writeln!(out, "  {start} to {end} -> {target} [{}]{lasti}", region.handler.depth);
        }
    }
    Ok(())
}

/// Returns the text that `dis` shows in parentheses after an argument.
pub(crate) fn meaning(object: &CodeObject, slots: &[&str], code: &Code, instruction: &Instruction) -> String {
    let arg = instruction.arg as usize;
    let slot = |at: usize| slots.get(at).copied().unwrap_or("?").to_owned();
    let look_up = |table: &[&str], at: usize| (*table.get(at).unwrap_or(&"?")).to_owned();
    match instruction.opcode.operand(code.version) {
        Some(Operand::Const) => object.consts.get(arg).map_or("?".to_owned(), repr),
        Some(Operand::Name) => named(object, code.version, instruction),
        Some(Operand::Local) if is_pair(instruction.opcode) => format!("{}, {}", slot(arg >> 4), slot(arg & 15)),
        Some(Operand::Local | Operand::Free) => slot(arg),
        Some(Operand::Compare) => {
            let symbol = look_up(&COMPARISONS, comparison(code.version, instruction.arg));
            if wants_bool(code.version, instruction.arg) { format!("bool({symbol})") } else { symbol }
        }
        Some(Operand::Forward | Operand::Backward) => instruction.target.map_or(String::new(), |unit| format!("to {}", 2 * unit)),
        _ => match instruction.opcode {
            Opcode::BinaryOp if arg < OPERATORS.len() => OPERATORS[arg].to_owned(),
            Opcode::BinaryOp if arg == SUBSCRIPT => "[]".to_owned(),
            Opcode::BinaryOp => look_up(&OPERATORS, arg - OPERATORS.len()) + "=",
            Opcode::FormatValue => {
                let conversion = CONVERSIONS[arg & 3];
                let comma = if conversion.is_empty() { "" } else { ", " };
                if arg & 4 == 4 { format!("{conversion}{comma}with format") } else { conversion.to_owned() }
            }
            Opcode::ConvertValue => look_up(&CONVERSIONS, arg),
            Opcode::LoadCommonConstant => look_up(code.version.facts().common_constants, arg),
            Opcode::LoadSpecial => look_up(&SPECIAL_METHODS, arg),
            Opcode::MakeFunction | Opcode::SetFunctionAttribute => {
                let set = FUNCTION_ATTRIBUTES.iter().enumerate().filter(|(bit, _)| arg >> bit & 1 == 1);
                set.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
            }
            Opcode::CallIntrinsic1 => look_up(&INTRINSICS_1, arg),
            Opcode::CallIntrinsic2 => look_up(&INTRINSICS_2, arg),
            _ => String::new(),
        },
    }
}

/// Returns the name that an argument refers to, with the text for the flag below it.
fn named(object: &CodeObject, version: Version, instruction: &Instruction) -> String {
    let name = object.names.get(name_index(version, instruction)).map_or("?", String::as_str);
    let more = match instruction.opcode {
        Opcode::ImportName if version.facts().import_has_flags => {
            return match instruction.arg & 3 {
                1 => format!("{name} + lazy"),
                2 => format!("{name} + eager"),
                _ => name.to_owned(),
            };
        }
        _ if instruction.arg & 1 == 0 => return name.to_owned(),
        Opcode::LoadGlobal => "NULL",
        Opcode::LoadAttr if version.facts().attribute_has_method_flag => "NULL|self",
        Opcode::LoadSuperAttr => "NULL|self",
        _ => return name.to_owned(),
    };
    if version.facts().null_above_callable { format!("{name} + {more}") } else { format!("{more} + {name}") }
}

/// Returns the index into `co_names` of an instruction that has a name.
pub fn name_index(version: Version, instruction: &Instruction) -> usize {
    let shift = match instruction.opcode {
        Opcode::LoadGlobal => 1,
        Opcode::LoadAttr if version.facts().attribute_has_method_flag => 1,
        Opcode::ImportName if version.facts().import_has_flags => 2,
        Opcode::LoadSuperAttr => 2,
        _ => 0,
    };
    instruction.arg as usize >> shift
}

/// Returns the index into `<`, `<=`, `==`, `!=`, `>`, `>=` that is encoded in a `COMPARE_OP`'s argument.
pub fn comparison(version: Version, arg: u32) -> usize {
    arg as usize >> version.facts().comparison_shift
}

/// Returns true if a `COMPARE_OP` converts its result to bool.
pub fn wants_bool(version: Version, arg: u32) -> bool {
    version.facts().comparison_to_bool.is_some_and(|flag| arg & flag != 0)
}

/// Returns true if the argument packs two slots.
fn is_pair(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::LoadFastBorrowLoadFastBorrow | Opcode::LoadFastLoadFast | Opcode::StoreFastLoadFast | Opcode::StoreFastStoreFast
    )
}
