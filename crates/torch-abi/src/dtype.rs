//! The element types that compiled code supports, and their numbers in torch.

use crate::ffi::Functions;

/// An element type. `Bool` is torch's bool: one byte holding 0 or 1. The complex types occur only as values of torch's operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum DType {
    F64,
    F32,
    BF16,
    F16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
    C64,
    C128,
}

impl DType {
    /// Every element type, in the order of [`DTypeCodes`].
    pub const ALL: [Self; 12] = [
        Self::F64,
        Self::F32,
        Self::BF16,
        Self::F16,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::Bool,
        Self::C64,
        Self::C128,
    ];

    /// Returns the number of bytes per element.
    #[inline]
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::C128 => 16,
            Self::F64 | Self::I64 | Self::C64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::BF16 | Self::F16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Returns true if it is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::BF16 | Self::F16)
    }

    /// Returns the spelling used in the compiler's text (`f32`, `ui8`, `i1`, …).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "ui8",
            Self::Bool => "i1",
            Self::C64 => "complex<f32>",
            Self::C128 => "complex<f64>",
        }
    }

    /// Returns torch's name, an attribute of the `torch` module.
    #[must_use]
    pub const fn torch_name(self) -> &'static str {
        match self {
            Self::F64 => "float64",
            Self::F32 => "float32",
            Self::BF16 => "bfloat16",
            Self::F16 => "float16",
            Self::I64 => "int64",
            Self::I32 => "int32",
            Self::I16 => "int16",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::Bool => "bool",
            Self::C64 => "complex64",
            Self::C128 => "complex128",
        }
    }

    /// The inverse of [`DType::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// Torch's numbers for [`DType::ALL`], queried once: they are not part of the ABI.
pub(crate) struct DTypeCodes([i32; 12]);

impl DTypeCodes {
    pub(crate) fn read(f: &Functions) -> Self {
        // SAFETY: these getters take nothing, own nothing and cannot fail.
        unsafe {
            Self([
                (f.dtype_float64)(),
                (f.dtype_float32)(),
                (f.dtype_bfloat16)(),
                (f.dtype_float16)(),
                (f.dtype_int64)(),
                (f.dtype_int32)(),
                (f.dtype_int16)(),
                (f.dtype_int8)(),
                (f.dtype_uint8)(),
                (f.dtype_bool)(),
                (f.dtype_complex64)(),
                (f.dtype_complex128)(),
            ])
        }
    }

    pub(crate) fn code(&self, dtype: DType) -> i32 {
        self.0[dtype as usize]
    }

    pub(crate) fn dtype(&self, code: i32) -> Option<DType> {
        self.0.iter().position(|&c| c == code).map(|i| DType::ALL[i])
    }
}
