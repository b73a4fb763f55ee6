//! Points at which frames stand between two graphs, and the caches of the entries that are compiled from there.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

use dynamlir_interpreter::Standing;
use rustc_hash::FxHasher;

use crate::cache::Cache;

/// Where frames stand that run within one another, the outermost first, without what is in them.
#[derive(Debug)]
pub(crate) struct Point(Box<[Place]>);

/// Where one of them stands.
#[derive(Debug)]
struct Place {
    /// The address of its code. Where another one has it later, the function is another one, which is guarded.
    code: usize,
    /// The unit of the next instruction.
    unit: u32,
    /// The locals, then the stack.
    slots: Box<[Slot]>,
}

/// What is known of a slot without a look at its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    /// Nothing is there.
    Empty,
    /// A value is there.
    Full,
    /// An iterator is there that nobody else has.
    Made,
}

fn code_of(frame: &Standing) -> usize {
    frame.code.as_ref().map_or(0, |code| code.as_ptr() as usize)
}

fn slots_of(frame: &Standing) -> impl ExactSizeIterator<Item = Slot> {
    let locals = frame.locals.len();
    (0..frame.len()).map(move |slot| match slot.checked_sub(locals) {
        None if frame.locals[slot].is_some() => Slot::Full,
        Some(place) if frame.stack[place].is_none() => Slot::Empty,
        Some(place) if frame.made.contains(&place) => Slot::Made,
        Some(_) => Slot::Full,
        None => Slot::Empty,
    })
}

impl Place {
    fn of(frame: &Standing) -> Self {
        Self { code: code_of(frame), unit: frame.unit, slots: slots_of(frame).collect() }
    }

    fn is_of(&self, frame: &Standing) -> bool {
        (self.code, self.unit) == (code_of(frame), frame.unit) && slots_of(frame).eq(self.slots.iter().copied())
    }
}

impl Point {
    fn of(frames: &[Rc<Standing>]) -> Self {
        Self(frames.iter().map(|frame| Place::of(frame)).collect())
    }

    fn is_of(&self, frames: &[Rc<Standing>]) -> bool {
        self.0.len() == frames.len() && self.0.iter().zip(frames).all(|(place, frame)| place.is_of(frame))
    }

    /// The unit of the outermost frame's next instruction.
    pub(crate) fn unit(&self) -> u32 {
        self.0.first().map_or(0, |outermost| outermost.unit)
    }
}

/// The caches of frames that stand elsewhere than at their beginning.
#[derive(Default)]
pub(crate) struct Continuations(HashMap<u64, Vec<(Point, Arc<Cache>)>>);

impl Continuations {
    /// The cache for frames that stand as these do.
    pub(crate) fn at(&mut self, frames: &[Rc<Standing>]) -> Arc<Cache> {
        let mut hasher = FxHasher::default();
        for frame in frames {
            (code_of(frame), frame.unit).hash(&mut hasher);
        }
        let known = self.0.entry(hasher.finish()).or_default();
        if let Some((_, cache)) = known.iter().find(|(point, _)| point.is_of(frames)) {
            return cache.clone();
        }
        let cache = Arc::default();
        known.push((Point::of(frames), Arc::clone(&cache)));
        cache
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Point, Arc<Cache>)> {
        self.0.values().flatten()
    }
}
