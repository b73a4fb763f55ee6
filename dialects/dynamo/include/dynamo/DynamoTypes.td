//===- DynamoTypes.td - Types and attributes --------------*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_TYPES
#define DYNAMO_TYPES

include "dynamo/DynamoBase.td"
include "mlir/IR/TensorEncoding.td"

def Dynamo_MutableTensorType : TypeDef<Dynamo_Dialect, "MutableTensor"> {
  let mnemonic = "tensor";
  let summary = "a torch tensor: a strided window on a storage that others may share";
  let description = [{
    `!dynamo.tensor<2x3xf32, [3, 1], 0>` has sizes 2×3, strides 3 and 1 (in
    elements) and starts 0 elements into its storage. A value of this type is
    a reference: ops may write to the storage, and other values may show the
    same storage. It lives before `dynamo-functionalize` only.

    Sizes, strides and offset may be expressions. Where a size is one, all
    stand in brackets: `!dynamo.tensor<[s0, 128]xf32, [128, 1], s0*4>`.
  }];
  // An expression counts as `?` in the numbers; it stands in the `symbolic` parameter beside them, which is null where none is.
  let parameters = (ins
    ArrayRefParameter<"int64_t", "sizes">:$sizes,
    "::mlir::Type":$elementType,
    ArrayRefParameter<"int64_t", "strides in elements">:$strides,
    "int64_t":$offset,
    "::dynamlir::dynamo::SizesAttr":$symbolicSizes,
    "::dynamlir::dynamo::SizesAttr":$symbolicStrides,
    "::dynamlir::dynamo::ExprAttr":$symbolicOffset);
  let builders = [TypeBuilder<(ins "::mlir::ArrayRef<int64_t>":$sizes, "::mlir::Type":$elementType,
                                   "::mlir::ArrayRef<int64_t>":$strides, "int64_t":$offset), [{
    return $_get($_ctxt, sizes, elementType, strides, offset, SizesAttr(), SizesAttr(), ExprAttr());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

class Dynamo_Attr<string name, string attrMnemonic> : AttrDef<Dynamo_Dialect, name> {
  let mnemonic = attrMnemonic;
}

// Of all ops of the dialect: what their sizes are made of is declared. Costs a look at a flag where no expression is.
def Dynamo_HoldsSizes : NativeOpTrait<"HoldsSizes"> {
  let cppNamespace = "::dynamlir::dynamo";
}
class Dynamo_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dynamo_Dialect, mnemonic, !listconcat([Dynamo_HoldsSizes], traits)>;

def Dynamo_OperandAttr : Dynamo_Attr<"Operand", "operand"> {
  let summary = "a schema argument that is the SSA operand of this number";
  let description = [{ `args [#dynamo.operand<0>, 2]`: the op's operand 0, then the number 2. }];
  let parameters = (ins "int64_t":$index);
  let assemblyFormat = "`<` $index `>`";
}
def Dynamo_DeviceAttr : Dynamo_Attr<"Device", "device"> {
  let summary = "a `torch.device` argument";
  let description = [{ `#dynamo.device<"cpu">` }];
  let parameters = (ins StringRefParameter<"device string">:$value);
  let assemblyFormat = "`<` $value `>`";
}
def Dynamo_MemoryFormatAttr : Dynamo_Attr<"MemoryFormat", "memory_format"> {
  let summary = "a `torch.memory_format` argument";
  let description = [{ `#dynamo.memory_format<"channels_last">` }];
  let parameters = (ins StringRefParameter<"name">:$value);
  let assemblyFormat = "`<` $value `>`";
}
def Dynamo_LayoutAttr : Dynamo_Attr<"Layout", "layout"> {
  let summary = "a `torch.layout` argument";
  let description = [{ `#dynamo.layout<"strided">` }];
  let parameters = (ins StringRefParameter<"name">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Dynamo_ExprAttr : Dynamo_Attr<"Expr", "expr"> {
  let summary = "a size that is an expression over symbols";
  let description = [{
    `#dynamo.expr<s0*4 + 1>`, in the place of a number. Symbols are `s0`, `s1`,
    …; the operators are `+`, `-`, `*`, `floordiv`, `ceildiv`, `mod`,
    `min(…, …)` and `max(…, …)`, with the rounding of Python's. An expression is
    brought into canonical form where it is read, so that equal polynomials are
    one attribute, and what depends on no symbol is a number:
    `#dynamo.expr<s0 - s0 + 4>` is `4 : i64`.
  }];
  let parameters = (ins
    StringRefParameter<"canonical text">:$text,
    ArrayRefParameter<"int64_t", "numbers of the symbols that occur, ascending">:$symbols);
  let hasCustomAssemblyFormat = 1;
}

def Dynamo_SizesAttr : Dynamo_Attr<"Sizes", "sizes"> {
  let traits = [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>];
  let summary = "sizes of which at least one is an expression";
  let description = [{
    As the encoding of a tensor it says what its shape cannot. Each `?` of the
    shape is an expression here, each number is that number, and equal types
    have equal sizes:

    ```mlir
    tensor<?x128xf32, #dynamo.sizes<s0, 128>>
    ```

    In the place of an array of numbers it is an array of numbers and
    expressions: `dynamo.slice %x starts [s0, 0] …`. Where all are numbers, it
    is that array, or a tensor without encoding.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute", "numbers, as i64, and expressions">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dynamo_SizeSymbolAttr : Dynamo_Attr<"SizeSymbol", "symbol"> {
  let summary = "what is known of a symbol, and where its value comes from";
  let description = [{
    Element of `dynamo.symbols`, in which a function declares the symbols that
    occur in it. The value is a size of an argument, or an argument of type
    `index`, as kernels have them from stage 04 on:

    ```mlir
    #dynamo.symbol<s0, argument = 0, dim = 1, min = 2, max = 1024, divisor = 8, hint = 16>
    #dynamo.symbol<s1, argument = 3>
    #dynamo.symbol<s2>
    ```

    It lies from `min` (2 where it is not said: a size of 0 or 1 behaves in
    another way) to `max` and is a multiple of `divisor`. `hint` is a value to
    choose by, which nothing relies on. An entry says of each symbol where it
    comes from; other functions need not.
  }];
  let parameters = (ins
    "int64_t":$number,
    DefaultValuedParameter<"int64_t", "-1", "argument with the value, or -1">:$argument,
    DefaultValuedParameter<"int64_t", "-1", "its dimension, or -1">:$dim,
    DefaultValuedParameter<"int64_t", "2">:$min,
    DefaultValuedParameter<"int64_t", "::std::numeric_limits<int64_t>::max()", "no limit where it is the largest number">:$max,
    DefaultValuedParameter<"int64_t", "1">:$divisor,
    DefaultValuedParameter<"int64_t", "-1", "or -1">:$hint);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// An attribute that holds sizes. Numbers are what they are everywhere in MLIR; see Sizes.h for the rest.
def Dynamo_Size : Attr<CPred<"::dynamlir::dynamo::isSize($_self)">, "a size: an i64 or an expression"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}
def Dynamo_SizeArray
    : Attr<CPred<"::dynamlir::dynamo::isSizeArray($_self)">, "sizes: an array of i64, or with expressions"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}

def Dynamo_TargetAttr : Dynamo_Attr<"Target", "target"> {
  let summary = "what kernels are made for";
  let description = [{
    All that passes know of a machine, as `dynamo.target` of the module: LLVM's
    name of the processor and its features, how many bits its vectors have as
    far as code should use them (0: none that are worth it), and how many the
    library's own products use there. `chip` is a GPU's, whose code the
    kernels become then. A module without it is for a machine of which nothing
    is known.

    ```mlir
    #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "+avx2,+avx512f,+fma",
                   vector_bits = 512, library_vector_bits = 256>
    #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "+avx2,+fma", chip = "sm_90">
    ```
  }];
  let parameters = (ins
    StringRefParameter<"LLVM's triple">:$triple, StringRefParameter<"LLVM's name of the processor">:$cpu,
    StringRefParameter<"its features, as LLVM writes them">:$features,
    DefaultValuedParameter<"int64_t", "0">:$vector_bits, DefaultValuedParameter<"int64_t", "0">:$library_vector_bits,
    StringRefParameter<"a GPU whose code kernels become", [{""}]>:$chip);
  let assemblyFormat = "`<` $triple `,` $cpu `,` $features (`,` struct($vector_bits, $library_vector_bits, $chip)^)? `>`";
  let genVerifyDecl = 1;
}

def Dynamo_OutputKind : I32EnumAttr<"OutputKind", "what a user output is made of", [
    I32EnumAttrCase<"result", 0>, I32EnumAttrCase<"arg", 1>,
    I32EnumAttrCase<"arg_view", 2>, I32EnumAttrCase<"result_view", 3>,
    I32EnumAttrCase<"none", 4>, I32EnumAttrCase<"same", 5>,
    I32EnumAttrCase<"constant", 6>]> {
  let cppNamespace = "::dynamlir::dynamo";
  let genSpecializedAttr = 0;
}

def Dynamo_OutputAttr : Dynamo_Attr<"Output", "output"> {
  let summary = "how the runtime builds one output of the user's function";
  let description = [{
    `#dynamo.output<result 0>` the tensor of function result 0;
    `#dynamo.output<arg 1>` the input object itself;
    `#dynamo.output<arg_view 1, [2], [1], 4>` a view of argument 1 with these
    sizes, strides and absolute storage offset; `result_view` likewise of a
    result; `none`; `same 2` the object of output 2; `constant -3` an integer.
    Sizes, strides and offset may be expressions.
  }];
  // As in `!dynamo.tensor`: what is not a number stands beside the numbers.
  let parameters = (ins
    "::dynamlir::dynamo::OutputKind":$kind, "int64_t":$index,
    ArrayRefParameter<"int64_t">:$sizes, ArrayRefParameter<"int64_t">:$strides,
    "int64_t":$offset, "::dynamlir::dynamo::SizesAttr":$symbolicSizes,
    "::dynamlir::dynamo::SizesAttr":$symbolicStrides, "::dynamlir::dynamo::ExprAttr":$symbolicOffset);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dynamo_BaseKind : I32EnumAttr<"BaseKind", "what a user output is a view of", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"arg", 1>,
    I32EnumAttrCase<"output", 2>, I32EnumAttrCase<"hidden", 3>]> {
  let cppNamespace = "::dynamlir::dynamo";
  let genSpecializedAttr = 0;
}

def Dynamo_BaseAttr : Dynamo_Attr<"Base", "base"> {
  let summary = "what eager has one output of the user's function be a view of";
  let description = [{
    `#dynamo.base<none>` it is not a view, not a tensor, or an input itself;
    `#dynamo.base<arg 1>` a view of argument 1; `#dynamo.base<output 0>` a view
    of output 0; `#dynamo.base<hidden 2>` a view of a tensor that nobody sees:
    outputs with the same number share it, and the first of them has that
    number.

    They stand in `dynamo.bases` of the entry, one for each of
    `dynamo.outputs`. `unit` in the place of one says that the base is the one
    that the output has as it is made.
  }];
  let parameters = (ins "::dynamlir::dynamo::BaseKind":$kind, "int64_t":$index);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

class Dynamo_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::dynamlir::dynamo";
  let genSpecializedAttr = 0;
}

class Dynamo_Enum<string name, string summary, string enumMnemonic, list<I32EnumAttrCase> cases>
    : EnumAttr<Dynamo_Dialect, Dynamo_I32Enum<name, summary, cases>, enumMnemonic>;

#endif // DYNAMO_TYPES
