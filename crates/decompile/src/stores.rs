//! Assignments: plain, chained, unpacking, in parallel, in place, `:=`; and deletions.

use dynamlir_bytecode::Const;

use crate::{
    Problem, annotations,
    ast::{Expr, Makes, Marker, Stmt},
    functions, generics,
    machine::{Declared, Slot, State, Unpacking, in_order, printable},
    names::is_identifier,
    op::Op,
};

/// Runs a step that stores or deletes.
pub(crate) fn run<'a>(op: &Op<'a>, state: &mut State<'a>, declared: &mut Declared<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    match op {
        Op::Store(scope, name) => {
            declared.note(*scope, name);
            let value = state.slot()?;
            assign(state, Expr::Name(name), value, out)
        }
        Op::StoreAttribute(name) => {
            let object = state.value()?;
            let value = state.slot()?;
            if let Expr::InPlace(symbol, left, right) = value.expr {
                // a; COPY; a.name; right; +=; SWAP; a.name = …
                return match *left {
                    Expr::Attribute(copied, attribute) if attribute == *name && is_copy(&copied, &object) => {
                        augmented(state, Expr::Attribute(Box::new(object.expr), name), symbol, *right, out)
                    }
                    _ => Err(Problem::Stack("an in-place operation on something else")),
                };
            }
            before(&value, &object)?;
            assign(state, Expr::Attribute(Box::new(object.expr), name), value, out)
        }
        Op::StoreSubscript => {
            let keys = state.value()?;
            let object = state.value()?;
            let value = state.slot()?;
            if let Expr::InPlace(symbol, left, right) = value.expr {
                return match *left {
                    Expr::Subscript(copied, copied_key) if is_copy(&copied, &object) && is_copy(&copied_key, &keys) => {
                        in_order(&[object.clone(), keys.clone()])?;
                        let target = Expr::Subscript(Box::new(object.expr), Box::new(keys.expr));
                        augmented(state, target, symbol, *right, out)
                    }
                    _ => Err(Problem::Stack("an in-place operation on something else")),
                };
            }
            before(&value, &object)?;
            before(&object, &keys)?;
            // A function that returns annotations puts them into its result dict.
            if matches!(&object.expr, Expr::Copy(_, made) if **made == Expr::Marker(Marker::Accumulator)) {
                printable(&value.expr)?;
                return state.emit(Stmt::Append(keys.expr, Some(value.expr)), out);
            }
            let annotated = annotation(&object.expr, &keys.expr);
            if let Some(name) = annotated
                && !matches!(value.expr, Expr::Copy(..))
            {
                printable(&value.expr)?;
                return state.emit(Stmt::Annotate(name, value.expr, None), out);
            }
            assign(state, Expr::Subscript(Box::new(object.expr), Box::new(keys.expr)), value, out)
        }
        Op::StoreSlice => {
            let upper = state.value()?;
            let lower = state.value()?;
            let object = state.value()?;
            let value = state.slot()?;
            if let Expr::InPlace(symbol, left, right) = value.expr {
                let Expr::Subscript(copied, slice) = *left else { return Err(Problem::Stack("an in-place operation on something else")) };
                let Expr::Slice(Some(a), Some(b), None) = *slice else {
                    return Err(Problem::Stack("an in-place operation on something else"));
                };
                if !(is_copy(&copied, &object) && is_copy(&a, &lower) && is_copy(&b, &upper)) {
                    return Err(Problem::Stack("an in-place operation on something else"));
                }
                in_order(&[object.clone(), lower.clone(), upper.clone()])?;
                return augmented(state, sliced(object.expr, lower.expr, upper.expr), symbol, *right, out);
            }
            before(&value, &object)?;
            in_order(&[object.clone(), lower.clone(), upper.clone()])?;
            assign(state, sliced(object.expr, lower.expr, upper.expr), value, out)
        }
        Op::Delete(scope, name) => {
            declared.note(*scope, name);
            state.emit(Stmt::Delete(Expr::Name(name)), out)
        }
        Op::DeleteAttribute(name) => {
            let object = state.value()?.expr;
            printable(&object)?;
            state.emit(Stmt::Delete(Expr::Attribute(Box::new(object), name)), out)
        }
        Op::DeleteSubscript => {
            let (object, key) = state.pair()?;
            let target = Expr::Subscript(Box::new(object), Box::new(key));
            printable(&target)?;
            state.emit(Stmt::Delete(target), out)
        }
        Op::Unpack(count) => unpack(state, *count, None),
        Op::UnpackEx(before, after) => unpack(state, before + 1 + after, Some(*before)),
        Op::Extend(..) | Op::Update(..) => {
            let value = Box::new(state.value()?.expr);
            printable(&value)?;
            let unpacked = if matches!(op, Op::Update(..)) { Expr::DoubleStarred(value) } else { Expr::Starred(value) };
            state.emit(Stmt::Append(unpacked, None), out)
        }
        Op::Add(makes, below) => add(state, *makes, *below, out),
        _ => Err(Problem::Stack("a step out of its place")),
    }
}

/// Returns `object[lower:upper]`; bounds that are None were omitted.
pub(crate) fn sliced<'a>(object: Expr<'a>, lower: Expr<'a>, upper: Expr<'a>) -> Expr<'a> {
    Expr::Subscript(Box::new(object), Box::new(Expr::Slice(Some(Box::new(lower)), Some(Box::new(upper)), None)))
}

/// Matches `__annotations__['name']`, where classes and modules store the annotations of variables.
fn annotation<'a>(object: &Expr<'a>, key: &Expr<'a>) -> Option<&'a str> {
    match (object, key) {
        (Expr::Name("__annotations__"), Expr::Const(Const::Str(name))) if is_identifier(name) => Some(name),
        _ => None,
    }
}

fn is_copy(copy: &Expr<'_>, of: &Slot<'_>) -> bool {
    matches!(copy, Expr::Copy(order, _) if *order == of.order)
}

fn before(first: &Slot<'_>, second: &Slot<'_>) -> Result<(), Problem> {
    (first.order < second.order).then_some(()).ok_or(Problem::Stack("operands out of order"))
}

fn augmented<'a>(
    state: &State<'a>,
    target: Expr<'a>,
    symbol: &'static str,
    value: Expr<'a>,
    out: &mut Vec<Stmt<'a>>,
) -> Result<(), Problem> {
    printable(&target)?;
    printable(&value)?;
    state.emit(Stmt::AugAssign(target, symbol, value), out)
}

/// Drops an unpacked value.
pub(crate) fn drop_element<'a>(state: &mut State<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let value = state.slot()?;
    assign(state, Expr::Null, value, out)
}

/// Stores a value in a target.
fn assign<'a>(state: &mut State<'a>, target: Expr<'a>, value: Slot<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let Slot { expr, order } = value;
    match functions::settle(expr)? {
        Expr::InPlace(symbol, left, right) if *left == target => augmented(state, target, symbol, *right, out),
        Expr::Copy(of, _) => {
            // The original stays on the stack: it is stored again, or used.
            let original = state.stack.iter_mut().find(|slot| slot.order == of).ok_or(Problem::Stack("a copy without its original"))?;
            match &mut original.expr {
                Expr::Stored(targets, _) => targets.push(target),
                expr => *expr = Expr::Stored(vec![target], Box::new(std::mem::replace(expr, Expr::Null))),
            }
            Ok(())
        }
        Expr::Element(which, place) => {
            let latest = which + 1 == state.unpackings.len();
            let unpacking = state.unpackings.get_mut(which).ok_or(Problem::Malformed)?;
            unpacking.targets[place] = Some(target);
            if latest && unpacking.targets.iter().all(Option::is_some) {
                return unpacked(state, out);
            }
            Ok(())
        }
        Expr::Stored(mut targets, value) => {
            targets.push(target);
            targets.iter().try_for_each(printable)?;
            let value = functions::settle(*value)?;
            printable(&value)?;
            state.emit(Stmt::Assign(targets, value), out)
        }
        // The loop, `with` or `except` takes its target from this statement.
        place @ Expr::Marker(Marker::Item | Marker::Entered | Marker::Exception) => {
            printable(&target)?;
            state.emit(Stmt::Assign(vec![target], place), out)
        }
        expr @ (Expr::Module(..) | Expr::Imported(..)) => crate::imports::store(state, &target, &expr, out),
        Expr::Alias(alias) => state.emit(generics::alias(&target, *alias)?, out),
        parameters @ Expr::Tuple(_) if target == Expr::Name(".type_params") => state.emit(Stmt::Assign(vec![target], parameters), out),
        // The base of a class with type parameters, which is passed along with the other bases.
        Expr::Marker(Marker::GenericBase) if target == Expr::Name(".generic_base") => Ok(()),
        expr if functions::is_decorated(&expr) => define(state, &target, expr, out),
        Expr::Marker(_) | Expr::Null => Err(Problem::Stack("a place in a statement is stored")),
        expr => {
            printable(&target)?;
            printable(&expr)?;
            let more = state.stack.iter().any(|slot| !matches!(slot.expr, Expr::Marker(_) | Expr::Module(_, _, Some(_), _)));
            if !more && state.parallel.is_empty() {
                return state.emit(Stmt::Assign(vec![target], expr), out);
            }
            state.parallel.push((order, target, expr));
            if more {
                return Ok(());
            }
            // The right side in evaluation order, each target with its value.
            let mut all = std::mem::take(&mut state.parallel);
            all.sort_by_key(|(order, _, _)| *order);
            let (targets, values) = all.into_iter().map(|(_, target, value)| (target, value)).unzip();
            state.emit(Stmt::Assign(vec![Expr::Tuple(targets)], Expr::Tuple(values)), out)
        }
    }
}

fn define<'a>(state: &State<'a>, target: &Expr<'a>, value: Expr<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let Expr::Name(name) = target else { return Err(Problem::Stack("a definition that is not stored in a name")) };
    if let Expr::Function(function) = &value
        && matches!(*name, "__annotate__" | "__annotate_func__")
        && annotations::are_in(function.code)
    {
        return state.emit(Stmt::Annotations(function.code), out);
    }
    let statement = functions::definition(name, value)?;
    state.emit(statement, out)
}

fn unpack(state: &mut State<'_>, count: usize, star: Option<usize>) -> Result<(), Problem> {
    let value = state.slot()?;
    if count == 0 {
        return Err(Problem::Stack("unpacking into nothing"));
    }
    state.unpackings.push(Unpacking { value, targets: vec![None; count], star });
    let which = state.unpackings.len() - 1;
    for place in (0..count).rev() {
        state.push(Expr::Element(which, place));
    }
    Ok(())
}

/// Completes the latest unpacking, once all its targets are known.
fn unpacked<'a>(state: &mut State<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let Unpacking { value, targets, star } = state.unpackings.pop().ok_or(Problem::Malformed)?;
    let mut next: Option<Expr<'a>> = None;
    let starred = |(place, target): (usize, Option<Expr<'a>>)| {
        let target = target.ok_or(Problem::Malformed)?;
        // 3.13 drops a value if the next one is stored under the same name: `_, _ = …`.
        let target = match (target, &next) {
            (Expr::Null, Some(next @ Expr::Name(_))) => next.clone(),
            (Expr::Null, _) => return Err(Problem::Stack("an unpacked value is dropped")),
            (target, _) => target,
        };
        next = Some(target.clone());
        Ok(if Some(place) == star { Expr::Starred(Box::new(target)) } else { target })
    };
    let mut targets = targets.into_iter().enumerate().rev().map(starred).collect::<Result<Vec<_>, Problem>>()?;
    targets.reverse();
    assign(state, Expr::Tuple(targets), value, out)
}

/// Adds an element to the result of a comprehension.
fn add<'a>(state: &mut State<'a>, makes: Makes, below: usize, out: &mut Vec<Stmt<'a>>) -> Result<(), Problem> {
    let (element, value) = if makes == Makes::Dict {
        let (key, value) = state.pair()?;
        (key, Some(value))
    } else {
        (state.value()?.expr, None)
    };
    // A long display is built element by element.
    match (&mut state.peek(below)?.expr, value) {
        (Expr::List(items) | Expr::Set(items), None) => {
            items.push(element);
            Ok(())
        }
        (Expr::Dict(pairs), Some(value)) => {
            pairs.push((Some(element), value));
            Ok(())
        }
        (place @ Expr::Name(annotations::MET), None) => {
            let Expr::Const(number) = element else { return Err(Problem::Malformed) };
            *place = Expr::Marker(Marker::Sent);
            state.emit(Stmt::Met(number), out)
        }
        (Expr::Marker(Marker::Accumulator), value) => {
            printable(&element)?;
            value.iter().try_for_each(printable)?;
            state.emit(Stmt::Append(element, value), out)
        }
        _ => Err(Problem::Stack("an element for something else than a comprehension")),
    }
}

/// Returns the expression of a value that is stored in names and used: `(name := value)`.
pub(crate) fn walrus<'a>(targets: Vec<Expr<'a>>, value: Expr<'a>) -> Result<Expr<'a>, Problem> {
    targets.into_iter().try_fold(value, |value, target| match target {
        Expr::Name(name) => Ok(Expr::Walrus(name, Box::new(value))),
        _ => Err(Problem::Stack("a value is stored and used")),
    })
}
