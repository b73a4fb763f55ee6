//! The base value of a storage: its current contents, from which views are read and which writes replace.
//!
//! If one root covers everything that is ever accessed, the base value has that root's shape. Otherwise it is one-dimensional and covers
//! the memory from the first to the last root, with zeros between roots. A storage that is viewed both as complex and as real numbers has a
//! base of real numbers.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Builder, Op, Type, Value},
    ops::{AsStridedScatterOp, AtenOp, HistoryOp, OverwriteOp},
};
use dynamlir_shapes::Scope;

use super::{
    access,
    coordinates::{Coordinates, Window, canonical, shown},
    pairs::{as_elements, as_reals, in_reals, reals_of},
    storage::Storage,
};
use crate::emit::Emit;

/// The current contents of a storage.
pub struct Base {
    value: Value,
    coordinates: Coordinates,
    /// The values read since the last write, by window and element type.
    seen: HashMap<(Window, Type), Value>,
    /// True if the value is stored as real numbers, in pairs for the complex tensors that view it.
    is_paired: bool,
    /// The roots that cover everything that is accessed, as indices into the storage's roots.
    pub covering: Vec<usize>,
}

impl Base {
    /// Builds the initial contents from the roots' `values`, or returns the reason why that is impossible.
    pub fn new(b: &Builder, storage: &Storage, values: &[Value], scope: &Scope) -> Result<Self, String> {
        let is_paired = reals_of(&storage.elements).is_some();
        if storage.elements.len() > 1 && !is_paired {
            return Err("a storage that is written is shown in two element types".into());
        }
        let in_units = |window: &Window, element: Type| if is_paired { in_reals(window, element) } else { Some(window.clone()) };
        let roots = storage.roots.iter().map(|root| in_units(&shown(root.ty()), root.ty().element())).collect::<Option<Vec<_>>>();
        let windows = storage.windows.iter().map(|(window, element)| in_units(window, *element)).collect::<Option<Vec<_>>>();
        let (roots, windows) = roots.zip(windows).ok_or("sizes cannot be counted")?;
        let made: Vec<Value>;
        let values = if is_paired {
            made = values.iter().map(|&value| as_reals(b, value, scope)).collect();
            &made
        } else {
            values
        };
        let like = |value: Value, coordinates: Coordinates, root: usize| {
            Ok(Self { value, coordinates, seen: HashMap::new(), is_paired, covering: vec![root] })
        };
        let sees_all = |coordinates: &Coordinates| windows.iter().all(|w| coordinates.locate(w, scope).is_some());
        let stretch = |root: &Window| Some(Coordinates::Stretch { offset: root.offset.clone(), len: root.element_count().ok()? });
        // The order that needs the fewest primitives.
        for (i, root) in roots.iter().enumerate() {
            if root.is_contiguous_in(scope).unwrap_or(false)
                && let Some(coordinates) = stretch(root).filter(&sees_all)
            {
                return like(values[i], coordinates, i);
            }
        }
        for (i, root) in roots.iter().enumerate() {
            let coordinates = Coordinates::Of(canonical(root));
            if !root.may_repeat_in(scope).unwrap_or(true) && sees_all(&coordinates) {
                return like(values[i], coordinates, i);
            }
        }
        for (i, root) in roots.iter().enumerate() {
            if let (Some(order), Some(coordinates)) = (root.known().and_then(|root| root.memory_order()), stretch(root).filter(&sees_all)) {
                return like(access::permute(b, values[i], &order), coordinates, i);
            }
        }
        if storage.absolute {
            return Err("as_strided shows memory that no tensor of the graph shows".into());
        }
        let (value, coordinates) = Self::gathered(b, &roots, values, scope).ok_or("unsupported aliasing of inputs")?;
        Ok(Self { value, coordinates, seen: HashMap::new(), is_paired, covering: (0..roots.len()).collect() })
    }

    /// Gathers all roots into one stretch of memory. Supports only windows with constant sizes and strides.
    fn gathered(b: &Builder, roots: &[Window], values: &[Value], scope: &Scope) -> Option<(Value, Coordinates)> {
        let roots: Vec<_> = roots.iter().map(Window::known).collect::<Option<_>>()?;
        let offset = roots.iter().map(|root| root.offset).min()?;
        let len = roots.iter().map(dynamlir_shapes::Window::end).max()? - offset;
        let coordinates = Coordinates::Stretch { offset: offset.into(), len: len.into() };
        let element = values.first()?.ty().element();
        let mut value = Emit::new(*b).full(&[len], element, 0.0);
        for (root, &from) in roots.iter().zip(values) {
            let once = root.without_repetition()?;
            // The first element of each repetition represents all.
            let first = dynamlir_shapes::Window { sizes: once.sizes.clone(), ..dynamlir_shapes::Window::row_major(&root.sizes) };
            let first = access::read(b, from, &first.into(), scope);
            value = access::write(b, value, &coordinates.locate(&once.into(), scope)?, first, scope);
        }
        Some((value, coordinates))
    }

    /// Returns the current contents of a tensor.
    pub fn read(&mut self, b: &Builder, tensor: Type, scope: &Scope) -> Option<Value> {
        let key = (canonical(&shown(tensor)), tensor.element());
        if let Some(&seen) = self.seen.get(&key) {
            return Some(seen);
        }
        let value = self.read_anew(b, tensor, scope)?;
        self.seen.insert(key, value);
        Some(value)
    }

    /// Like [`Base::read`], but always emits a new operation, even if the contents of the tensor are known.
    pub fn read_anew(&self, b: &Builder, tensor: Type, scope: &Scope) -> Option<Value> {
        let window = self.in_units(&canonical(&shown(tensor)), tensor.element())?;
        let part = access::read(b, self.value, &self.coordinates.locate(&window, scope)?, scope);
        Some(if self.is_paired { as_elements(b, part, tensor.element(), scope) } else { part })
    }

    /// Replaces the contents of a tensor with grad mode off: the gradient remains that of the old contents.
    pub fn write_unrecorded(&mut self, b: &Builder, tensor: Type, source: Value, scope: &Scope) -> Option<()> {
        let old = self.value;
        self.write(b, tensor, source, scope)?;
        self.value = HistoryOp::build(b, self.value, old).result();
        self.seen.clear();
        Some(())
    }

    /// Replaces the contents of a tensor. The tensor must not show any element twice.
    pub fn write(&mut self, b: &Builder, tensor: Type, source: Value, scope: &Scope) -> Option<()> {
        let window = shown(tensor);
        let place = self.coordinates.locate(&self.in_units(&window, tensor.element())?, scope)?;
        let part = if self.is_paired { as_reals(b, source, scope) } else { source };
        self.value = access::write(b, self.value, &place, part, scope);
        self.seen.clear();
        self.seen.insert((canonical(&window), tensor.element()), source);
        Some(())
    }

    /// Replaces the contents of a tensor. If nothing is left of the old contents, their gradient is zeros.
    pub fn overwrite(&mut self, b: &Builder, tensor: Type, source: Value, scope: &Scope) -> Option<()> {
        let old = self.value;
        let place = self.coordinates.locate(&self.in_units(&shown(tensor), tensor.element())?, scope)?;
        self.write(b, tensor, source, scope)?;
        if access::replaces(old, &place, scope) {
            self.value = OverwriteOp::build(b, self.value, old).result();
            self.seen.clear();
        }
        Some(())
    }

    /// The operation that marks the old contents as fully overwritten, if it produced the current contents.
    pub fn overwritten(&self) -> Option<Op> {
        self.value.def().filter(|op| op.is(OverwriteOp::NAME))
    }

    /// The operation that scattered a part into the base, if it produced the current contents.
    pub fn scattered(&self) -> Option<Op> {
        let is_scatter = |op: &Op| {
            let schema = AtenOp::cast(*op).map(AtenOp::schema);
            op.is(AsStridedScatterOp::NAME) || schema.is_some_and(|schema| schema == "aten.as_strided_scatter.default")
        };
        self.value.def().filter(is_scatter)
    }

    /// Converts a window from elements of its type to elements of the base value.
    fn in_units(&self, window: &Window, element: Type) -> Option<Window> {
        if self.is_paired { in_reals(window, element) } else { Some(window.clone()) }
    }
}
