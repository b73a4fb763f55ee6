//! One-word handles on MLIR objects, for passes that rewrite straight-line functions.
//!
//! The handles are `Copy` and have no lifetime parameter: they are valid as long as the IR they point into. Types, attributes and locations
//! live as long as their context. A pass owns its module while it runs. Operations that it erases stay in memory until the pass is over
//! ([`retired`]), so none of its handles can dangle. Code that runs a pipeline must not keep handles across the run.

mod affine;
mod attr;
mod attr_value;
mod build;
mod op;
pub(crate) mod retired;
mod schema_attr;
pub mod sizes;
mod target;
mod ty;

pub use affine::{AffineExpr, AffineMap};
pub use attr::Attr;
pub use attr_value::{AttrValue, Discardable, Symbol};
pub use build::Builder;
pub use op::{Block, Op, Region, Use, Value};
pub use schema_attr::{Base, Device, Layout, MemoryFormat, Operand, Output};
pub use target::Target;
pub use ty::{DYNAMIC, Type};

use mlir_sys::{
    MlirAttribute, MlirContext, MlirLocation, MlirStringRef, mlirIdentifierStr, mlirLocationCallSiteGet, mlirLocationCallSiteGetCallee,
    mlirLocationCallSiteGetCaller, mlirLocationEqual, mlirLocationFileLineColGet, mlirLocationFileLineColRangeGetFilename,
    mlirLocationFileLineColRangeGetStartColumn, mlirLocationFileLineColRangeGetStartLine, mlirLocationFromAttribute, mlirLocationFusedGet,
    mlirLocationFusedGetLocations, mlirLocationFusedGetNumLocations, mlirLocationGetAttribute, mlirLocationGetContext,
    mlirLocationIsACallSite, mlirLocationIsAFileLineColRange, mlirLocationIsAFused, mlirLocationIsAName, mlirLocationNameGet,
    mlirLocationNameGetChildLoc, mlirLocationNameGetName, mlirLocationPrint, mlirLocationUnknownGet,
};
use std::ffi::c_void;

/// The context that uniques types and attributes.
#[derive(Clone, Copy)]
pub struct Ctx(pub(crate) MlirContext);

impl Ctx {
    /// Wraps a raw context, which must outlive every handle created from it.
    pub fn from_raw(raw: MlirContext) -> Self {
        Self(raw)
    }
    /// The raw handle.
    pub fn raw(self) -> MlirContext {
        self.0
    }
}

/// A line of the user's Python: file, line, function, and the column in characters from 1, or 0 if it is not known.
pub type PythonLine = (String, u32, String, u32);

/// A source location.
#[derive(Clone, Copy)]
pub struct Loc(pub(crate) MlirLocation);

impl Loc {
    /// `loc(unknown)`.
    pub fn unknown(ctx: Ctx) -> Self {
        // SAFETY: the context is alive (see the module's contract).
        Self(unsafe { mlirLocationUnknownGet(ctx.0) })
    }
    /// `loc("file":line:col)`.
    pub fn file(ctx: Ctx, file: &str, line: u32, col: u32) -> Self {
        // SAFETY: as above; the string is copied into the context.
        Self(unsafe { mlirLocationFileLineColGet(ctx.0, str_ref(file), line, col) })
    }
    /// `loc("name"(child))`.
    pub fn named(ctx: Ctx, name: &str, child: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { mlirLocationNameGet(ctx.0, str_ref(name), child.0) })
    }
    /// `loc(fused[…])`, or the only location; unknown and repeated locations are dropped.
    pub fn fused(ctx: Ctx, locations: &[Self]) -> Self {
        let raw: Vec<MlirLocation> = locations.iter().map(|location| location.0).collect();
        // SAFETY: as above; the list is borrowed for the call, and there is no metadata.
        Self(unsafe { mlirLocationFusedGet(ctx.0, raw.len() as isize, raw.as_ptr(), MlirAttribute { ptr: std::ptr::null() }) })
    }
    /// `loc(callsite(callee at caller))`: `callee` runs for the line `caller`.
    pub fn call_site(callee: Self, caller: Self) -> Self {
        // SAFETY: as above.
        Self(unsafe { mlirLocationCallSiteGet(callee.0, caller.0) })
    }
    /// Returns true if it is `loc(unknown)`.
    pub fn is_unknown(self) -> bool {
        self == Self::unknown(self.ctx())
    }
    /// File and line: of the caller for a call site, of the last location for fused ones; `None` if there are none.
    pub fn line(self) -> Option<(String, u32)> {
        self.frames().pop().map(|frame| (frame.0, frame.1))
    }
    /// [`Self::line`] as `file:line:column`, or as `file:line` if the column is not known; empty if there is none.
    pub fn place(self) -> String {
        match self.frames().pop() {
            Some((file, line, _, 0)) => format!("{file}:{line}"),
            Some((file, line, _, column)) => format!("{file}:{line}:{column}"),
            None => String::new(),
        }
    }
    /// The lines, each callee before its caller; for fused locations, those of the last one.
    pub fn frames(self) -> Vec<PythonLine> {
        // SAFETY: as above; each accessor is called on the kind of location that it is for.
        unsafe {
            if mlirLocationIsAName(self.0) {
                let mut frames = Self(mlirLocationNameGetChildLoc(self.0)).frames();
                if let [(_, _, function, _)] = &mut frames[..] {
                    *function = to_string(mlirIdentifierStr(mlirLocationNameGetName(self.0)));
                }
                return frames;
            }
            if mlirLocationIsACallSite(self.0) {
                let mut frames = Self(mlirLocationCallSiteGetCallee(self.0)).frames();
                frames.extend(Self(mlirLocationCallSiteGetCaller(self.0)).frames());
                return frames;
            }
            if mlirLocationIsAFused(self.0) {
                return self.parts().last().map(|last| last.frames()).unwrap_or_default();
            }
            if !mlirLocationIsAFileLineColRange(self.0) {
                return Vec::new();
            }
            let file = to_string(mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(self.0)));
            let (line, column) = (mlirLocationFileLineColRangeGetStartLine(self.0), mlirLocationFileLineColRangeGetStartColumn(self.0));
            vec![(file, line as u32, String::new(), column as u32)]
        }
    }
    /// The locations fused in this one; the location itself if it is of another kind.
    pub fn parts(self) -> Vec<Self> {
        // SAFETY: as above; the list has room for all of them.
        unsafe {
            if !mlirLocationIsAFused(self.0) {
                return vec![self];
            }
            let null = MlirLocation { ptr: std::ptr::null() };
            let mut all = vec![null; mlirLocationFusedGetNumLocations(self.0) as usize];
            mlirLocationFusedGetLocations(self.0, all.as_mut_ptr());
            all.into_iter().map(Self).collect()
        }
    }
    /// The location as an attribute, to be stored on an op.
    pub fn as_attr(self) -> Attr {
        // SAFETY: as above.
        Attr(unsafe { mlirLocationGetAttribute(self.0) })
    }
    /// The location in an attribute, if it contains one.
    pub fn from_attr(attr: Attr) -> Option<Self> {
        // SAFETY: as above; the result is null for another attribute.
        let raw = unsafe { mlir_sys::mlirAttributeIsALocation(attr.0).then(|| mlirLocationFromAttribute(attr.0)) };
        raw.map(Self)
    }
    /// The location's context.
    pub fn ctx(self) -> Ctx {
        // SAFETY: as above.
        Ctx(unsafe { mlirLocationGetContext(self.0) })
    }
    /// The raw handle.
    pub fn raw(self) -> MlirLocation {
        self.0
    }
}

impl PartialEq for Loc {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: the context is alive (see the module's contract).
        unsafe { mlirLocationEqual(self.0, other.0) }
    }
}
impl Eq for Loc {}

impl std::fmt::Display for Loc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the callback appends to the string that outlives the call.
        f.write_str(&print(|cb, data| unsafe { mlirLocationPrint(self.0, cb, data) }))
    }
}

/// A borrowed string for one C call.
pub(crate) fn str_ref(s: &str) -> MlirStringRef {
    MlirStringRef { data: s.as_ptr().cast(), length: s.len() }
}

/// A C string slice as text, copied.
pub(crate) fn to_string(s: MlirStringRef) -> String {
    if s.length == 0 {
        return String::new();
    }
    // SAFETY: MLIR hands out pointer and length of live memory.
    let bytes = unsafe { std::slice::from_raw_parts(s.data.cast::<u8>(), s.length) };
    String::from_utf8_lossy(bytes).into_owned()
}

unsafe extern "C" fn append(s: MlirStringRef, data: *mut c_void) {
    // SAFETY: `print` passes a pointer to its own String.
    let text = unsafe { &mut *data.cast::<String>() };
    text.push_str(&to_string(s));
}

type PrintCallback = Option<unsafe extern "C" fn(MlirStringRef, *mut c_void)>;

/// Collects the output of a C printing function.
pub(crate) fn print(f: impl FnOnce(PrintCallback, *mut c_void)) -> String {
    let mut text = String::new();
    f(Some(append), (&raw mut text).cast());
    text
}

#[cfg(test)]
mod tests {
    use super::Loc;
    use crate::Session;

    #[test]
    fn a_location_has_lines_and_columns() {
        let session = Session::new();
        let ctx = session.ctx();
        let [callee, caller, line] =
            [("t.py", 9, 2), ("m.py", 5, 17), ("m.py", 5, 0)].map(|(file, line, column)| Loc::file(ctx, file, line, column));
        let call = Loc::call_site(Loc::named(ctx, "g", callee), Loc::named(ctx, "f", caller));
        assert_eq!(call.frames(), [("t.py".into(), 9, "g".into(), 2), ("m.py".into(), 5, "f".into(), 17)]);
        assert_eq!(call.line(), Some(("m.py".into(), 5)));
        assert_eq!(
            [call, line, Loc::fused(ctx, &[line, call]), Loc::unknown(ctx)].map(Loc::place),
            ["m.py:5:17", "m.py:5", "m.py:5:17", ""]
        );
    }
}
