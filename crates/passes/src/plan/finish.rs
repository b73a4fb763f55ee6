//! The end of a graph: results in their own memory, and mutations of arguments.

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    ops::{CommitOp, LaunchOp},
    pass::PassError,
};
use dynamlir_shapes::Dimension;

use super::{
    buffers::{BufferWindow, Owner},
    careful::{count, may_repeat, repeated_dims, same_strides, strided},
    externs::may_write,
    graph::Planner,
    views::at,
};

impl Planner<'_> {
    /// Moves results to their own memory, then emits the mutations, starting with those by `later` launches. Returns the memrefs to return.
    pub(super) fn finish(&mut self, ret: Op, mutates: &[Option<usize>], later: &[Op]) -> Result<Vec<Value>, PassError> {
        let mut returned = Vec::new();
        let users: Vec<Value> = (0..ret.num_operands()).filter(|&i| mutates[i].is_none()).map(|i| ret.operand(i)).collect();
        for (i, value) in users.into_iter().enumerate() {
            let place = self.place_of(value, ret)?;
            returned.push(self.result(ret, i, &place, value.ty().element())?);
        }
        let mut writes = Vec::new();
        for (i, target) in mutates.iter().enumerate() {
            let Some(arg) = *target else { continue };
            if self.in_place.values().any(|launch| launch.targets.iter().any(|(argument, _)| *argument == arg)) {
                continue;
            }
            let value = ret.operand(i);
            may_write(ret, value)?;
            let mut place = self.place_of(value, ret)?;
            // A value read from an argument that is written below must be copied first.
            if let Owner::Arg(source) = self.buffers[place.buffer].owner
                && (source != arg || self.buffers[place.buffer].own != place.window)
                && self.mutated.contains(&source)
            {
                place = self.row_major_copy(&place, value.ty().element())?;
            }
            writes.push((place, arg, value.ty().element()));
        }
        if !writes.is_empty() || !later.is_empty() {
            CommitOp::build(&self.b);
        }
        for &launch in later.iter().filter(|op| op.is(LaunchOp::NAME)) {
            self.b.loc = launch.loc();
            self.launch_in_place(launch)?;
        }
        self.b.loc = ret.loc();
        for (place, arg, element) in writes {
            let target = BufferWindow { buffer: arg, window: self.buffers[arg].own.clone() };
            if place.buffer == arg && place.window == target.window {
                continue;
            }
            // If the argument repeats an element, so does the value (functionalization ensures it): one write is enough.
            let once = repeated_dims(&target.window, &self.scope);
            let first = |place: &BufferWindow| {
                Ok::<_, PassError>(BufferWindow { buffer: place.buffer, window: at(ret, place.window.first_of(&once))? })
            };
            self.copy(&first(&place)?, &first(&target)?, element)?;
        }
        Ok(returned)
    }

    /// Provides result `i`: its own memory if the value was computed there, else a copy.
    pub(super) fn result(&mut self, ret: Op, i: usize, place: &BufferWindow, element: Type) -> Result<Value, PassError> {
        let window = strided(&self.result_types[i].dims(), &self.result_strides[i]);
        let fits = place.window.offset.is(0) && same_strides(&window.sizes, &place.window.strides, &window.strides, &self.scope);
        let buffer = &self.buffers[place.buffer];
        let whole = count(&buffer.own.sizes) == count(&place.window.sizes);
        let mine = match buffer.owner {
            Owner::Output => self.result_buffers.get(&i) == Some(&place.buffer),
            Owner::Extern => true,
            Owner::Arg(_) | Owner::Workspace => false,
        };
        if fits && whole && mine && !buffer.returned {
            self.buffers[place.buffer].returned = true;
            return Ok(self.show(&BufferWindow { buffer: place.buffer, window }, element));
        }
        if may_repeat(&window, &self.scope) {
            return Err(PassError::at(ret, format!("result {i} shows an element of its own memory twice")));
        }
        let target = self.output(i);
        self.copy(place, &BufferWindow { buffer: target, window: window.clone() }, element)?;
        self.buffers[target].returned = true;
        Ok(self.show(&BufferWindow { buffer: target, window }, element))
    }
}
