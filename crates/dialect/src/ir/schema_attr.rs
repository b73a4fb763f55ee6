//! The dialect's own attributes as Rust values: those in `args` besides builtin ones, the user's outputs and their bases.

use dynamlir_shapes::{Dim, Window};
use mlir_sys::MlirAttribute;

use super::{Attr, AttrValue, Ctx, str_ref, to_string};
use crate::{
    ffi,
    ops::{BaseKind, OutputKind},
};

/// `#dynamo.operand<index>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand(pub usize);

impl AttrValue for Operand {
    type Given<'a> = Self;
    fn read(attr: Attr) -> Option<Self> {
        attr.as_operand().map(Self)
    }
    fn write(ctx: Ctx, given: Self) -> Attr {
        Attr::operand(ctx, given.0)
    }
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub String);

        impl AttrValue for $name {
            type Given<'a> = &'a str;
            fn read(attr: Attr) -> Option<Self> {
                read_text(attr, $mnemonic).map(Self)
            }
            fn write(ctx: Ctx, given: &str) -> Attr {
                // SAFETY: the strings are borrowed for the call and copied.
                let raw = unsafe { ffi::dynamoTextAttrGet(ctx.0, str_ref($mnemonic), str_ref(given)) };
                assert!(!raw.ptr.is_null(), "CAPI.cpp does not know the attribute {}", $mnemonic);
                Attr(raw)
            }
        }
    )* };
}

texts! {
    /// `#dynamo.device<"cpu">`.
    Device = "device";
    /// `#dynamo.memory_format<"channels_last">`.
    MemoryFormat = "memory_format";
    /// `#dynamo.layout<"strided">`.
    Layout = "layout";
}

fn read_text(attr: Attr, mnemonic: &str) -> Option<String> {
    let mut value = str_ref("");
    // SAFETY: the attribute is live as long as its context, which owns the text that is copied here.
    let found = unsafe { ffi::dynamoTextAttrGetValue(attr.0, str_ref(mnemonic), &raw mut value) };
    found.then(|| to_string(value))
}

/// `#dynamo.output<…>`: tells the runtime how to create one output of the user's function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The tensor of this result.
    Result(usize),
    /// The input object itself.
    Arg(usize),
    /// A view of an argument; its offset is relative to the storage.
    ArgView(usize, Window),
    /// A view of a result.
    ResultView(usize, Window),
    /// None.
    None,
    /// The object of an earlier output.
    Same(usize),
    /// An integer.
    Constant(i64),
}

impl AttrValue for Output {
    type Given<'a> = &'a Self;

    fn read(attr: Attr) -> Option<Self> {
        let none = Attr(MlirAttribute { ptr: std::ptr::null() });
        let mut fields = ffi::OutputFields { kind: 0, index: 0, sizes: none.0, strides: none.0, offset: none.0 };
        // SAFETY: the attribute is live as long as its context; the fields are written if it is an output.
        if !unsafe { ffi::dynamoOutputAttrGetFields(attr.0, &raw mut fields) } {
            return None;
        }
        let index = usize::try_from(fields.index).unwrap_or(usize::MAX);
        // For a view, none of the three is null.
        let view = || {
            let (sizes, strides) = (Vec::<Dim>::read(Attr(fields.sizes))?, Vec::<Dim>::read(Attr(fields.strides))?);
            Window::new(sizes, strides, Dim::read(Attr(fields.offset))?).ok()
        };
        Some(match OutputKind::of_number(fields.kind)? {
            OutputKind::Result => Self::Result(index),
            OutputKind::Arg => Self::Arg(index),
            OutputKind::ArgView => Self::ArgView(index, view()?),
            OutputKind::ResultView => Self::ResultView(index, view()?),
            OutputKind::None => Self::None,
            OutputKind::Same => Self::Same(index),
            OutputKind::Constant => Self::Constant(fields.index),
        })
    }

    fn write(ctx: Ctx, given: &Self) -> Attr {
        let number = |index: usize| i64::try_from(index).expect("an index of a function's results or arguments");
        let (kind, index, view) = match given {
            Self::Result(index) => (OutputKind::Result, number(*index), None),
            Self::Arg(index) => (OutputKind::Arg, number(*index), None),
            Self::ArgView(index, view) => (OutputKind::ArgView, number(*index), Some(view)),
            Self::ResultView(index, view) => (OutputKind::ResultView, number(*index), Some(view)),
            Self::None => (OutputKind::None, 0, None),
            Self::Same(index) => (OutputKind::Same, number(*index), None),
            Self::Constant(value) => (OutputKind::Constant, *value, None),
        };
        let null = MlirAttribute { ptr: std::ptr::null() };
        let list = |dims: &[Dim]| Vec::<Dim>::write(ctx, dims).0;
        let fields = ffi::OutputFields {
            kind: kind.number(),
            index,
            sizes: view.map_or(null, |view| list(&view.sizes)),
            strides: view.map_or(null, |view| list(&view.strides)),
            offset: view.map_or(null, |view| Dim::write(ctx, &view.offset).0),
        };
        // SAFETY: the attributes are live; so are the sizes, where they are not null.
        let raw = unsafe { ffi::dynamoOutputAttrGet(ctx.0, &raw const fields) };
        assert!(!raw.ptr.is_null(), "the fields of {given:?} do not fit together");
        Attr(raw)
    }
}

/// `#dynamo.base<…>`: the tensor of which one output of the user's function is a view in eager mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// It is not a view.
    None,
    /// A view of an argument.
    Arg(usize),
    /// A view of another output.
    Output(usize),
    /// A view of a tensor that is not visible to the user; its first view is the output with this number.
    Hidden(usize),
}

impl AttrValue for Base {
    type Given<'a> = Self;

    fn read(attr: Attr) -> Option<Self> {
        let (mut kind, mut index) = (0, 0);
        // SAFETY: the attribute is live as long as its context; both numbers are written if it is a base.
        if !unsafe { ffi::dynamoBaseAttrGetFields(attr.0, &raw mut kind, &raw mut index) } {
            return None;
        }
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Some(match BaseKind::of_number(kind)? {
            BaseKind::None => Self::None,
            BaseKind::Arg => Self::Arg(index),
            BaseKind::Output => Self::Output(index),
            BaseKind::Hidden => Self::Hidden(index),
        })
    }

    fn write(ctx: Ctx, given: Self) -> Attr {
        let (kind, index) = match given {
            Self::None => (BaseKind::None, 0),
            Self::Arg(index) => (BaseKind::Arg, index),
            Self::Output(index) => (BaseKind::Output, index),
            Self::Hidden(index) => (BaseKind::Hidden, index),
        };
        let index = i64::try_from(index).expect("an index of a function's arguments or outputs");
        // SAFETY: plain numbers; the enumeration is the same as in C++.
        let raw = unsafe { ffi::dynamoBaseAttrGet(ctx.0, kind.number(), index) };
        assert!(!raw.ptr.is_null(), "C++ does not know {given:?}");
        Attr(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;

    #[test]
    fn texts_go_into_attributes_and_back() {
        let session = Session::new();
        let device = Device::write(session.ctx(), "cuda:0");
        assert_eq!(device.to_string(), "#dynamo.device<\"cuda:0\">");
        assert_eq!(Device::read(device), Some(Device("cuda:0".into())));
        assert_eq!((Layout::read(device), Device::read(Attr::unit(session.ctx()))), (None, None));
        let format = MemoryFormat::write(session.ctx(), "channels_last");
        assert_eq!(MemoryFormat::read(format), Some(MemoryFormat("channels_last".into())));
        assert_eq!(Layout::read(Layout::write(session.ctx(), "")), Some(Layout(String::new())));
        assert_eq!(Operand::read(Operand::write(session.ctx(), Operand(3))), Some(Operand(3)));
    }

    #[test]
    fn outputs_go_into_attributes_and_back() {
        let session = Session::new();
        let view = Window { sizes: vec![2.into(), 3.into()], strides: vec![3.into(), 1.into()], offset: 4.into() };
        let scalar = Window { sizes: Vec::new(), strides: Vec::new(), offset: 1.into() };
        let dim = |text: &str| text.parse::<Dim>().expect("parses");
        let open = Window { sizes: vec![dim("s0"), 3.into()], strides: vec![3.into(), 1.into()], offset: dim("s0*3") };
        for (output, text) in [
            (Output::Result(0), "result 0"),
            (Output::Arg(1), "arg 1"),
            (Output::ArgView(1, view), "arg_view 1, [2, 3], [3, 1], 4"),
            (Output::ResultView(2, scalar), "result_view 2, [], [], 1"),
            (Output::ArgView(0, open), "arg_view 0, [s0, 3], [3, 1], s0*3"),
            (Output::None, "none"),
            (Output::Same(2), "same 2"),
            (Output::Constant(-3), "constant -3"),
        ] {
            let attr = Output::write(session.ctx(), &output);
            assert_eq!(attr.to_string(), format!("#dynamo.output<{text}>"));
            assert_eq!(Output::read(attr), Some(output));
        }
        assert_eq!(Output::read(Attr::unit(session.ctx())), None);
    }

    #[test]
    fn bases_go_into_attributes_and_back() {
        let session = Session::new();
        for (base, text) in [(Base::None, "none"), (Base::Arg(1), "arg 1"), (Base::Output(0), "output 0"), (Base::Hidden(2), "hidden 2")] {
            let attr = Base::write(session.ctx(), base);
            assert_eq!(attr.to_string(), format!("#dynamo.base<{text}>"));
            assert_eq!((Base::read(attr), Output::read(attr)), (Some(base), None));
        }
        assert_eq!(Base::read(Attr::unit(session.ctx())), None);
    }
}
