//! `import` and `from … import`.

use dynamlir_bytecode::Const;

use crate::{
    Problem,
    ast::{Expr, Marker, Stmt},
    machine::State,
    op::Op,
};

/// Runs a step of an import.
pub(crate) fn run<'a>(op: &Op<'a>, state: &mut State<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    match op {
        Op::Import(name, lazy) => {
            let (level, names) = state.pair()?;
            let Expr::Const(Const::Int(level)) = level else { return Err(Problem::Malformed) };
            let level = level.parse().map_err(|_| Problem::Malformed)?;
            let names = match names {
                Expr::Const(Const::None) => None,
                Expr::Const(Const::Tuple(_)) => Some(Vec::new()),
                _ => return Err(Problem::Malformed),
            };
            state.push(Expr::Module(name, level, names, *lazy));
            Ok(())
        }
        Op::ImportFrom(name) => {
            let path = match &state.peek(1)?.expr {
                Expr::Module(_, _, Some(_), _) => None,
                Expr::Module(path, 0, None, lazy) => Some((*path, *lazy)),
                Expr::Imported(_, Some(path)) => Some(*path),
                _ => return Err(Problem::Stack("a name imported from something else than a module")),
            };
            state.push(Expr::Imported(name, path));
            Ok(())
        }
        _ => match state.slot()?.expr {
            Expr::Module(name, level, Some(names), lazy) if names.is_empty() => state.emit(Stmt::ImportFrom(name, level, names, lazy), out),
            _ => Err(Problem::Stack("a name imported from something else than a module")),
        },
    }
}

/// Stores an imported module or name.
pub(crate) fn store<'a>(state: &mut State<'a>, target: &Expr<'a>, value: &Expr<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let Expr::Name(stored) = *target else { return Err(Problem::Stack("an import that is not stored in a name")) };
    match *value {
        Expr::Imported(name, None) => match &mut state.peek(1)?.expr {
            Expr::Module(_, _, Some(names), _) => {
                names.push((name, stored));
                Ok(())
            }
            _ => Err(Problem::Malformed),
        },
        // `import a.b as c`: only the last part is stored; the first may still be on the stack, to be dropped.
        Expr::Imported(name, Some((path, lazy))) if path.rsplit('.').next() == Some(name) => {
            if let Some(slot) = state.stack.last_mut()
                && matches!(slot.expr, Expr::Module(_, 0, None, _) | Expr::Imported(_, Some(_)))
            {
                slot.expr = Expr::Marker(Marker::Sent);
            }
            state.emit(Stmt::Import(path, stored, lazy), out)
        }
        Expr::Module(name, 0, None, lazy) => state.emit(Stmt::Import(name, stored, lazy), out),
        _ => Err(Problem::Stack("an import that no statement makes")),
    }
}

/// Drops a module: the end of `from … import`, or an intermediate step of `import a.b as c`.
pub(crate) fn drop<'a>(state: &mut State<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    match state.slot()?.expr {
        Expr::Module(name, level, Some(names), lazy) if !names.is_empty() => state.emit(Stmt::ImportFrom(name, level, names, lazy), out),
        Expr::Module(_, 0, None, _) | Expr::Imported(_, Some(_)) if matches!(state.peek(1)?.expr, Expr::Imported(_, Some(_))) => Ok(()),
        _ => Err(Problem::Stack("an import that no statement makes")),
    }
}
