//! Verifies that the inputs match those for which the plan was created, before anything happens.

use dynamlir_torch_abi::{Device, Meta, TensorRef, TorchAbi, TorchError};

use crate::lower::Program;
use crate::overlap::{self, Range};
use crate::plan::InputSpec;

/// The results of `verify` that the run uses.
#[derive(Default)]
pub(crate) struct Inputs {
    /// Address of element 0 of each input.
    pub pointers: Vec<*mut u8>,
    ranges: Vec<Range>,
}

/// Checks every input against its spec; the error says which one differs and how.
pub(crate) fn verify(specs: &[InputSpec], program: &Program, inputs: &[TensorRef<'_>], out: &mut Inputs) -> Result<(), Unfit> {
    if specs.len() != inputs.len() {
        return Err(format!("{} tensors were expected, {} given", specs.len(), inputs.len()).into());
    }
    out.pointers.clear();
    for (i, ((spec, reach), &tensor)) in specs.iter().zip(&program.input_reach).zip(inputs).enumerate() {
        let pointer = one(program.device, spec, *reach, tensor).map_err(|e| format!("input {i}: {e}"))?;
        out.pointers.push(pointer);
    }
    together(specs, program, out)
}

/// The reason that inputs do not match those for which a plan was created.
#[derive(Debug)]
pub struct Unfit {
    /// The message.
    pub what: String,
    /// True if each input matches, but their memory is arranged differently relative to each other.
    pub overlaps: bool,
}

impl From<String> for Unfit {
    fn from(what: String) -> Self {
        Self { what, overlaps: false }
    }
}

/// Like [`verify`], for inputs whose metadata [`accepts`] has approved: only memory is checked.
pub(crate) fn verify_memory(specs: &[InputSpec], program: &Program, inputs: &[TensorRef<'_>], out: &mut Inputs) -> Result<(), Unfit> {
    if specs.len() != inputs.len() {
        return Err(format!("{} tensors were expected, {} given", specs.len(), inputs.len()).into());
    }
    out.pointers.clear();
    for (i, (&tensor, need)) in inputs.iter().zip(&program.input_needs).enumerate() {
        let memory = tensor.readable(need.element_bytes);
        let pointer = match memory {
            Some(memory) if need.in_place && memory.before >= need.before && memory.after >= need.after && !memory.first.is_null() => {
                memory.first.cast_mut()
            }
            // Written, empty and unsuitable inputs take the slow path.
            _ => one(program.device, &specs[i], program.input_reach[i], tensor).map_err(|e| format!("input {i}: {e}"))?,
        };
        out.pointers.push(pointer);
    }
    together(specs, program, out)
}

/// Checks the arrangement of the inputs' memory relative to each other.
fn together(specs: &[InputSpec], program: &Program, out: &mut Inputs) -> Result<(), Unfit> {
    let overlaps = |what| Unfit { what, overlaps: true };
    if program.grouped {
        groups(specs, &out.pointers).map_err(overlaps)?;
    }
    if program.mutates {
        disjoint(specs, &program.input_reach, out).map_err(overlaps)?;
    }
    Ok(())
}

/// The requirements on an input's memory, besides its metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// True if its address may be read directly: it has elements and is not written.
    in_place: bool,
    element_bytes: i64,
    /// The bytes that the graph accesses before element 0, and from there on.
    before: i64,
    after: i64,
}

impl Need {
    pub fn new(spec: &InputSpec, reach: Option<(i64, i64)>) -> Self {
        let element_bytes = spec.layout.element_bytes();
        match covered(spec, reach) {
            // If the tensor has elements, its own bytes exist as well.
            Some((low, high)) if !spec.mutated && lies_somewhere(spec) => Self { in_place: true, element_bytes, before: -low, after: high },
            _ => Self { element_bytes, ..Self::default() },
        }
    }
}

/// Returns true if tensors with this metadata would pass [`verify`], as far as metadata can show. None is unknown.
pub(crate) fn accepts(abi: &TorchAbi, device: Device, specs: &[InputSpec], inputs: &[Option<&Meta>]) -> bool {
    let same = |wanted: &[i64], seen: &[Option<i64>]| wanted.len() == seen.len() && wanted.iter().zip(seen).all(|(w, s)| Some(*w) == *s);
    let fits = |(spec, meta): (&InputSpec, Option<&Meta>)| {
        meta.is_some_and(|meta| {
            abi.is_plain_on(device, meta) == Some(true)
                && abi.dtype_of(i32::from(meta.dtype)) == Some(spec.layout.dtype)
                && same(&spec.layout.window.sizes, &meta.sizes)
                && same(&spec.layout.window.strides, &meta.strides)
        })
    };
    specs.len() == inputs.len() && specs.iter().zip(inputs.iter().copied()).all(fits)
}

fn one(device: Device, spec: &InputSpec, reach: Option<(i64, i64)>, tensor: TensorRef<'_>) -> Result<*mut u8, String> {
    let layout = &spec.layout;
    let unreadable = |e: TorchError| format!("its metadata cannot be read: {e}");
    if tensor.device().map_err(unreadable)? != Some(device) {
        return Err(format!("it is not on {device}"));
    }
    if tensor.is_plain() == Some(false) {
        return Err("it is not an ordinary tensor: another layout, a subclass with dispatch of its own, or a pending conjugation or sign"
            .to_owned());
    }
    let dtype = tensor.dtype().map_err(unreadable)?;
    if dtype != Some(layout.dtype) {
        return Err(format!("element type {} expected, {} given", layout.dtype.name(), dtype.map_or("another", |d| d.name())));
    }
    let sizes = tensor.sizes().map_err(unreadable)?;
    if sizes != layout.window.sizes {
        return Err(format!("sizes {:?} expected, {sizes:?} given", layout.window.sizes));
    }
    let strides = tensor.strides().map_err(unreadable)?;
    if strides != layout.window.strides {
        return Err(format!("strides {:?} expected, {strides:?} given", layout.window.strides));
    }
    let Some((low, high)) = covered(spec, reach) else { return tensor.data_ptr().map_err(unreadable) };
    let first = tensor.storage_offset().map_err(unreadable)?.saturating_mul(layout.element_bytes());
    let bytes = tensor.storage_bytes().map_err(unreadable)?;
    if first.saturating_add(low) < 0 || first.saturating_add(high) > bytes {
        return Err(match reach {
            Some(_) => "the graph looks beyond the tensor, and its storage ends there",
            // The storage was resized.
            None => "its storage is smaller than the tensor",
        }
        .to_owned());
    }
    let pointer = tensor.data_ptr().map_err(unreadable)?;
    if pointer.is_null() { Err("it has no memory".to_owned()) } else { Ok(pointer) }
}

/// Returns the bytes of an input that the graph may access, from its element 0: its own, and those that views reach beyond them.
fn covered(spec: &InputSpec, reach: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (spec.layout.span(), reach) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (own, reach) => own.or(reach),
    }
}

/// Checks that inputs of one storage group are at the traced distance from each other.
fn groups(specs: &[InputSpec], pointers: &[*mut u8]) -> Result<(), String> {
    for (i, spec) in specs.iter().enumerate() {
        let Some(group) = spec.storage.filter(|_| lies_somewhere(spec)) else { continue };
        // Groups are few and small; the first member is the reference for the others.
        let Some(first) = specs[..i].iter().position(|s| s.storage == Some(group) && lies_somewhere(s)) else {
            continue;
        };
        if storage_start(spec, pointers[i]) != storage_start(&specs[first], pointers[first]) {
            return Err(format!("inputs {first} and {i} no longer share their storage as they did"));
        }
    }
    Ok(())
}

/// Returns true if it has elements: torch gives tensors without any the address 0.
fn lies_somewhere(spec: &InputSpec) -> bool {
    spec.layout.span().is_some()
}

fn storage_start(spec: &InputSpec, pointer: *mut u8) -> usize {
    (pointer as usize).wrapping_sub(spec.layout.first_byte() as usize)
}

/// Checks that a written input has no byte in common with an input not known to share its storage.
fn disjoint(specs: &[InputSpec], reach: &[Option<(i64, i64)>], out: &mut Inputs) -> Result<(), String> {
    out.ranges.clear();
    for (i, ((spec, &reach), &pointer)) in specs.iter().zip(reach).zip(&out.pointers).enumerate() {
        if let Some((low, high)) = covered(spec, reach) {
            // Numbers beyond all storage groups represent inputs with a storage of their own.
            let group = spec.storage.map_or((1 << 32) + i, |g| g as usize);
            let at = |bytes: i64| (pointer as usize).wrapping_add(bytes as usize);
            out.ranges.push(Range { low: at(low), high: at(high), group, mutated: spec.mutated, input: i });
        }
    }
    match overlap::conflict(&mut out.ranges) {
        None => Ok(()),
        Some((written, other)) => Err(format!("input {} is written and overlaps input {}", written.input, other.input)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout};

    fn spec(offset: i64, storage: Option<u32>, mutated: bool) -> InputSpec {
        let layout = Layout::contiguous(DType::F32, &[4]).with_offset(offset);
        InputSpec { layout, storage, mutated, version_bumps: 0 }
    }

    fn at(address: usize) -> *mut u8 {
        std::ptr::without_provenance_mut(address)
    }

    #[test]
    fn a_group_keeps_its_distances() {
        let specs = [spec(0, Some(1), false), spec(8, Some(1), false), spec(0, None, false)];
        assert_eq!(groups(&specs, &[at(4096), at(4096 + 32), at(64)]), Ok(()));
        assert!(groups(&specs, &[at(4096), at(4096 + 36), at(64)]).is_err());
        let mut empty = spec(8, Some(1), false);
        empty.layout.window.sizes = vec![0];
        assert_eq!(groups(&[empty, specs[0].clone()], &[at(0), at(4096)]), Ok(()));
    }

    #[test]
    fn written_inputs_are_disjoint_from_strangers_only() {
        let mut inputs = Inputs { pointers: vec![at(4096), at(4104)], ranges: Vec::new() };
        assert!(disjoint(&[spec(0, None, true), spec(0, None, false)], &[None; 2], &mut inputs).is_err());
        assert!(disjoint(&[spec(0, None, false), spec(0, None, false)], &[None; 2], &mut inputs).is_ok());
        assert!(disjoint(&[spec(0, Some(3), true), spec(2, Some(3), false)], &[None; 2], &mut inputs).is_ok());
        inputs.pointers[1] = at(4112);
        assert!(disjoint(&[spec(0, None, true), spec(0, None, true)], &[None; 2], &mut inputs).is_ok());
        // A view of the second input that begins before it overlaps with the writes to the first.
        assert!(disjoint(&[spec(0, None, true), spec(0, None, true)], &[None, Some((-4, 8))], &mut inputs).is_err());
    }
}
