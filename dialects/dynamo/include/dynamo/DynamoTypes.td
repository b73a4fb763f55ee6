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
  let summary = "a torch tensor: a strided window on a storage that other tensors may share";
  let description = [{
    `!dynamo.tensor<2x3xf32, [3, 1], 0>` has sizes 2×3, strides 3 and 1 (in
    elements) and starts 0 elements into its storage. A value of this type is
    a reference: ops may write to the storage, and other values may share it.
    The type exists only before `dynamo-functionalize`.

    Sizes, strides and offset may be expressions. If a size is one, all sizes
    are in brackets: `!dynamo.tensor<[s0, 128]xf32, [128, 1], s0*4>`.
  }];
  // An expression is `?` among the numbers; the corresponding `symbolic` parameter has the expression. It is null if there is none.
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

// A trait of all ops of the dialect: the function declares the symbols in their sizes. Without expressions it costs only a check of a flag.
def Dynamo_HoldsSizes : NativeOpTrait<"HoldsSizes"> {
  let cppNamespace = "::dynamlir::dynamo";
}
class Dynamo_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dynamo_Dialect, mnemonic, !listconcat([Dynamo_HoldsSizes], traits)>;

def Dynamo_OperandAttr : Dynamo_Attr<"Operand", "operand"> {
  let summary = "a schema argument that is the SSA operand with this number";
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
    `#dynamo.expr<s0*4 + 1>`, used instead of a number. Symbols are `s0`, `s1`,
    …; the operators are `+`, `-`, `*`, `floordiv`, `ceildiv`, `mod`,
    `min(…, …)` and `max(…, …)`, with Python's rounding. The parser brings an
    expression into canonical form, so that equal polynomials are the same
    attribute. An expression that does not depend on a symbol becomes a number:
    `#dynamo.expr<s0 - s0 + 4>` is `4 : i64`.
  }];
  let parameters = (ins
    StringRefParameter<"canonical text">:$text,
    ArrayRefParameter<"int64_t", "numbers of the symbols that occur, ascending">:$symbols);
  let hasCustomAssemblyFormat = 1;
}

def Dynamo_SizesAttr : Dynamo_Attr<"Sizes", "sizes"> {
  let traits = [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>];
  let summary = "sizes, at least one of them an expression";
  let description = [{
    As the encoding of a tensor type it gives the sizes that the shape cannot
    express. Each `?` of the shape is an expression here, and each number is
    repeated. Equal types thus have equal sizes:

    ```mlir
    tensor<?x128xf32, #dynamo.sizes<s0, 128>>
    ```

    Used instead of an array of numbers, it is an array of numbers and
    expressions: `dynamo.slice %x starts [s0, 0] …`. If all elements are
    numbers, a plain array of numbers is used instead, or a tensor type without
    an encoding.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Attribute", "numbers, as i64, and expressions">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dynamo_SizeSymbolAttr : Dynamo_Attr<"SizeSymbol", "symbol"> {
  let summary = "the facts about a symbol, and the source of its value";
  let description = [{
    Element of `dynamo.symbols`, in which a function declares the symbols that
    occur in it. The symbol's value is a size of an argument, or an argument of
    type `index`, which kernels have from stage 04 on:

    ```mlir
    #dynamo.symbol<s0, argument = 0, dim = 1, min = 2, max = 1024, divisor = 8, hint = 16>
    #dynamo.symbol<s1, argument = 3>
    #dynamo.symbol<s2>
    ```

    The value is at least `min` (by default 2, since sizes 0 and 1 behave
    differently), at most `max`, and a multiple of `divisor`. `hint` is an
    expected value for heuristics; correctness does not depend on it. An entry
    gives the source of each symbol; other functions need not.
  }];
  let parameters = (ins
    "int64_t":$number,
    DefaultValuedParameter<"int64_t", "-1", "argument that has the value, or -1">:$argument,
    DefaultValuedParameter<"int64_t", "-1", "its dimension, or -1">:$dim,
    DefaultValuedParameter<"int64_t", "2">:$min,
    DefaultValuedParameter<"int64_t", "::std::numeric_limits<int64_t>::max()", "unlimited if it is the largest number">:$max,
    DefaultValuedParameter<"int64_t", "1">:$divisor,
    DefaultValuedParameter<"int64_t", "-1", "expected value, or -1">:$hint);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// An attribute that holds sizes. Numbers have MLIR's usual attributes; see Sizes.h for expressions.
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
  let summary = "the machine that kernels are compiled for";
  let description = [{
    Everything that passes know about a machine, as `dynamo.target` of the
    module: LLVM's name of the processor and its features, the vector width in
    bits that generated code should use (0: no vectors that are worth using),
    and the vector width that torch's own matrix products use on it. With
    `chip`, kernels are compiled for that GPU. A module without this attribute
    is compiled for an unknown machine.

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
    StringRefParameter<"the GPU that kernels are compiled for", [{""}]>:$chip);
  let assemblyFormat = "`<` $triple `,` $cpu `,` $features (`,` struct($vector_bits, $library_vector_bits, $chip)^)? `>`";
  let genVerifyDecl = 1;
}

def Dynamo_FormatAttr : Dynamo_Attr<"Format", "format"> {
  let summary = "the format of a text, and the version that wrote it";
  let description = [{
    `dynamo.format` of the module of a dump: the number of its format, and the
    version of dynamlir that wrote it. A text of another format is rejected,
    with an error that names both versions. A text without this attribute is
    written by hand, and read like one of the current format.

    ```mlir
    module attributes {dynamo.format = #dynamo.format<1, "0.1.0">} {}
    ```
  }];
  let parameters = (ins "int64_t":$number, StringRefParameter<"the version that wrote the text">:$writer);
  let assemblyFormat = "`<` $number `,` $writer `>`";
  let genVerifyDecl = 1;
}

def Dynamo_OutputKind : I32EnumAttr<"OutputKind", "the kind of value that a user output is built from", [
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
    `#dynamo.output<result 0>`: the tensor of function result 0;
    `#dynamo.output<arg 1>`: the input object itself;
    `#dynamo.output<arg_view 1, [2], [1], 4>`: a view of argument 1 with these
    sizes, strides and absolute storage offset; `result_view`: likewise of a
    result; `none`: the object `None`; `same 2`: the object of output 2;
    `constant -3`: an integer. Sizes, strides and offset may be expressions.
  }];
  // As in `!dynamo.tensor`, expressions are in separate parameters.
  let parameters = (ins
    "::dynamlir::dynamo::OutputKind":$kind, "int64_t":$index,
    ArrayRefParameter<"int64_t">:$sizes, ArrayRefParameter<"int64_t">:$strides,
    "int64_t":$offset, "::dynamlir::dynamo::SizesAttr":$symbolicSizes,
    "::dynamlir::dynamo::SizesAttr":$symbolicStrides, "::dynamlir::dynamo::ExprAttr":$symbolicOffset);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dynamo_BaseKind : I32EnumAttr<"BaseKind", "the kind of tensor that a user output is a view of", [
    I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"arg", 1>,
    I32EnumAttrCase<"output", 2>, I32EnumAttrCase<"hidden", 3>]> {
  let cppNamespace = "::dynamlir::dynamo";
  let genSpecializedAttr = 0;
}

def Dynamo_BaseAttr : Dynamo_Attr<"Base", "base"> {
  let summary = "the base, in eager, of one output of the user's function";
  let description = [{
    `#dynamo.base<none>`: the output is not a view, not a tensor, or an input
    itself; `#dynamo.base<arg 1>`: a view of argument 1;
    `#dynamo.base<output 0>`: a view of output 0; `#dynamo.base<hidden 2>`: a
    view of a tensor that is not visible to the user. All outputs with the same
    number share it; the number is the position of the first of them.

    `dynamo.bases` of the entry has one of these for each element of
    `dynamo.outputs`. `unit` instead means that the output, as it is built, has
    the right base already.
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
