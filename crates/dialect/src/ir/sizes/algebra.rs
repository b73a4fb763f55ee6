//! The algebra of sizes for the dialect's C++ code: `crates/shapes`, behind two functions.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
    sync::Once,
};

use dynamlir_shapes::{Dim, Interval, Predicate, Relation, Scope, Symbol, SymbolInfo};
use mlir_sys::MlirStringRef;

use crate::{
    ffi::{self, SizeTake},
    ir::{str_ref, to_string},
};

/// Passes the algebra to C++; safe to call more than once. Everything that creates a context or a registry with the dialect calls it.
pub fn register() {
    static ONCE: Once = Once::new();
    let callbacks = ffi::SizeCallbacks { read, decide };
    // SAFETY: the struct is copied and the functions are statics; contexts with the dialect are created only after this.
    ONCE.call_once(|| unsafe { ffi::dynamoSetSizeCallbacks(&raw const callbacks) });
}

/// Called from C++: parses a size and passes it to `take`. Nothing unwinds out of it.
unsafe extern "C" fn read(text: MlirStringRef, take: SizeTake, user_data: *mut c_void) {
    let mut size = ffi::Size {
        is_number: false,
        number: 0,
        text: str_ref(""),
        symbols: std::ptr::null(),
        num_symbols: 0,
        fault: str_ref(""),
        position: 0,
    };
    let parsed = catch_unwind(|| to_string(text).parse::<Dim>());
    let (symbols, written): (Vec<i64>, String);
    match parsed {
        Ok(Ok(dim)) => {
            symbols = dim.to_expr().symbols().into_iter().map(|symbol| symbol.0.into()).collect();
            written = dim.to_string();
            (size.is_number, size.number) = (dim.known().is_some(), dim.known().unwrap_or_default());
            (size.text, size.symbols, size.num_symbols) = (str_ref(&written), symbols.as_ptr(), symbols.len() as isize);
        }
        Ok(Err(error)) => {
            written = error.fault.to_string();
            (size.fault, size.position) = (str_ref(&written), error.position as isize);
        }
        Err(_) => size.fault = str_ref("internal error in the reader of sizes"),
    }
    // SAFETY: everything that the size points to lives through the call; the pointer is the caller's own.
    unsafe { take(&raw const size, user_data) };
}

/// Called from C++: returns 1 if a relation holds for all values of the symbols, 0 if for none, and -1 if that is not known.
unsafe extern "C" fn decide(
    symbols: *const ffi::SymbolFields,
    num_symbols: isize,
    assumed: MlirStringRef,
    relation: ffi::SizeRelation,
    left: MlirStringRef,
    right: MlirStringRef,
) -> i32 {
    let symbols = match usize::try_from(num_symbols) {
        // SAFETY: there are as many as the caller states, borrowed for the call.
        Ok(count) if count > 0 => unsafe { slice::from_raw_parts(symbols, count) },
        _ => &[],
    };
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let mut scope = Scope::new();
        for fields in symbols {
            if let Ok(number) = u32::try_from(fields.number) {
                scope.declare(Symbol(number), info(fields));
            }
        }
        assume(&mut scope, &to_string(assumed));
        let relation = match relation {
            ffi::SizeRelation::Equal => Relation::Eq,
            ffi::SizeRelation::Less => Relation::Lt,
            ffi::SizeRelation::LessOrEqual => Relation::Le,
        };
        let [left, right] = [left, right].map(|text| to_string(text).parse::<Dim>().ok());
        scope.decide(&Predicate::new(left?, relation, right?))
    }));
    answer.ok().flatten().map_or(-1, i32::from)
}

/// Assumes the predicates of a text, one after the other. A predicate that does not parse is skipped.
pub(super) fn assume(scope: &mut Scope, text: &str) {
    for predicate in text.split("; ").filter_map(|predicate| predicate.parse::<Predicate>().ok()) {
        // A predicate that contradicts the others holds in no call.
        let _ = scope.assume(&predicate);
    }
}

/// The range, divisor and hint of a symbol, from the fields of its declaration.
pub(super) fn info(fields: &ffi::SymbolFields) -> SymbolInfo {
    SymbolInfo { range: Interval::new(fields.min, fields.max), hint: (fields.hint >= 0).then_some(fields.hint), divisor: fields.divisor }
}
