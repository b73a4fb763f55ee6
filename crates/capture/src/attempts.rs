//! Attempts: a frame whole or a piece of it; with numbers and sizes that vary, as far as Python does not need to know them, else with
//! constants.

use dynamlir_frame::settings;
use pyo3::prelude::*;

use crate::{
    graph_break::{GraphBreak, reason},
    manner::Manner,
    run::{Before, Breaks, Broken, Captured, Ended, Subject, Tables, whole},
    sizes::{Dynamic, Unbacked},
};

/// How often a frame is captured again to be left to Python earlier.
const MOST_RESTARTS: usize = 6;

/// Where a frame cannot be captured to its end, it is captured up to the instruction that ends it, or to the one that makes what cannot
/// be carried on from there.
///
/// A loop in which it stands is captured to its end if its graph does not end within: else each iteration is a piece, as the one was in which
/// it was left.
///
/// Where sizes that only running tells are what it cannot be captured for, it is captured without such.
pub(crate) fn pieces_as_told(tables: &Tables, subject: Subject<'_, '_>) -> Result<Result<Captured, Broken>, Ended> {
    let first = in_loops_or_not(tables, subject)?;
    if first.is_ok() || !subject.unbacked.any() {
        return Ok(first);
    }
    let second = in_loops_or_not(tables, Subject { unbacked: Unbacked::default(), ..subject })?;
    Ok(if second.is_ok() { second } else { first })
}

fn in_loops_or_not(tables: &Tables, subject: Subject<'_, '_>) -> Result<Result<Captured, Broken>, Ended> {
    let in_loops = subject.from.is_some_and(|from| from.iter().any(|standing| !standing.made.is_empty()));
    if in_loops && let Ok(captured) = one_piece(tables, Subject { unrolls: true, ..subject })? {
        return Ok(Ok(captured));
    }
    one_piece(tables, subject)
}

fn one_piece(tables: &Tables, subject: Subject<'_, '_>) -> Result<Result<Captured, Broken>, Ended> {
    let every = subject.every.filter(|_| subject.breaks != Breaks::Never);
    let asked = || GraphBreak { reason: reason::ASKED, message: "asked for by break_every".to_owned(), location: Vec::new() };
    let first = match numbered(tables, Subject { every, ..subject }, MOST_ATTEMPTS)? {
        Ok(mut captured) => {
            if captured.epilogue.suspends().is_some() {
                captured.graph_break = Some(asked());
            }
            return Ok(Ok(captured));
        }
        Err(broken) if every.is_some() && broken.graph_break.reason == reason::RESUMED => Broken { graph_break: asked(), ..broken },
        Err(broken) => broken,
    };
    let forbids = || first.forbids.unwrap_or_else(|| settings::breaks_are_errors(subject.function.py()));
    let only_regions = subject.before == Before::Regions;
    let (is_region, is_resumed) = (first.graph_break.reason == reason::REGION, first.graph_break.reason == reason::RESUMED);
    // What has begun with a region goes on.
    let is_whole = is_region || is_resumed && subject.from.is_some();
    let forbidden = if only_regions { !is_whole } else { !is_region && !is_resumed && forbids() };
    let may_break = subject.breaks != Breaks::Never && !forbidden;
    let in_pieces = may_break && !first.unrolling && first.graph_break.kind() != reason::Kind::Refuse;
    let mut stop = first.step.filter(|_| in_pieces);
    for _ in 0..MOST_RESTARTS {
        let Some(step) = stop else { break };
        // Where it has to be left earlier, another instruction is next.
        let instead = first.instead.as_ref().filter(|_| Some(step) == first.step);
        match numbered(tables, Subject { stop: Some(step), every: None, instead, ..subject }, MOST_ATTEMPTS)? {
            Ok(captured) => {
                let allowed = first.forbids == Some(false) || is_region || only_regions;
                return Ok(Ok(Captured { graph_break: Some(first.graph_break), allowed, ..captured }));
            }
            // Before a region there is nothing to be left to Python.
            Err(broken) if is_region && (only_regions || forbids()) => return Ok(Err(broken)),
            Err(broken) => stop = broken.step.filter(|earlier| *earlier < step),
        }
    }
    Ok(Err(first))
}

/// How often a frame is captured with numbers before its floats are all taken for constants.
const MOST_ATTEMPTS: usize = 6;

/// Floats that have changed are numbers of the graph, unless that is why it ends: those that Python looks at are constants from then on.
fn numbered(tables: &Tables, subject: Subject<'_, '_>, attempts: usize) -> Result<Result<Captured, Broken>, Ended> {
    let first = whole(tables, subject, Manner::default())?;
    let (Err(Broken { numbers, sizes, blamed, .. }), Some(floats)) = (&first, subject.floats) else { return Ok(first) };
    if numbers.is_empty() && sizes.is_empty() {
        return Ok(first);
    }
    if let Err(broken) = &first {
        tell_given_up(subject.function, broken)?;
    }
    if !blamed.is_empty() && attempts > 1 {
        for place in blamed {
            floats.specialize(place.clone());
        }
        return numbered(tables, subject, attempts - 1);
    }
    if subject.sizes == Dynamic::Declared {
        // What was declared to vary is no number.
        return Ok(first);
    }
    if !sizes.is_empty() {
        let second = numbered(tables, Subject { sizes: Dynamic::Never, ..subject }, attempts)?;
        return Ok(match &second {
            Ok(_) => {
                for place in sizes {
                    floats.specialize(place.clone());
                }
                second
            }
            // A marked size is taken for no number: what ends the capture is something else.
            Err(broken) if broken.graph_break.reason == reason::DYNAMIC_SHAPE => first,
            Err(_) => second,
        });
    }
    match whole(tables, Subject { floats: None, ..subject }, Manner::default())? {
        Ok(captured) => {
            for place in numbers {
                floats.specialize(place.clone());
            }
            Ok(Ok(captured))
        }
        // They are not the reason. So it ends whatever they are.
        Err(_) => Ok(first),
    }
}

/// Logs why an attempt with sizes that vary came to nothing.
fn tell_given_up(function: &Bound<'_, PyAny>, broken: &Broken) -> PyResult<()> {
    if broken.sizes.is_empty() {
        return Ok(());
    }
    let (name, found) = (function.getattr("__qualname__")?, &broken.graph_break);
    let places = if broken.blamed.is_empty() { &broken.sizes } else { &broken.blamed };
    let session = dynamlir_cpython_abi::import(function.py(), "dynamlir.capture.session")?;
    session.call_method1("tell_given_up", (name, places.clone(), found.reason, &found.message, found.location.clone()))?;
    Ok(())
}
