//! The base value of a storage: its current contents, which views read and writes replace.
//!
//! It looks like a root of the storage where one root shows everything that is ever shown. Else it is one-dimensional
//! and covers the memory from the first to the last root, with zeros where no root looks.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Builder, Value},
    ops::HistoryOp,
};
use dynamlir_shapes::Scope;

use super::{
    access,
    coordinates::{Coordinates, Window, canonical, shown},
    storage::Storage,
};
use crate::emit::Emit;

/// Current contents of a storage.
pub struct Base {
    value: Value,
    coordinates: Coordinates,
    /// What has been read since the last write.
    seen: HashMap<Window, Value>,
    /// The roots that show everything there is to show, as indices into the storage's.
    pub covering: Vec<usize>,
}

impl Base {
    /// The contents at the start, when `values` are those of the roots; else why that cannot be.
    pub fn new(b: &Builder, storage: &Storage, values: &[Value], scope: &Scope) -> Result<Self, String> {
        if storage.mixed {
            return Err("a storage that is written is shown in two element types".into());
        }
        let roots: Vec<_> = storage.roots.iter().map(|root| shown(root.ty())).collect();
        let sees_all = |coordinates: &Coordinates| storage.windows.iter().all(|w| coordinates.locate(w, scope).is_some());
        let stretch = |root: &Window| Some(Coordinates::Stretch { offset: root.offset.clone(), len: root.element_count().ok()? });
        // In this order the fewest primitives are needed.
        for (i, root) in roots.iter().enumerate() {
            if root.is_contiguous_in(scope).unwrap_or(false)
                && let Some(coordinates) = stretch(root).filter(&sees_all)
            {
                return Ok(Self::like(values[i], coordinates, i));
            }
        }
        for (i, root) in roots.iter().enumerate() {
            let coordinates = Coordinates::Of(canonical(root));
            if !root.may_repeat_in(scope).unwrap_or(true) && sees_all(&coordinates) {
                return Ok(Self::like(values[i], coordinates, i));
            }
        }
        for (i, root) in roots.iter().enumerate() {
            if let (Some(order), Some(coordinates)) = (root.known().and_then(|root| root.memory_order()), stretch(root).filter(&sees_all)) {
                return Ok(Self::like(access::permute(b, values[i], &order), coordinates, i));
            }
        }
        if storage.absolute {
            return Err("as_strided shows memory that no tensor of the graph shows".into());
        }
        Self::gathered(b, &roots, values, scope).ok_or_else(|| "unsupported aliasing of inputs".into())
    }

    fn like(value: Value, coordinates: Coordinates, root: usize) -> Self {
        Self { value, coordinates, seen: HashMap::new(), covering: vec![root] }
    }

    /// All roots in one stretch of memory. They are windows of numbers.
    fn gathered(b: &Builder, roots: &[Window], values: &[Value], scope: &Scope) -> Option<Self> {
        let roots: Vec<_> = roots.iter().map(Window::known).collect::<Option<_>>()?;
        let offset = roots.iter().map(|root| root.offset).min()?;
        let len = roots.iter().map(dynamlir_shapes::Window::end).max()? - offset;
        let coordinates = Coordinates::Stretch { offset: offset.into(), len: len.into() };
        let element = values.first()?.ty().element();
        let mut value = Emit::new(*b).full(&[len], element, 0.0);
        for (root, &from) in roots.iter().zip(values) {
            let once = root.without_repetition()?;
            // The first of each repetition stands for all.
            let first = dynamlir_shapes::Window { sizes: once.sizes.clone(), ..dynamlir_shapes::Window::row_major(&root.sizes) };
            let first = access::read(b, from, &first.into(), scope);
            value = access::write(b, value, &coordinates.locate(&once.into(), scope)?, first, scope);
        }
        Some(Self { value, coordinates, seen: HashMap::new(), covering: (0..roots.len()).collect() })
    }

    /// What a window shows now.
    pub fn read(&mut self, b: &Builder, window: &Window, scope: &Scope) -> Option<Value> {
        let key = canonical(window);
        if let Some(&seen) = self.seen.get(&key) {
            return Some(seen);
        }
        let value = access::read(b, self.value, &self.coordinates.locate(&key, scope)?, scope);
        self.seen.insert(key, value);
        Some(value)
    }

    /// Replaces what a window shows, with grad mode off: the gradient stays that of what was there before.
    pub fn write_unrecorded(&mut self, b: &Builder, window: &Window, source: Value, scope: &Scope) -> Option<()> {
        let old = self.value;
        self.write(b, window, source, scope)?;
        self.value = HistoryOp::build(b, self.value, old).result();
        self.seen.clear();
        Some(())
    }

    /// Replaces what a window shows. The window shows no element twice.
    pub fn write(&mut self, b: &Builder, window: &Window, source: Value, scope: &Scope) -> Option<()> {
        self.value = access::write(b, self.value, &self.coordinates.locate(window, scope)?, source, scope);
        self.seen.clear();
        self.seen.insert(canonical(window), source);
        Some(())
    }
}
