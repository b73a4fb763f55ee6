//! The parts of a subject, the tests of them, and the resulting pattern.

use dynamlir_bytecode::Const;

use crate::ast::{Expr, Pattern, Unary};

pub(super) type Id = usize;

/// A part of the subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Symbol<'a> {
    pub(super) shape: Option<Shape<'a>>,
    pub(super) names: Vec<&'a str>,
}

/// The test of a part.
#[derive(Clone, Debug)]
pub(super) enum Shape<'a> {
    Value(Expr<'a>),
    Sequence(Sequence),
    Mapping { keys: Vec<Expr<'a>>, values: Vec<Id>, rest: Option<Id> },
    Class { class: Expr<'a>, names: &'a [Const], parts: Vec<Id> },
    Alternatives { ways: Vec<Way<'a>>, captured: Vec<Id> },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The exact or minimal number of items.
    pub(super) exact: Option<usize>,
    pub(super) least: Option<usize>,
    /// The items, and the index of the starred one.
    pub(super) items: Option<(Vec<Id>, Option<usize>)>,
    /// Items taken one by one: their index, true if counted from the end, and their symbol.
    pub(super) taken: Vec<(usize, bool, Id)>,
}

/// One of several alternatives: its own symbols, the tested one, and the captured ones.
#[derive(Clone, Debug)]
pub(super) struct Way<'a> {
    pub(super) symbols: Vec<Symbol<'a>>,
    pub(super) tested: Id,
    pub(super) captured: Vec<Id>,
}

/// Returns the pattern of a symbol.
pub(super) fn pattern<'a>(symbols: &[Symbol<'a>], of: Id) -> Option<Pattern<'a>> {
    let symbol = symbols.get(of)?;
    let one = |id: Id| pattern(symbols, id);
    let plain = match &symbol.shape {
        None => None,
        Some(Shape::Value(value)) => Some(Pattern::Value(value.clone())),
        Some(Shape::Sequence(sequence)) => Some(Pattern::Sequence(items(symbols, sequence)?)),
        Some(Shape::Mapping { keys, values, rest }) => {
            // Values without tests are not unpacked.
            let value = |at: usize| values.get(at).map_or(Some(Pattern::Capture(None)), |&id| one(id));
            let pairs = keys.iter().enumerate().map(|(at, key)| Some((key.clone(), value(at)?))).collect::<Option<_>>()?;
            let rest = match rest {
                Some(rest) => Some(*symbols.get(*rest)?.names.first()?),
                None => None,
            };
            Some(Pattern::Mapping(pairs, rest))
        }
        Some(Shape::Class { class, names, parts }) => {
            let positional = parts.len().checked_sub(names.len())?;
            let all = parts.iter().map(|&part| one(part)).collect::<Option<Vec<_>>>()?;
            let name = |name: &'a Const| if let Const::Str(name) = name { Some(name.as_str()) } else { None };
            let names = names.iter().map(name).collect::<Option<Vec<_>>>()?;
            let mut all = all.into_iter();
            let given = all.by_ref().take(positional).collect();
            Some(Pattern::Class(class.clone(), given, names.into_iter().zip(all).collect()))
        }
        Some(Shape::Alternatives { ways, captured }) => {
            let one = |way: &Way<'a>| {
                let mut own = way.symbols.clone();
                for (&inner, &merged) in way.captured.iter().zip(captured) {
                    own.get_mut(inner)?.names.extend(&symbols.get(merged)?.names);
                }
                pattern(&own, way.tested)
            };
            Some(Pattern::Or(ways.iter().map(one).collect::<Option<_>>()?))
        }
    };
    let mut names = symbol.names.iter();
    let plain = match plain {
        Some(plain) => plain,
        None => Pattern::Capture(names.next().copied()),
    };
    Some(names.fold(plain, |plain, name| Pattern::As(Box::new(plain), name)))
}

/// Returns the items of a sequence: the unpacked ones, or as many as it must have, including those taken from it.
fn items<'a>(symbols: &[Symbol<'a>], sequence: &Sequence) -> Option<Vec<Pattern<'a>>> {
    let starred = |pattern| match pattern {
        Pattern::Capture(name) => Some(Pattern::Star(name)),
        _ => None,
    };
    if let Some((items, star)) = &sequence.items {
        let fits = match star {
            None => sequence.exact == Some(items.len()),
            Some(_) => sequence.least.unwrap_or(0) + 1 == items.len(),
        };
        let one = |(at, &item): (usize, &Id)| {
            let item = pattern(symbols, item)?;
            if Some(at) == *star { starred(item) } else { Some(item) }
        };
        return items.iter().enumerate().map(one).collect::<Option<_>>().filter(|_| fits);
    }
    if let Some(exact) = sequence.exact {
        return sequence.taken.is_empty().then(|| vec![Pattern::Capture(None); exact]);
    }
    // `[a, *_, b]`: nothing is unpacked.
    let least = sequence.least.unwrap_or(0);
    let front = sequence.taken.iter().filter(|(_, from_end, _)| !from_end).map(|(number, ..)| number + 1).max().unwrap_or(0);
    let mut all = vec![Pattern::Capture(None); least];
    if front > least {
        return None;
    }
    for (number, from_end, item) in &sequence.taken {
        let at = if *from_end { least.checked_sub(*number)? } else { *number };
        if *from_end && at < front {
            return None;
        }
        *all.get_mut(at)? = pattern(symbols, *item)?;
    }
    // Any position after those from the front and before those from the end will do.
    let back = sequence.taken.iter().filter(|(_, from_end, _)| *from_end).map(|(number, ..)| *number).max().unwrap_or(0);
    let star = if back > 0 { least.checked_sub(back)? } else { least.max(front) };
    all.insert(star, Pattern::Star(None));
    Some(all)
}

/// Returns true if a pattern may compare with a value, or use it as a key: a literal, or a dotted name.
pub(super) fn is_value(value: &Expr<'_>, is_key: bool) -> bool {
    match value {
        Expr::Const(Const::None | Const::Bool(_)) => is_key,
        Expr::Const(Const::Float(value)) => !value.is_nan(),
        Expr::Const(Const::Complex(real, imaginary)) => {
            // Other complex numbers are not sums of literals.
            !real.is_nan()
                && !imaginary.is_nan()
                && (*real != 0.0 || real.is_sign_positive() && imaginary.is_sign_positive())
                && *imaginary != 0.0
        }
        Expr::Const(Const::Int(_) | Const::Str(_) | Const::WideStr(_) | Const::Bytes(_)) => true,
        Expr::Attribute(object, _) => is_path(object),
        Expr::Unary(Unary::Minus, number) => matches!(**number, Expr::Const(Const::Int(_) | Const::Float(_))),
        _ => false,
    }
}

/// Returns true for a name, possibly dotted.
pub(super) fn is_path(value: &Expr<'_>) -> bool {
    match value {
        Expr::Name(_) => true,
        Expr::Attribute(object, _) => is_path(object),
        _ => false,
    }
}
