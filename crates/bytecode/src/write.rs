//! Writes functions: turns expressions and branch-free statements into a code object.
//!
//! The result matches CPython's own compiler on the same source, as far as decompiling depends on it.

use thiserror::Error;

use crate::{AssembleError, Assembly, CodeObject, Const, Opcode, Operation, Position, Version, disassemble::SUBSCRIPT, flags, number_of};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A parameter or local variable.
    Local(String),
    /// A free variable.
    Free(String),
    /// A global or builtin.
    Global(String),
    /// A constant.
    Const(Const),
    /// `base.name`
    Attr(Box<Self>, String),
    /// `base[key]`
    Item(Box<Self>, Box<Self>),
    /// `left op right`; the operator is given by its number in `BINARY_OP`'s argument.
    Binary(Box<Self>, usize, Box<Self>),
    /// `function(*arguments)`, all positional.
    Call(Box<Self>, Vec<Self>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A list.
    List(Vec<Self>),
    /// A set of at least one element.
    Set(Vec<Self>),
    /// A dict.
    Dict(Vec<(Self, Self)>),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name = value`
    Assign(String, Expr),
    /// An expression evaluated for its side effects.
    Do(Expr),
    /// `base[key] = value`
    SetItem {
        /// The container.
        base: Expr,
        /// The key.
        key: Expr,
        /// The value to store.
        value: Expr,
    },
}

/// The reasons why a function cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// It reads a variable that it does not have.
    #[error("there is no variable {0}")]
    Unknown(String),
    /// The instructions cannot be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

impl Expr {
    /// `self.name`
    #[must_use]
    pub fn attr(self, name: &str) -> Self {
        Self::Attr(Box::new(self), name.to_owned())
    }

    /// `self[key]`
    #[must_use]
    pub fn item(self, key: Self) -> Self {
        Self::Item(Box::new(self), Box::new(key))
    }

    /// `self[index]`
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        self.item(Self::Const(Const::Int(index.to_string())))
    }

    /// `self op right`; the operator is given by its number in `BINARY_OP`'s argument.
    #[must_use]
    pub fn binary(self, op: usize, right: Self) -> Self {
        Self::Binary(Box::new(self), op, Box::new(right))
    }

    /// `self(*arguments)`
    #[must_use]
    pub fn call(self, arguments: Vec<Self>) -> Self {
        Self::Call(Box::new(self), arguments)
    }

    /// Returns the constant that the expression is, or that the compiler folds it to.
    fn folded(&self) -> Option<Const> {
        match self {
            Self::Const(value) => Some(value.clone()),
            Self::Tuple(items) => constants(items).map(Const::Tuple),
            _ => None,
        }
    }
}

fn constants<'a>(items: impl IntoIterator<Item = &'a Expr>) -> Option<Vec<Const>> {
    items.into_iter().map(Expr::folded).collect()
}

/// Returns true if the constants are bitwise equal: `0.0` is not `-0.0`, and each NaN equals itself.
fn same(a: &Const, b: &Const) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

/// Returns a code object that executes `body` and returns `result`. Its head – name, position, parameters, free variables – is that of
/// `like`. It has no cells: it does not define inner functions.
///
/// # Errors
/// If the body reads a variable that does not exist, or is too long.
pub fn write(like: &CodeObject, body: &[Statement], result: &Expr) -> Result<CodeObject, WriteError> {
    let mut writer = Writer {
        version: like.version,
        line: like.first_line,
        operations: Vec::new(),
        // Before 3.14, a string in this position would be the docstring.
        consts: if like.version < Version::V3_14 { vec![Const::None] } else { Vec::new() },
        names: Vec::new(),
        varnames: like.varnames[..like.parameter_count()].to_vec(),
        freevars: &like.freevars,
        locals: 0,
        depth: 0,
        deepest: 0,
    };
    for statement in body {
        if let Statement::Assign(name, _) = statement
            && !writer.varnames.contains(name)
        {
            writer.varnames.push(name.clone());
        }
    }
    writer.locals = writer.varnames.len();
    if !like.freevars.is_empty() {
        writer.emit(Opcode::CopyFreeVars, like.freevars.len(), 0);
    }
    writer.emit(Opcode::Resume, 0, 0);
    for statement in body {
        writer.statement(statement)?;
    }
    match result.folded() {
        Some(value) if number_of(like.version, Opcode::ReturnConst).is_some() => {
            let at = writer.constant(value);
            writer.emit(Opcode::ReturnConst, at, 0);
        }
        _ => {
            writer.expression(result)?;
            writer.emit(Opcode::ReturnValue, 0, -1);
        }
    }
    let Writer { version, operations, mut consts, names, varnames, deepest, .. } = writer;
    if consts.is_empty() {
        consts.push(Const::None);
    }
    let made = Assembly { version, operations, protected: Vec::new() }.assemble(like.first_line)?;
    Ok(CodeObject {
        flags: like.flags & !flags::DOCSTRING,
        stack_size: deepest.max(1),
        bytecode: made.bytecode,
        exception_table: made.exception_table,
        line_table: made.line_table,
        consts,
        names,
        varnames,
        cellvars: Vec::new(),
        ..like.clone()
    })
}

struct Writer<'a> {
    version: Version,
    line: u32,
    operations: Vec<Operation>,
    consts: Vec<Const>,
    names: Vec<String>,
    varnames: Vec<String>,
    freevars: &'a [String],
    locals: usize,
    depth: i64,
    deepest: u32,
}

impl Writer<'_> {
    /// Adds an instruction that changes the stack's depth by `effect`.
    fn emit(&mut self, opcode: Opcode, arg: usize, effect: i64) {
        let line = Some(self.line);
        let position = Position { line, end_line: line, ..Position::default() };
        self.operations.push(Operation { opcode, arg: arg as u32, target: None, position });
        self.depth += effect;
        self.deepest = self.deepest.max(self.depth as u32);
    }

    fn constant(&mut self, value: Const) -> usize {
        self.consts.iter().position(|known| same(known, &value)).unwrap_or_else(|| {
            self.consts.push(value);
            self.consts.len() - 1
        })
    }

    fn name(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    fn load(&mut self, value: Const) {
        // 3.15 keeps these out of a function's constants, except that the first of them stays there.
        let common = match &value {
            Const::None => Some("None"),
            Const::Bool(true) => Some("True"),
            Const::Bool(false) => Some("False"),
            Const::Str(text) if text.is_empty() => Some("''"),
            Const::Int(text) if text == "-1" => Some("-1"),
            _ => None,
        };
        let known = self.version.facts().common_constants;
        if let Some(at) = common.and_then(|name| known.iter().position(|known| *known == name)) {
            if self.consts.is_empty() {
                self.constant(value);
            }
            self.emit(Opcode::LoadCommonConstant, at, 1);
            return;
        }
        // From 3.14 on, small ints are encoded in the instruction.
        if let Const::Int(text) = &value
            && let Ok(small) = text.parse::<u8>()
            && number_of(self.version, Opcode::LoadSmallInt).is_some()
        {
            // The first constant stays in the table, though nothing loads it from there.
            if self.consts.is_empty() {
                self.constant(value);
            }
            self.emit(Opcode::LoadSmallInt, usize::from(small), 1);
            return;
        }
        let at = self.constant(value);
        self.emit(Opcode::LoadConst, at, 1);
    }

    fn slot(&self, name: &str) -> Result<usize, WriteError> {
        self.varnames.iter().position(|known| known == name).ok_or_else(|| WriteError::Unknown(name.to_owned()))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), WriteError> {
        match statement {
            Statement::Assign(name, value) => {
                self.expression(value)?;
                let slot = self.slot(name)?;
                self.emit(Opcode::StoreFast, slot, -1);
            }
            Statement::Do(value) => {
                self.expression(value)?;
                self.emit(Opcode::PopTop, 0, -1);
            }
            Statement::SetItem { base, key, value } => {
                self.expression(value)?;
                self.expression(base)?;
                self.expression(key)?;
                self.emit(Opcode::StoreSubscr, 0, -3);
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &Expr) -> Result<(), WriteError> {
        if let Some(value) = expression.folded() {
            self.load(value);
            return Ok(());
        }
        match expression {
            Expr::Const(value) => self.load(value.clone()),
            Expr::Local(name) => {
                let slot = self.slot(name)?;
                self.emit(Opcode::LoadFast, slot, 1);
            }
            Expr::Free(name) => {
                let at = self.freevars.iter().position(|known| known == name).ok_or_else(|| WriteError::Unknown(name.clone()))?;
                self.emit(Opcode::LoadDeref, self.locals + at, 1);
            }
            Expr::Global(name) => {
                let at = self.name(name);
                self.emit(Opcode::LoadGlobal, at << 1, 1);
            }
            Expr::Attr(base, name) => {
                self.expression(base)?;
                let at = self.name(name);
                let flagged = self.version.facts().attribute_has_method_flag;
                self.emit(Opcode::LoadAttr, if flagged { at << 1 } else { at }, 0);
            }
            Expr::Item(base, key) => {
                self.expression(base)?;
                self.expression(key)?;
                if number_of(self.version, Opcode::BinarySubscr).is_some() {
                    self.emit(Opcode::BinarySubscr, 0, -1);
                } else {
                    self.emit(Opcode::BinaryOp, SUBSCRIPT, -1);
                }
            }
            Expr::Binary(left, op, right) => {
                self.expression(left)?;
                self.expression(right)?;
                self.emit(Opcode::BinaryOp, *op, -1);
            }
            Expr::Call(function, arguments) => self.call(function, arguments)?,
            Expr::Tuple(items) => self.display(Opcode::BuildTuple, items)?,
            Expr::Set(items) => self.display(Opcode::BuildSet, items)?,
            Expr::List(items) => match constants(items).filter(|items| items.len() > 2) {
                Some(items) => {
                    self.emit(Opcode::BuildList, 0, 1);
                    self.load(Const::Tuple(items));
                    self.emit(Opcode::ListExtend, 1, -1);
                }
                None => self.display(Opcode::BuildList, items)?,
            },
            Expr::Dict(entries) => self.dict(entries)?,
        }
        Ok(())
    }

    fn display(&mut self, opcode: Opcode, items: &[Expr]) -> Result<(), WriteError> {
        items.iter().try_for_each(|item| self.expression(item))?;
        self.emit(opcode, items.len(), 1 - items.len() as i64);
        Ok(())
    }

    fn dict(&mut self, entries: &[(Expr, Expr)]) -> Result<(), WriteError> {
        let count = entries.len();
        let has_keys = count > 1 && number_of(self.version, Opcode::BuildConstKeyMap).is_some();
        if let Some(keys) = constants(entries.iter().map(|(key, _)| key)).filter(|_| has_keys) {
            entries.iter().try_for_each(|(_, value)| self.expression(value))?;
            self.load(Const::Tuple(keys));
            self.emit(Opcode::BuildConstKeyMap, count, -(count as i64));
        } else {
            for (key, value) in entries {
                self.expression(key)?;
                self.expression(value)?;
            }
            self.emit(Opcode::BuildMap, count, 1 - 2 * count as i64);
        }
        Ok(())
    }

    fn call(&mut self, function: &Expr, arguments: &[Expr]) -> Result<(), WriteError> {
        match function {
            Expr::Attr(base, name) => {
                self.expression(base)?;
                let at = self.name(name);
                if self.version.facts().attribute_has_method_flag {
                    self.emit(Opcode::LoadAttr, at << 1 | 1, 1);
                } else {
                    self.emit(Opcode::LoadMethod, at, 1);
                }
            }
            Expr::Global(name) => {
                let at = self.name(name);
                self.emit(Opcode::LoadGlobal, at << 1 | 1, 2);
            }
            _ if self.version.facts().null_above_callable => {
                self.expression(function)?;
                self.emit(Opcode::PushNull, 0, 1);
            }
            _ => {
                self.emit(Opcode::PushNull, 0, 1);
                self.expression(function)?;
            }
        }
        arguments.iter().try_for_each(|argument| self.expression(argument))?;
        if number_of(self.version, Opcode::Precall).is_some() {
            self.emit(Opcode::Precall, arguments.len(), 0);
        }
        self.emit(Opcode::Call, arguments.len(), -(arguments.len() as i64) - 1);
        Ok(())
    }
}
