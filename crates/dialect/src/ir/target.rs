//! The machine that kernels are compiled for: `#dynamo.target`, the `dynamo.target` of a module.

use mlir_sys::MlirStringRef;

use super::{Attr, AttrValue, Ctx, Op, str_ref, to_string};
use crate::{ffi, ops};

/// All properties of a machine that passes know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// LLVM's triple, for example `x86_64-unknown-linux-gnu`.
    pub triple: String,
    /// LLVM's name for the processor, for example `znver4`.
    pub cpu: String,
    /// Its features in LLVM's notation, for example `+avx2,+fma,-avx512f`.
    pub features: String,
    /// Bits of its vectors, as far as generated code should use them; 0 if it has none worth using.
    pub vector_bits: i64,
    /// Bits of the vectors that the library's own matrix products use.
    pub library_vector_bits: i64,
    /// The chip of the GPU, if a GPU runs the kernels.
    pub chip: Option<String>,
}

impl Default for Target {
    /// A machine about which nothing is known: the target of a module that does not state one.
    fn default() -> Self {
        Self {
            triple: "x86_64-unknown-linux-gnu".into(),
            cpu: "x86-64".into(),
            features: String::new(),
            vector_bits: 0,
            library_vector_bits: 0,
            chip: None,
        }
    }
}

impl Target {
    /// The target of the operation itself or of the module around it.
    pub fn of(op: Op) -> Self {
        Self::written(op).unwrap_or_default()
    }

    /// The same; `None` if no enclosing module states one.
    pub fn written(op: Op) -> Option<Self> {
        let mut around = Some(op);
        while let Some(op) = around {
            if let Some(target) = ops::TARGET.of(op) {
                return Some(target);
            }
            around = op.parent();
        }
        None
    }

    /// Returns true if kernels are a GPU's.
    pub fn is_gpu(&self) -> bool {
        self.chip.is_some()
    }

    /// Returns true if the processor has a feature, in LLVM's name for it.
    pub fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|known| known.strip_prefix('+') == Some(feature))
    }

    /// Returns true if it is a processor of Intel's 64-bit architecture.
    pub fn is_x86_64(&self) -> bool {
        self.triple.starts_with("x86_64-")
    }

    /// Returns true if it is a processor of Arm's 64-bit architecture.
    pub fn is_aarch64(&self) -> bool {
        self.triple.starts_with("aarch64-")
    }
}

impl AttrValue for Target {
    type Given<'a> = &'a Self;

    fn read(attr: Attr) -> Option<Self> {
        let empty = || MlirStringRef { data: std::ptr::null(), length: 0 };
        let mut parts =
            ffi::TargetParts { triple: empty(), cpu: empty(), features: empty(), vector_bits: 0, library_vector_bits: 0, chip: empty() };
        // SAFETY: the attribute is live; the strings that are written belong to it.
        let found = unsafe { ffi::dynamoTargetAttrGetParts(attr.raw(), &raw mut parts) };
        found.then(|| Self {
            triple: to_string(parts.triple),
            cpu: to_string(parts.cpu),
            features: to_string(parts.features),
            vector_bits: parts.vector_bits,
            library_vector_bits: parts.library_vector_bits,
            chip: Some(to_string(parts.chip)).filter(|chip| !chip.is_empty()),
        })
    }

    fn try_write(ctx: Ctx, given: &Self) -> Option<Attr> {
        let parts = ffi::TargetParts {
            triple: str_ref(&given.triple),
            cpu: str_ref(&given.cpu),
            features: str_ref(&given.features),
            vector_bits: given.vector_bits,
            library_vector_bits: given.library_vector_bits,
            chip: str_ref(given.chip.as_deref().unwrap_or_default()),
        };
        // SAFETY: the strings are borrowed for the call and copied.
        let raw = unsafe { ffi::dynamoTargetAttrGet(ctx.raw(), &raw const parts) };
        (!raw.ptr.is_null()).then(|| Attr::from_raw(raw))
    }

    /// # Panics
    /// If the verifier rejects it; the diagnostic gives the reason.
    fn write(ctx: Ctx, given: &Self) -> Attr {
        Self::try_write(ctx, given).unwrap_or_else(|| panic!("not a target: {given:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, context::module_op, ir::Block};

    #[test]
    fn a_module_says_it_for_all_that_it_holds() {
        let session = Session::new();
        let text = r#"module attributes {dynamo.target = #dynamo.target<"aarch64-unknown-linux-gnu", "generic", "+neon", vector_bits = 128>} {
  module @kernels { func.func private @k() }
}"#;
        let module = session.parse(text).expect("parses");
        let inner = module_op(&module).body().map(Block::ops).expect("a body")[0];
        let target = Target::of(inner.body().map(Block::ops).expect("a body")[0]);
        assert_eq!((target.cpu.as_str(), target.vector_bits, target.library_vector_bits), ("generic", 128, 0));
        assert!(target.has("neon") && !target.has("avx2") && !target.is_x86_64() && target.is_aarch64() && !target.is_gpu());
        ops::TARGET.set(module_op(&module), &target);
        assert_eq!(module_op(&module).text(), session.parse(text).map(|again| module_op(&again).text()).expect("parses"));
        assert_eq!(Target::of(session.parse("module {}").map(|plain| module_op(&plain)).expect("parses")), Target::default());
    }

    #[test]
    fn a_chip_is_optional() {
        let session = Session::new();
        let target = Target { chip: Some("sm_90".into()), ..Target::default() };
        let attr = Target::write(session.ctx(), &target);
        assert_eq!(attr.to_string(), r#"#dynamo.target<"x86_64-unknown-linux-gnu", "x86-64", "", chip = "sm_90">"#);
        assert_eq!(Target::read(attr), Some(target));
        assert_eq!(Target::read(Attr::unit(session.ctx())), None);
    }
}
