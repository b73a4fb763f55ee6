//! Displays, slices and f-strings.

use dynamlir_bytecode::Const;

use crate::{
    Problem,
    ast::{Expr, Marker, Piece},
    machine::{State, boxed},
    op::{Display, Op},
    stores::sliced,
};

/// Runs a step that builds a value; returns false for other steps.
pub(crate) fn run<'a>(op: &Op<'a>, state: &mut State<'a>) -> Result<bool, Problem> {
    match op {
        // Unpacking within a comprehension is a statement in its loop.
        Op::Extend(_, below) | Op::Update(below, _) if state.peek(*below + 1)?.expr == Expr::Marker(Marker::Accumulator) => {
            return Ok(false);
        }
        Op::Build(display, count) => {
            let items = state.values(*count)?.into_iter().map(|slot| slot.expr).collect();
            state.push(match display {
                Display::Tuple => Expr::Tuple(items),
                Display::List => Expr::List(items),
                Display::Set => Expr::Set(items),
            });
        }
        Op::BuildMap(count) => {
            let mut items = state.values(2 * count)?.into_iter().map(|slot| slot.expr);
            let mut pairs = Vec::with_capacity(*count);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((Some(key), value));
            }
            state.push(Expr::Dict(pairs));
        }
        Op::BuildConstKeyMap(count) => {
            let Expr::Const(Const::Tuple(keys)) = state.value()?.expr else { return Err(Problem::Malformed) };
            let values = state.values(*count)?;
            if keys.len() != values.len() {
                return Err(Problem::Malformed);
            }
            state.push(Expr::Dict(keys.iter().zip(values).map(|(key, value)| (Some(Expr::Const(key)), value.expr)).collect()));
        }
        Op::Extend(display, below) => {
            let more = state.value()?.expr;
            let ((Expr::List(items), Display::List) | (Expr::Set(items), Display::Set)) = (&mut state.peek(*below)?.expr, display) else {
                return Err(Problem::Stack("an extension of something else than a display"));
            };
            match more {
                // `[1, 2, 3]` is a list extended by a constant. With fewer than three items, the compiler would not do this.
                Expr::Const(Const::FrozenSet(constants)) if items.is_empty() && !constants.is_empty() => {
                    let same = constants.last().into_iter().cycle().take(3_usize.saturating_sub(constants.len()));
                    items.extend(constants.iter().chain(same).map(Expr::Const));
                }
                Expr::Const(Const::Tuple(constants)) if items.is_empty() && constants.len() > 2 => {
                    items.extend(constants.iter().map(Expr::Const));
                }
                more => items.push(Expr::Starred(Box::new(more))),
            }
        }
        Op::Update(below, _) => {
            let more = state.value()?.expr;
            let Expr::Dict(pairs) = &mut state.peek(*below)?.expr else {
                return Err(Problem::Stack("an extension of something else than a display"));
            };
            match more {
                // After `**a`, further pairs come in a separate dict; before it they would have been in the first one.
                Expr::Dict(more) if pairs.iter().any(|(key, _)| key.is_none()) => pairs.extend(more),
                more => pairs.push((None, more)),
            }
        }
        Op::ListToTuple => {
            let Expr::List(items) = state.value()?.expr else { return Err(Problem::Malformed) };
            state.push(Expr::Tuple(items));
        }
        Op::BuildSlice(count) => {
            let mut items = state.values(*count)?.into_iter().map(|slot| Some(boxed(slot)));
            let (lower, upper) = (items.next().flatten(), items.next().flatten());
            state.push(Expr::Slice(lower, upper, items.next().flatten()));
        }
        Op::SliceSubscript => {
            let mut items = state.values(3)?.into_iter().map(|slot| slot.expr);
            let mut next = || items.next().ok_or(Problem::Malformed);
            let (object, lower, upper) = (next()?, next()?, next()?);
            state.push(sliced(object, lower, upper));
        }
        Op::Convert(conversion) => {
            let value = state.value()?;
            state.push(Expr::Converted(*conversion, boxed(value)));
        }
        Op::Format(conversion, with_format) => {
            let format = if *with_format { Some(pieces(state.value()?.expr)?) } else { None };
            let (conversion, value) = match state.value()?.expr {
                Expr::Converted(conversion, value) => (Some(conversion), *value),
                value => (*conversion, value),
            };
            state.push(Expr::Format(vec![Piece::Value(value, conversion, format)]));
        }
        Op::Interpolation(conversion, with_format) => {
            let format = if *with_format { Some(pieces(state.value()?.expr)?) } else { None };
            let (value, text) = state.pair()?;
            let Expr::Const(Const::Str(text)) = text else { return Err(Problem::Malformed) };
            state.push(Expr::Interpolation(Box::new(Piece::Source(value, text, *conversion, format))));
        }
        Op::Template => {
            let (strings, parts) = state.pair()?;
            let Expr::Const(Const::Tuple(strings)) = strings else { return Err(Problem::Malformed) };
            let parts = match parts {
                Expr::Tuple(parts) => parts,
                Expr::Const(Const::Tuple(none)) if none.is_empty() => Vec::new(),
                _ => return Err(Problem::Malformed),
            };
            if strings.len() != parts.len() + 1 {
                return Err(Problem::Malformed);
            }
            let mut all = Vec::new();
            let mut parts = parts.into_iter();
            for text in strings {
                all.push(Piece::Text(text));
                match parts.next() {
                    Some(Expr::Interpolation(part)) => all.push(*part),
                    None => {}
                    Some(_) => return Err(Problem::Malformed),
                }
            }
            state.push(Expr::Template(all));
        }
        Op::BuildString(count) => {
            let mut all = Vec::new();
            for slot in state.values(*count)? {
                all.extend(pieces(slot.expr)?);
            }
            state.push(Expr::Format(all));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Converts a string expression to pieces of an f-string.
fn pieces(expr: Expr<'_>) -> Result<Vec<Piece<'_>>, Problem> {
    match expr {
        Expr::Const(text @ (Const::Str(_) | Const::WideStr(_))) => Ok(vec![Piece::Text(text)]),
        Expr::Format(pieces) => Ok(pieces),
        _ => Err(Problem::Stack("an f-string of something else than strings")),
    }
}
