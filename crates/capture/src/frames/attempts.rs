//! Attempts to capture a frame or a piece of it: with symbolic numbers and sizes as far as Python does not need their values, otherwise
//! with constants.

use dynamlir_frame::settings;
use dynamlir_symint::Unbacked;
use pyo3::prelude::*;

use crate::{
    frames::{
        attempt_options::AttemptOptions,
        run::{Before, Breaks, CaptureFailure, CaptureRequest, Captured, Ended, Tables, capture_once},
    },
    graph_break::{GraphBreak, reason},
    state::dynamic_sizes::Dynamic,
};

/// The maximum number of times that a frame is captured again to break at an earlier instruction.
const MOST_RESTARTS: usize = 6;

/// Captures a frame to its end. If that is not possible, captures it up to the instruction that breaks the graph, or up to an earlier one
/// that creates something which the continuation could not take over.
///
/// If the piece begins inside a loop, the loop is captured to its end, provided that its graph does not break within. Otherwise each
/// iteration is a piece, like the iteration in which the frame was left.
///
/// If the capture fails because of unbacked sizes, the frame is captured without them.
pub(crate) fn with_or_without_unbacked(
    tables: &Tables,
    request: CaptureRequest<'_, '_>,
) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let first = with_or_without_unrolling(tables, request)?;
    if first.is_ok() || !request.unbacked.any() {
        return Ok(first);
    }
    let second = with_or_without_unrolling(tables, CaptureRequest { unbacked: Unbacked::default(), ..request })?;
    Ok(if second.is_ok() { second } else { first })
}

fn with_or_without_unrolling(tables: &Tables, request: CaptureRequest<'_, '_>) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let in_loops = request.from.is_some_and(|from| from.iter().any(|frame_state| !frame_state.made.is_empty()));
    if in_loops && let Ok(captured) = to_the_first_break(tables, CaptureRequest { unrolls: true, ..request })? {
        return Ok(Ok(captured));
    }
    to_the_first_break(tables, request)
}

fn to_the_first_break(tables: &Tables, request: CaptureRequest<'_, '_>) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let every = request.every.filter(|_| request.breaks != Breaks::Never);
    let asked = || GraphBreak { reason: reason::ASKED, message: "asked for by break_every".to_owned(), location: Vec::new() };
    let first = match with_fewer_symbols(tables, CaptureRequest { every, ..request }, MOST_ATTEMPTS)? {
        Ok(mut captured) => {
            if captured.epilogue.suspends().is_some() {
                captured.graph_break = Some(asked());
            }
            return Ok(Ok(captured));
        }
        Err(failure) if every.is_some() && failure.graph_break.reason == reason::RESUMED => {
            CaptureFailure { graph_break: asked(), ..failure }
        }
        Err(failure) => failure,
    };
    let forbids = || first.forbids.unwrap_or_else(|| settings::breaks_are_errors(request.function.py()));
    let only_regions = request.before == Before::Regions;
    let (is_region, is_resumed) = (first.graph_break.reason == reason::REGION, first.graph_break.reason == reason::RESUMED);
    // A capture that has begun with a region continues.
    let is_whole = is_region || is_resumed && request.from.is_some();
    let forbidden = if only_regions { !is_whole } else { !is_region && !is_resumed && forbids() };
    let may_break = request.breaks != Breaks::Never && !forbidden;
    let in_pieces = may_break && !first.unrolling && first.graph_break.kind() != reason::Kind::Refuse;
    let mut stop = first.step.filter(|_| in_pieces);
    for _ in 0..MOST_RESTARTS {
        let Some(step) = stop else { break };
        // `instead` belongs to the first break. A break at an earlier instruction runs a different instruction.
        let instead = first.instead.as_ref().filter(|_| Some(step) == first.step);
        match with_fewer_symbols(tables, CaptureRequest { stop: Some(step), every: None, instead, ..request }, MOST_ATTEMPTS)? {
            Ok(captured) => {
                let allowed = first.forbids == Some(false) || is_region || only_regions;
                return Ok(Ok(Captured { graph_break: Some(first.graph_break), allowed, ..captured }));
            }
            // Before a region, nothing falls back to plain Python.
            Err(failure) if is_region && (only_regions || forbids()) => return Ok(Err(failure)),
            Err(failure) => stop = failure.step.filter(|earlier| *earlier < step),
        }
    }
    Ok(Err(first))
}

/// The maximum number of captures with symbolic floats before all floats of the frame become constants.
const MOST_ATTEMPTS: usize = 6;

/// Captures a frame with symbolic floats for those that have changed. If the graph breaks because Python needs the values of some of them,
/// those are constants from then on.
fn with_fewer_symbols(
    tables: &Tables,
    request: CaptureRequest<'_, '_>,
    attempts: usize,
) -> Result<Result<Captured, CaptureFailure>, Ended> {
    let first = capture_once(tables, request, AttemptOptions::default())?;
    let (Err(CaptureFailure { numbers, sizes, blamed, .. }), Some(floats)) = (&first, request.history) else { return Ok(first) };
    if numbers.is_empty() && sizes.is_empty() {
        return Ok(first);
    }
    if let Err(failure) = &first {
        log_specialization(request.function, failure)?;
    }
    if !blamed.is_empty() && attempts > 1 {
        for place in blamed {
            floats.specialize(place.clone());
        }
        return with_fewer_symbols(tables, request, attempts - 1);
    }
    if request.sizes == Dynamic::Declared {
        // A size that is declared dynamic must not become a constant.
        return Ok(first);
    }
    if !sizes.is_empty() {
        let second = with_fewer_symbols(tables, CaptureRequest { sizes: Dynamic::Never, ..request }, attempts)?;
        return Ok(match &second {
            Ok(_) => {
                for place in sizes {
                    floats.specialize(place.clone());
                }
                second
            }
            // Marked sizes must not become constants, so this attempt fails because of them. The first attempt has the actual reason.
            Err(failure) if failure.graph_break.reason == reason::DYNAMIC_SHAPE => first,
            Err(_) => second,
        });
    }
    match capture_once(tables, CaptureRequest { history: None, ..request }, AttemptOptions::default())? {
        Ok(captured) => {
            for place in numbers {
                floats.specialize(place.clone());
            }
            Ok(Ok(captured))
        }
        // The floats are not the reason: the capture ends regardless of their values.
        Err(_) => Ok(first),
    }
}

/// Logs the reason why an attempt with dynamic sizes failed.
fn log_specialization(function: &Bound<'_, PyAny>, failure: &CaptureFailure) -> PyResult<()> {
    if failure.sizes.is_empty() {
        return Ok(());
    }
    let (name, found) = (function.getattr("__qualname__")?, &failure.graph_break);
    let places = if failure.blamed.is_empty() { &failure.sizes } else { &failure.blamed };
    let session = dynamlir_cpython_abi::import(function.py(), "dynamlir.capture.session")?;
    session.call_method1("tell_given_up", (name, places.clone(), found.reason, &found.message, found.location.clone()))?;
    Ok(())
}
