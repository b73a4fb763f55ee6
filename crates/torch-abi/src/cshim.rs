//! The cheapest route: an op's own C function, `aoti_torch_cpu_*` or `aoti_torch_cuda_*`, called from a table of argument letters.
//! Functions that exist for both devices have the same declaration.
//!
//! | letter | C parameters | letter | C parameters |
//! |---|---|---|---|
//! | `t` | handle | `T` | pointer to handle or null |
//! | `i` | `int64_t` | `I` | pointer or null |
//! | `b` | `int32_t`: bool or dtype | `B` | pointer or null |
//! | `d` | `double` | `D` | pointer or null |
//! | `s` | `const char*` | `S` | pointer to it or null |
//! | `l` | `int64_t` array, length | `L` | pointer to array or null, length |
//! | `v` | handle array, length | `V` | array of pointers to handle or null, length |
//! | `f` | `double` array, length | `m` | `int32_t` array of bools, length |
//! | `c` | pointer to device type or null, device index | `G` | generator or null |
//!
//! A hand-written wrapper per function would be thousands of lines. Instead one call passes every integer and pointer as a word and every
//! double separately. Under the x86-64 and `AArch64` System V conventions, the two classes are assigned to registers independently, words
//! beyond the registers go to the stack in order, and the caller cleans up. So a callee cannot distinguish this call from one written with
//! its own prototype. No function in the table has more than eight doubles.

use std::ffi::{CString, c_void};

use crate::op::enum_code;
use crate::shim_table::SHIMS;
use crate::tensor::RawHandle;
use crate::{Arg, Base, DType, Device, OwnedTensor, Signature, TensorRef, TorchAbi, TorchError, Ty};

/// The number of words passed on every call.
const WORDS: usize = 32;
const DOUBLES: usize = 8;

/// The content of one word.
#[derive(Debug, Clone, Copy)]
enum Word {
    Const(u64),
    /// The handle of an operand.
    Operand(usize),
    /// The address of an operand's handle.
    OperandAt(usize),
    Out(usize),
    /// The address of the n-th handle array.
    Handles(usize),
    /// The address of the n-th array of handle addresses.
    HandlesAt(usize),
    /// The address for the n-th result.
    Result(usize),
}

/// The memory that constant words point into. Boxed, so that its address is stable when the call is moved.
#[derive(Default)]
struct Constants {
    longs: Vec<Box<[i64]>>,
    ints: Vec<Box<[i32]>>,
    doubles: Vec<Box<[f64]>>,
    strings: Vec<CString>,
    string_ptrs: Vec<Box<[usize]>>,
}

pub(crate) struct ShimCall {
    function: extern "C" fn(),
    words: Vec<Word>,
    doubles: [f64; DOUBLES],
    lists: Vec<Vec<usize>>,
    optional_lists: Vec<Vec<Option<usize>>>,
    results: usize,
    constants: Constants,
}

fn no(what: impl Into<String>) -> TorchError {
    TorchError::new(what)
}

/// Returns the letter for this type in a generated function; `None` for types that no listed function takes.
fn letter(ty: Ty) -> Option<char> {
    Some(match (ty.base, ty.list, ty.optional, ty.list_optional) {
        (Base::Tensor, false, false, _) => 't',
        (Base::Tensor, false, true, _) => 'T',
        (Base::Tensor, true, false, false) => 'v',
        (Base::Tensor, true, true, false) => 'V',
        (Base::Int, false, false, _) => 'i',
        (Base::Int, false, true, _) => 'I',
        (Base::Int, true, false, false) => 'l',
        (Base::Int, true, false, true) => 'L',
        (Base::Float, true, false, false) => 'f',
        (Base::Bool, true, false, false) => 'm',
        (Base::Float | Base::Scalar, false, false, _) => 'd',
        (Base::Float | Base::Scalar, false, true, _) => 'D',
        (Base::Bool | Base::DType | Base::Layout | Base::MemoryFormat, false, false, _) => 'b',
        (Base::Bool | Base::DType | Base::Layout | Base::MemoryFormat, false, true, _) => 'B',
        (Base::Str, false, false, _) => 's',
        (Base::Str, false, true, _) => 'S',
        (Base::Device, false, true, _) => 'c',
        (Base::Generator, false, true, _) => 'G',
        _ => return None,
    })
}

impl ShimCall {
    pub(crate) fn prepare(
        abi: &TorchAbi,
        device: Device,
        signature: &Signature,
        args: &[Arg],
        operands: &[DType],
        outs: usize,
    ) -> Result<Self, TorchError> {
        let mut name = signature.name.strip_prefix("aten::").ok_or_else(|| no("not an aten op"))?.to_owned();
        if !signature.overload.is_empty() {
            name = format!("{name}_{}", signature.overload);
        }
        let letters: String =
            signature.args.iter().map(|t| letter(*t)).collect::<Option<_>>().ok_or_else(|| no("an argument has no C form"))?;
        if signature.results.iter().any(|r| r.base != Base::Tensor || r.list) {
            return Err(no("a result is not a tensor"));
        }
        let (function, into_outs) = find(abi, device, &name, &letters, signature.results.len(), outs)?;
        let mut call = Self {
            function,
            words: Vec::new(),
            doubles: [0.0; DOUBLES],
            lists: Vec::new(),
            optional_lists: Vec::new(),
            results: if into_outs { 0 } else { signature.results.len() },
            constants: Constants::default(),
        };
        if into_outs {
            call.words.extend((0..outs).map(Word::Out));
        }
        let floating = operands.iter().all(|d| d.is_float());
        let mut doubles = 0;
        for (ty, arg) in signature.args.iter().zip(args) {
            if ty.base == Base::Scalar && !floating && !matches!(arg, Arg::Float(_) | Arg::None) {
                // The C function would receive a double, and integer tensors would be promoted.
                return Err(no("an integer scalar beside integer tensors"));
            }
            if letter(*ty) == Some('d') {
                let slot = call.doubles.get_mut(doubles).ok_or_else(|| no("too many doubles"))?;
                *slot = number(arg).ok_or_else(|| no("a number was expected"))?;
                doubles += 1;
            } else {
                call.push(abi, *ty, arg)?;
            }
        }
        call.words.extend((0..call.results).map(Word::Result));
        if call.words.len() > WORDS { Err(no("too many arguments")) } else { Ok(call) }
    }

    fn push(&mut self, abi: &TorchAbi, ty: Ty, arg: &Arg) -> Result<(), TorchError> {
        let mismatch = || no(format!("{arg:?} does not fit its parameter"));
        let code = letter(ty).ok_or_else(mismatch)?;
        let c = &mut self.constants;
        match (code, arg) {
            ('t', Arg::Operand(i)) => self.words.push(Word::Operand(*i)),
            ('T', Arg::Operand(i)) => self.words.push(Word::OperandAt(*i)),
            ('T' | 'I' | 'B' | 'D' | 'S' | 'G', Arg::None) => self.words.push(Word::Const(0)),
            ('L' | 'c', Arg::None) => self.words.extend([Word::Const(0); 2]),
            ('i', Arg::Int(v)) => self.words.push(Word::Const(*v as u64)),
            ('I', Arg::Int(v)) => {
                c.longs.push(Box::new([*v]));
                self.words.push(Word::Const(address(&c.longs)));
            }
            ('b' | 'B', _) => {
                let value = match arg {
                    Arg::Bool(v) => i32::from(*v),
                    _ => enum_code(abi, arg).ok_or_else(mismatch)?,
                };
                if code == 'b' {
                    self.words.push(Word::Const(value as u64));
                } else {
                    c.ints.push(Box::new([value]));
                    self.words.push(Word::Const(address(&c.ints)));
                }
            }
            ('D', _) => {
                c.doubles.push(Box::new([number(arg).ok_or_else(mismatch)?]));
                self.words.push(Word::Const(address(&c.doubles)));
            }
            ('s' | 'S', Arg::Str(text)) => {
                c.strings.push(CString::new(text.as_str()).map_err(|_| mismatch())?);
                let text = c.strings.last().map_or(0, |s| s.as_ptr() as usize);
                if code == 's' {
                    self.words.push(Word::Const(text as u64));
                } else {
                    c.string_ptrs.push(Box::new([text]));
                    self.words.push(Word::Const(address(&c.string_ptrs)));
                }
            }
            ('l', Arg::List(items)) => {
                let values = items.iter().map(int).collect::<Option<Box<_>>>().ok_or_else(mismatch)?;
                c.longs.push(values);
                self.words.extend([Word::Const(address(&c.longs)), Word::Const(items.len() as u64)]);
            }
            ('f', Arg::List(items)) => {
                c.doubles.push(items.iter().map(number).collect::<Option<Box<_>>>().ok_or_else(mismatch)?);
                self.words.extend([Word::Const(address(&c.doubles)), Word::Const(items.len() as u64)]);
            }
            // The C function reads as many bools as its type says, regardless of the length passed.
            ('m', Arg::List(items)) if ty.length.is_some_and(|length| length != items.len()) => return Err(mismatch()),
            ('m', Arg::List(items)) => {
                let bit = |a: &Arg| {
                    if let Arg::Bool(v) = a { Some(i32::from(*v)) } else { None }
                };
                c.ints.push(items.iter().map(bit).collect::<Option<Box<_>>>().ok_or_else(mismatch)?);
                self.words.extend([Word::Const(address(&c.ints)), Word::Const(items.len() as u64)]);
            }
            ('v', Arg::List(items)) => {
                let list = items.iter().map(operand).collect::<Option<Vec<_>>>().ok_or_else(mismatch)?;
                self.words.extend([Word::Handles(self.lists.len()), Word::Const(list.len() as u64)]);
                self.lists.push(list);
            }
            ('V', Arg::List(items)) => {
                let entry = |a: &Arg| {
                    if *a == Arg::None { Some(None) } else { operand(a).map(Some) }
                };
                let list = items.iter().map(entry).collect::<Option<Vec<_>>>().ok_or_else(mismatch)?;
                self.words.extend([Word::HandlesAt(self.optional_lists.len()), Word::Const(list.len() as u64)]);
                self.optional_lists.push(list);
            }
            ('c', Arg::Device(name)) => {
                let (kind, number) = abi.numbers(name.parse().map_err(|_| mismatch())?);
                c.ints.push(Box::new([kind]));
                self.words.extend([Word::Const(address(&c.ints)), Word::Const(number as u64)]);
            }
            _ => return Err(mismatch()),
        }
        Ok(())
    }

    pub(crate) fn call(&self, abi: &TorchAbi, operands: &[TensorRef<'_>], outs: &[TensorRef<'_>]) -> Result<Vec<OwnedTensor>, TorchError> {
        let lists: Vec<Vec<RawHandle>> = self.lists.iter().map(|l| l.iter().map(|&i| operands[i].raw()).collect()).collect();
        // TensorRef is one pointer wide and transparent: its address is the address of a handle.
        let at = |i: usize| (&raw const operands[i]).cast::<RawHandle>();
        let optional: Vec<Vec<*const RawHandle>> =
            self.optional_lists.iter().map(|l| l.iter().map(|i| i.map_or(std::ptr::null(), at)).collect()).collect();
        let mut results = vec![std::ptr::null_mut::<c_void>(); self.results];
        let first_result = results.as_mut_ptr();
        let mut words = [0_u64; WORDS];
        for (slot, word) in words.iter_mut().zip(&self.words) {
            *slot = match *word {
                Word::Const(bits) => bits,
                Word::Operand(i) => operands[i].raw() as u64,
                Word::OperandAt(i) => at(i) as u64,
                Word::Out(i) => outs[i].raw() as u64,
                Word::Handles(i) => lists[i].as_ptr() as u64,
                Word::HandlesAt(i) => optional[i].as_ptr() as u64,
                Word::Result(i) => first_result.wrapping_add(i) as u64,
            };
        }
        // SAFETY: the letters of this call equal those generated from the function's prototype, so every word and double is what its
        // parameter expects, and all arrays live until the end of this function. Handles are borrowed, results are new.
        let status = unsafe { invoke(self.function, &self.doubles, &words) };
        abi.check(status)?;
        results
            .into_iter()
            .map(|h| {
                // SAFETY: the function succeeded, so each result is a new handle.
                unsafe { OwnedTensor::from_raw(h) }.ok_or_else(|| no("torch returned no tensor"))
            })
            .collect()
    }
}

/// Returns the function with that name, if the table and this torch have it, and a flag: true if it writes into `outs`.
fn find(
    abi: &TorchAbi,
    device: Device,
    name: &str,
    letters: &str,
    results: usize,
    outs: usize,
) -> Result<(extern "C" fn(), bool), TorchError> {
    let (library, prefix) = abi.shims(device)?;
    let row = |key: &str, letters: &str, results: usize| {
        let i = SHIMS.binary_search_by_key(&key, |(n, _, _)| n).ok()?;
        let (_, l, r) = SHIMS[i];
        if l != letters || r != results {
            return None;
        }
        let symbol = CString::new(format!("{prefix}{key}")).ok()?;
        library.symbol(&symbol)
    };
    let found = if outs == 0 {
        row(name, letters, results).map(|p| (p, false))
    } else {
        // Without an `out` function, the plain one is called and its results are copied.
        row(&format!("{name}_out"), &format!("{}{letters}", "t".repeat(outs)), 0)
            .map(|p| (p, true))
            .or_else(|| row(name, letters, results).map(|p| (p, false)))
    };
    let (address, into_outs) = found.ok_or_else(|| no(format!("no C function for {name}")))?;
    // SAFETY: a code address; `invoke` gives it its real type.
    Ok((unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(address) }, into_outs))
}

fn address<T>(boxes: &[Box<[T]>]) -> u64 {
    boxes.last().map_or(0, |b| b.as_ptr() as u64)
}

fn number(arg: &Arg) -> Option<f64> {
    match arg {
        Arg::Float(v) => Some(*v),
        #[expect(clippy::cast_precision_loss, reason = "only reached where the op computes in floating point")]
        Arg::Int(v) => Some(*v as f64),
        _ => None,
    }
}

fn int(arg: &Arg) -> Option<i64> {
    if let Arg::Int(v) = arg { Some(*v) } else { None }
}

fn operand(arg: &Arg) -> Option<usize> {
    if let Arg::Operand(i) = arg { Some(*i) } else { None }
}

/// Calls any function whose parameters are integers, pointers and doubles.
///
/// # Safety
/// `words` and `doubles` must hold, in order, the values that the function's parameters of each class expect.
unsafe fn invoke(function: extern "C" fn(), d: &[f64; DOUBLES], w: &[u64; WORDS]) -> i32 {
    macro_rules! signature {
        ($($word:ident)*) => { unsafe extern "C" fn(f64, f64, f64, f64, f64, f64, f64, f64, $(signature!(@ $word)),*) -> i32 };
        (@ $word:ident) => { u64 };
    }
    type Wide = signature!(a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a);
    // SAFETY: the module's documentation explains why surplus arguments and the order of the two classes are harmless.
    unsafe {
        let f = std::mem::transmute::<extern "C" fn(), Wide>(function);
        f(
            d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
            w[12], w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28], w[29],
            w[30], w[31],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn mixed(a: *const i64, x: f64, b: i32, c: i64, y: f64, d: u64, e: u64, f: u64, g: u64, h: i32) -> i32 {
        // SAFETY: the test passes a live pointer.
        let a = unsafe { *a };
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let sum = a as f64 + x + f64::from(b) + c as f64 + y + (d + e + f + g) as f64 + f64::from(h);
        sum as i32
    }

    #[test]
    fn one_call_reaches_any_prototype() {
        let long = 1000_i64;
        let mut words = [7_u64; WORDS];
        words[..8].copy_from_slice(&[(&raw const long) as u64, -1_i32 as u64, 20, 1, 2, 3, 4, 5]);
        let mut doubles = [0.5; DOUBLES];
        doubles[..2].copy_from_slice(&[100.0, 0.25]);
        // SAFETY: any function pointer may pass as a code address.
        let f = unsafe { std::mem::transmute::<*const (), extern "C" fn()>(mixed as *const ()) };
        // SAFETY: words and doubles follow `mixed`'s parameters.
        assert_eq!(unsafe { invoke(f, &doubles, &words) }, 1134);
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(SHIMS.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn letters_follow_signatures() {
        let s =
            Signature::parse("aten::addmm(Tensor self, Tensor a, Tensor b, *, Scalar beta=1, Scalar alpha=1) -> Tensor").expect("parses");
        assert_eq!(s.args.iter().filter_map(|t| letter(*t)).collect::<String>(), "tttdd");
    }
}
