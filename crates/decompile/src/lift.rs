//! Converts instructions to [`Op`]s. Code shared by all versions is here; differences are in one file per version.

use dynamlir_bytecode::{COMPARISONS, CodeObject, Const, Instruction, OPERATORS, Opcode, Version, comparison, name_index};

use crate::{
    Problem,
    ast::{Expr, Makes, Marker, ParameterKind, Unary},
    op::{Display, Generic, NullAt, Op, Scope},
};

mod v3_11;
mod v3_12;
mod v3_13;
mod v3_14;

/// The value of `return` without a value.
pub(crate) static NONE: Const = Const::None;

/// The symbols of the in-place operators, in the order of [`OPERATORS`].
const IN_PLACE: [&str; 13] = ["+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="];

/// A code object with named slots.
pub(crate) struct Source<'a> {
    pub object: &'a CodeObject,
    pub slots: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub fn new(object: &'a CodeObject) -> Self {
        Self { object, slots: object.slots() }
    }

    pub fn slot(&self, arg: u32) -> Result<&'a str, Problem> {
        self.slots.get(arg as usize).copied().ok_or(Problem::Malformed)
    }

    pub fn name(&self, instruction: &Instruction) -> Result<&'a str, Problem> {
        let index = name_index(self.object.version, instruction);
        self.object.names.get(index).map(String::as_str).ok_or(Problem::Malformed)
    }

    pub fn constant(&self, arg: u32) -> Result<&'a Const, Problem> {
        self.object.consts.get(arg as usize).ok_or(Problem::Malformed)
    }

    /// Returns the constant that `LOAD_COMMON_CONSTANT` loads.
    pub fn common_constant(&self, arg: u32) -> Option<&'static str> {
        self.object.version.facts().common_constants.get(arg as usize).copied()
    }

    /// Returns true for an instruction that loads None.
    pub fn is_none(&self, load: &Instruction) -> bool {
        match load.opcode {
            Opcode::LoadConst => self.constant(load.arg).is_ok_and(|value| *value == Const::None),
            Opcode::LoadCommonConstant => self.common_constant(load.arg) == Some("None"),
            _ => false,
        }
    }

    /// Returns `Free` if a slot is a cell of an enclosing function.
    fn scope(&self, arg: u32) -> Scope {
        if arg as usize >= self.slots.len() - self.object.freevars.len() { Scope::Free } else { Scope::Local }
    }
}

/// Appends the steps of one instruction that neither jumps nor belongs to a multi-instruction pattern.
pub(crate) fn lift<'a>(source: &Source<'a>, instruction: &Instruction, out: &mut Vec<Op<'a>>) -> Result<(), Problem> {
    let own = match source.object.version {
        Version::V3_11 => v3_11::lift(source, instruction, out)?,
        Version::V3_12 => v3_12::lift(source, instruction, out)?,
        Version::V3_13 => v3_13::lift(source, instruction, out)?,
        Version::V3_14 | Version::V3_15 => v3_14::lift(source, instruction, out)?,
    };
    if !own {
        out.extend(common(source, instruction)?);
    }
    Ok(())
}

fn common<'a>(source: &Source<'a>, instruction: &Instruction) -> Result<Option<Op<'a>>, Problem> {
    use Opcode as O;
    let arg = instruction.arg;
    let n = arg as usize;
    Ok(Some(match instruction.opcode {
        // These have no counterpart in source code: setup of cells and annotations, conversions that branches need.
        O::Resume | O::Nop | O::MakeCell | O::CopyFreeVars | O::ToBool | O::LoadLocals | O::SetupAnnotations => return Ok(None),
        // A class body keeps its namespace for inner scopes, which look up names there first.
        O::StoreDeref | O::LoadDeref if source.slot(arg)? == "__classdict__" => return Ok(None),
        O::ReturnGenerator => Op::Push(Expr::Marker(Marker::Sent)),
        O::LoadConst => Op::Push(Expr::Const(source.constant(arg)?)),
        O::LoadFast | O::LoadFastCheck | O::LoadDeref | O::LoadClosure | O::LoadClassderef | O::LoadFromDictOrDeref => {
            Op::Push(Expr::Name(source.slot(arg)?))
        }
        O::LoadFromDictOrGlobals | O::LoadName => Op::Push(Expr::Name(source.name(instruction)?)),
        O::StoreFast => Op::Store(Scope::Local, source.slot(arg)?),
        O::StoreDeref => Op::Store(source.scope(arg), source.slot(arg)?),
        O::StoreName => Op::Store(Scope::Name, source.name(instruction)?),
        O::StoreGlobal => Op::Store(Scope::Global, source.name(instruction)?),
        O::DeleteFast => Op::Delete(Scope::Local, source.slot(arg)?),
        O::DeleteDeref => Op::Delete(source.scope(arg), source.slot(arg)?),
        O::DeleteName => Op::Delete(Scope::Name, source.name(instruction)?),
        O::DeleteGlobal => Op::Delete(Scope::Global, source.name(instruction)?),
        O::PushNull => Op::Push(Expr::Null),
        O::PopTop | O::EndSend => Op::Pop,
        O::Copy => Op::Copy(n),
        O::Swap => Op::Swap(n),
        O::UnaryNot => Op::Unary(Unary::Not),
        O::UnaryNegative => Op::Unary(Unary::Minus),
        O::UnaryInvert => Op::Unary(Unary::Invert),
        O::UnaryPositive => Op::Unary(Unary::Plus),
        O::BinaryOp if n < OPERATORS.len() => Op::Binary(OPERATORS[n]),
        O::BinaryOp => Op::InPlace(IN_PLACE.get(n - OPERATORS.len()).ok_or(Problem::Malformed)?),
        O::IsOp => Op::Compare(if n == 0 { "is" } else { "is not" }),
        O::ContainsOp => Op::Compare(if n == 0 { "in" } else { "not in" }),
        O::CompareOp => {
            let symbols = COMPARISONS;
            Op::Compare(symbols.get(comparison(source.object.version, arg)).ok_or(Problem::Malformed)?)
        }
        O::BinarySubscr => Op::Subscript,
        O::BinarySlice => Op::SliceSubscript,
        O::StoreSubscr => Op::StoreSubscript,
        O::StoreSlice => Op::StoreSlice,
        O::DeleteSubscr => Op::DeleteSubscript,
        O::StoreAttr => Op::StoreAttribute(source.name(instruction)?),
        O::DeleteAttr => Op::DeleteAttribute(source.name(instruction)?),
        O::BuildTuple => Op::Build(Display::Tuple, n),
        O::BuildList => Op::Build(Display::List, n),
        O::BuildSet => Op::Build(Display::Set, n),
        O::BuildMap => Op::BuildMap(n),
        O::BuildConstKeyMap => Op::BuildConstKeyMap(n),
        O::BuildString => Op::BuildString(n),
        O::BuildSlice => Op::BuildSlice(n),
        O::ListAppend => Op::Add(Makes::List, n),
        O::SetAdd => Op::Add(Makes::Set, n),
        O::MapAdd => Op::Add(Makes::Dict, n),
        O::ListExtend => Op::Extend(Display::List, n),
        O::SetUpdate => Op::Extend(Display::Set, n),
        O::DictUpdate => Op::Update(n, false),
        O::DictMerge => Op::Update(n, true),
        O::ListToTuple => Op::ListToTuple,
        O::Call => Op::Call(n),
        O::CallFunctionEx => Op::CallEx(n & 1 == 1),
        O::KwNames => match source.constant(arg)? {
            Const::Tuple(names) => Op::KeywordNames(names),
            _ => return Err(Problem::Malformed),
        },
        O::MakeFunction => Op::Function(arg),
        O::FormatValue => Op::Format([None, Some('s'), Some('r'), Some('a')][n & 3], n & 4 == 4),
        O::GetIter | O::GetAiter => Op::Iter,
        O::ImportName => Op::Import(source.name(instruction)?, source.object.version.facts().import_has_flags && arg & 1 == 1),
        O::ImportFrom => Op::ImportFrom(source.name(instruction)?),
        O::LoadBuildClass => Op::Push(Expr::BuildClass),
        O::LoadAssertionError => Op::Push(Expr::AssertionError),
        O::UnpackSequence => Op::Unpack(n),
        O::UnpackEx => Op::UnpackEx(n & 0xff, n >> 8),
        O::RaiseVarargs => Op::Raise(n),
        O::Reraise => Op::Reraise,
        O::ReturnValue => Op::Return,
        O::YieldValue => Op::Yield,
        O::BeforeWith => Op::EnterWith(false),
        O::BeforeAsyncWith => Op::EnterWith(true),
        O::WithExceptStart => Op::WithExceptStart,
        O::PushExcInfo => Op::PushException,
        O::PopExcept => Op::PopException,
        O::CheckExcMatch => Op::CheckMatch,
        O::LoadFastAndClear => Op::LoadAndClear(source.slot(arg)?),
        O::CallIntrinsic2 => match arg {
            2 => Op::Generic(Generic::Bound { constraints: false }),
            3 => Op::Generic(Generic::Bound { constraints: true }),
            4 => Op::Generic(Generic::Give),
            5 => Op::Generic(Generic::Default),
            _ => Op::Unsupported("CALL_INTRINSIC_2"),
        },
        O::GetLen => Op::GetLength,
        O::MatchSequence => Op::MatchSequence,
        O::MatchMapping => Op::MatchMapping,
        O::MatchKeys => Op::MatchKeys,
        O::MatchClass => Op::MatchClass(n),
        opcode => Op::Unsupported(opcode.name()),
    }))
}

/// Appends a global, with the NULL of a call if its flag is set.
fn global<'a>(source: &Source<'a>, instruction: &Instruction, null: NullAt, out: &mut Vec<Op<'a>>) -> Result<(), Problem> {
    let called = instruction.arg & 1 == 1;
    if called && null == NullAt::Below {
        out.push(Op::Push(Expr::Null));
    }
    out.push(Op::Push(Expr::Name(source.name(instruction)?)));
    if called && null == NullAt::Above {
        out.push(Op::Push(Expr::Null));
    }
    Ok(())
}

/// Returns an attribute, with the NULL of a method call if its flag is set: 3.12 and later.
fn attribute<'a>(source: &Source<'a>, instruction: &Instruction, null: NullAt) -> Result<Op<'a>, Problem> {
    let name = source.name(instruction)?;
    Ok(if instruction.arg & 1 == 1 { Op::Method(name, null) } else { Op::Attribute(name) })
}

/// `super().name`: 3.12 and later.
fn super_attribute<'a>(source: &Source<'a>, instruction: &Instruction, null: NullAt) -> Result<Op<'a>, Problem> {
    let method = (instruction.arg & 1 == 1).then_some(null);
    Ok(Op::Super(source.name(instruction)?, instruction.arg & 2 == 2, method))
}

/// The intrinsic functions of 3.12 and later.
fn intrinsic_1(arg: u32, out: &mut Vec<Op<'_>>) {
    match arg {
        // It leaves a None on the stack, which is popped.
        2 => out.extend([Op::ImportStar, Op::Push(Expr::Marker(Marker::Sent))]),
        // An asynchronous generator's values are wrapped; its `yield` implies that.
        4 => {}
        5 => out.push(Op::Unary(Unary::Plus)),
        6 => out.push(Op::ListToTuple),
        7 => out.push(Op::Generic(Generic::Parameter(ParameterKind::Plain))),
        8 => out.push(Op::Generic(Generic::Parameter(ParameterKind::DoubleStar))),
        9 => out.push(Op::Generic(Generic::Parameter(ParameterKind::Star))),
        10 => out.push(Op::Generic(Generic::Base)),
        11 => out.push(Op::Generic(Generic::Alias)),
        _ => out.push(Op::Unsupported("CALL_INTRINSIC_1")),
    }
}
