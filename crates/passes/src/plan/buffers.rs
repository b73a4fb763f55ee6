//! Memory: its owners, the windows on it, and the choice of memory for new values.

use dynamlir_dialect::{
    ir::{Type, Value},
    ops::{BufferOp, OutputBufferOp, ViewOp},
    pass::PassError,
};
use dynamlir_shapes::{Dim, Dimension};

use super::{
    Window,
    careful::{count, row_major, strided},
    graph::Planner,
    memory::Need,
    slots,
    views::{any_open, at, bytes, is_open, memref, workspace_type},
};

/// The owner of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// An argument of the graph.
    Arg(usize),
    /// The workspace.
    Workspace,
    /// A new tensor that will be returned.
    Output,
    /// A tensor created by an extern op.
    Extern,
}

/// Memory that windows refer to.
pub struct Buffer {
    memref: Value,
    /// The window that covers all of it.
    pub own: Window,
    /// The owner of the memory.
    pub owner: Owner,
    bytes: Dim,
    first: usize,
    last: usize,
    /// True once the memory is a result of the graph; it cannot be another result as well.
    pub returned: bool,
}

/// A value: a window on a buffer.
#[derive(Clone)]
pub struct BufferWindow {
    /// The buffer's number.
    pub buffer: usize,
    /// The part of the buffer.
    pub window: Window,
}

impl Planner<'_> {
    /// Adds a buffer that is used from this step on, and returns its number.
    pub(super) fn add(&mut self, memref: Value, own: Window, owner: Owner, bytes: Dim) -> usize {
        self.buffers.push(Buffer { memref, own, owner, bytes, first: self.step, last: self.step, returned: false });
        self.buffers.len() - 1
    }

    /// The memref for a window.
    pub(super) fn show(&mut self, place: &BufferWindow, element: Type) -> Value {
        let buffer = &mut self.buffers[place.buffer];
        buffer.last = self.step;
        if buffer.own == place.window && buffer.memref.ty().element() == element {
            return buffer.memref;
        }
        let (source, window, ty) = (buffer.memref, &place.window, memref(element, &place.window));
        if !is_open(&buffer.own) && !is_open(window) {
            return self.b.memref_reinterpret_cast(source, ty);
        }
        let view = ViewOp::build(&self.b, source, 0, &[], &[], ty);
        view.set_offset_dims(&window.offset);
        view.set_sizes_dims(&window.sizes);
        view.set_strides_dims(&window.strides);
        view.result()
    }

    /// Fresh memory in the workspace, dense with these strides.
    pub(super) fn slot(&mut self, sizes: &[Dim], strides: &[Dim], element: Type) -> BufferWindow {
        let window = strided(sizes, strides);
        let buffer = BufferOp::build(&self.b, self.workspace.result(), 0, memref(element, &window));
        if any_open(sizes) {
            buffer.set_sizes(sizes);
        }
        if any_open(strides) {
            buffer.set_strides(strides);
        }
        let need = count(sizes).mul(&Dim::from(bytes(element))).unwrap_or_else(|_| Dim::from(i64::MAX));
        let buffer = self.add(buffer.result(), window.clone(), Owner::Workspace, need);
        BufferWindow { buffer, window }
    }

    /// Fresh memory that only the next kernel launch uses.
    pub(super) fn slot_of(&mut self, elements: i64) -> Value {
        let element = Type::f32(self.ctx);
        let place = self.slot(&[elements.into()], &[1.into()], element);
        self.show(&place, element)
    }

    /// Allocates the memory of result `i` of the graph.
    pub(super) fn output(&mut self, i: usize) -> usize {
        let ty = self.result_types[i];
        let window = strided(&ty.dims(), &self.result_strides[i]);
        let memory = OutputBufferOp::build(&self.b, memref(ty.element(), &window));
        if any_open(&window.sizes) {
            memory.set_sizes(&window.sizes);
        }
        if any_open(&window.strides) {
            memory.set_strides(&window.strides);
        }
        let buffer = self.add(memory.result(), window, Owner::Output, Dim::from(0));
        self.result_buffers.insert(i, buffer);
        buffer
    }

    /// Fresh memory for a value, in row-major order.
    pub(super) fn row_major_slot(&mut self, value: Value) -> BufferWindow {
        let sizes = value.ty().dims();
        self.slot(&sizes, &row_major(&sizes, &self.scope), value.ty().element())
    }

    /// The preferred layout of a value.
    pub(super) fn wished(&self, value: Value) -> Window {
        let sizes = value.ty().dims();
        let strides = self.wishes.get(&value).map_or_else(|| row_major(&sizes, &self.scope), |wish| wish.strides.clone());
        strided(&sizes, &strides)
    }

    /// Memory for a new value, at its preferred place if it has one.
    pub(super) fn destination(&mut self, value: Value) -> BufferWindow {
        let Some(wish) = self.wishes.get(&value).cloned() else {
            return self.row_major_slot(value);
        };
        let sizes = value.ty().dims();
        match wish.result {
            Some(i) if !self.result_buffers.contains_key(&i) => {
                let buffer = self.output(i);
                BufferWindow { buffer, window: strided(&sizes, &wish.strides) }
            }
            _ => self.slot(&sizes, &wish.strides, value.ty().element()),
        }
    }

    /// Assigns an offset to every workspace buffer, and a size to the workspace.
    pub(super) fn place_buffers(&mut self) -> Result<(), PassError> {
        let slots: Vec<&Buffer> = self.buffers.iter().filter(|b| b.owner == Owner::Workspace).collect();
        let needs: Vec<Need<Dim>> = slots.iter().map(|b| Need { bytes: b.bytes.clone(), first: b.first, last: b.last }).collect();
        let (offsets, total) = at(self.workspace.op(), slots::place(&needs, &self.scope))?;
        for (slot, offset) in slots.iter().zip(offsets) {
            if let Some(buffer) = BufferOp::defining(slot.memref) {
                buffer.set_byte_offset_dims(&offset);
            }
        }
        self.workspace.result().set_type(workspace_type(self.ctx, &total));
        if total.known().is_none() {
            self.workspace.set_bytes(&total);
        }
        Ok(())
    }
}
