//! The points at which frames are between two graphs, and the caches of the entries that are compiled from there.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

use dynamlir_interpreter::FrameState;
use rustc_hash::FxHasher;

use crate::cache::Cache;

/// The points of nested frames, outermost first, without their values.
#[derive(Debug)]
pub(crate) struct ContinuationKey(Box<[FrameKey]>);

/// The point of one frame.
#[derive(Debug)]
struct FrameKey {
    /// The address of its code. If other code has this address later, the function is a different one, and the function is guarded.
    code: usize,
    /// The unit of the next instruction.
    unit: u32,
    /// The locals, then the stack.
    slots: Box<[Slot]>,
}

/// The state of a slot that is known without inspecting its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    /// No value.
    Empty,
    /// A value.
    Full,
    /// An iterator that no other code holds.
    Made,
}

fn code_of(frame: &FrameState) -> usize {
    frame.code.as_ref().map_or(0, |code| code.as_ptr() as usize)
}

fn slots_of(frame: &FrameState) -> impl ExactSizeIterator<Item = Slot> {
    let locals = frame.locals.len();
    (0..frame.len()).map(move |slot| match slot.checked_sub(locals) {
        None if frame.locals[slot].is_some() => Slot::Full,
        Some(place) if frame.stack[place].is_none() => Slot::Empty,
        Some(place) if frame.made.contains(&place) => Slot::Made,
        Some(_) => Slot::Full,
        None => Slot::Empty,
    })
}

impl FrameKey {
    fn of(frame: &FrameState) -> Self {
        Self { code: code_of(frame), unit: frame.unit, slots: slots_of(frame).collect() }
    }

    fn is_of(&self, frame: &FrameState) -> bool {
        (self.code, self.unit) == (code_of(frame), frame.unit) && slots_of(frame).eq(self.slots.iter().copied())
    }
}

impl ContinuationKey {
    fn of(frames: &[Rc<FrameState>]) -> Self {
        Self(frames.iter().map(|frame| FrameKey::of(frame)).collect())
    }

    fn is_of(&self, frames: &[Rc<FrameState>]) -> bool {
        self.0.len() == frames.len() && self.0.iter().zip(frames).all(|(place, frame)| place.is_of(frame))
    }

    /// Returns the unit of the outermost frame's next instruction.
    pub(crate) fn unit(&self) -> u32 {
        self.0.first().map_or(0, |outermost| outermost.unit)
    }
}

/// The caches of continuations.
#[derive(Default)]
pub(crate) struct Continuations(HashMap<u64, Vec<(ContinuationKey, Arc<Cache>)>>);

impl Continuations {
    /// Returns the cache for frames at the same point as these.
    pub(crate) fn at(&mut self, frames: &[Rc<FrameState>]) -> Arc<Cache> {
        let mut hasher = FxHasher::default();
        for frame in frames {
            (code_of(frame), frame.unit).hash(&mut hasher);
        }
        let known = self.0.entry(hasher.finish()).or_default();
        if let Some((_, cache)) = known.iter().find(|(point, _)| point.is_of(frames)) {
            return cache.clone();
        }
        let cache = Arc::default();
        known.push((ContinuationKey::of(frames), Arc::clone(&cache)));
        cache
    }

    /// Returns all of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(ContinuationKey, Arc<Cache>)> {
        self.0.values().flatten()
    }
}
