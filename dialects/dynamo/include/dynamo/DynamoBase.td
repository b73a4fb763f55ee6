//===- DynamoBase.td - The dynamo dialect -----------------*- tablegen -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect itself and the constraints that the other files share.
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_BASE
#define DYNAMO_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Dynamo_Dialect : Dialect {
  let name = "dynamo";
  let summary = "PyTorch programs from ATen calls to planned kernel launches";
  let description = [{
    The dialect carries a captured PyTorch program through three levels:

    * the *ATen level*: `dynamo.aten` on `!dynamo.tensor` values, which are
      strided, may share storage and may be written to;
    * the *primitive level*: a closed set of value-semantics ops on builtin
      tensors, without promotion, broadcasting, mutation or aliasing;
    * the *planned level*: `dynamo.launch`, `dynamo.extern` and explicit
      buffers, which the runtime executes.

    The operands of a pointwise primitive have one type, which is written once:

    ```mlir
    %sum = dynamo.add %a, %b : tensor<4xf32>
    %exp = dynamo.exp %sum : tensor<4xf32>
    ```

    Element types are torch's: `f64`, `f32`, `bf16`, `f16`, `i64`, `i32`,
    `i16`, `i8` (int8), `ui8` (uint8) and `i1` (bool). A size may be unknown
    (`?`); the verifiers skip checks that need an unknown size. Sizes may be
    expressions over symbols, as in `tensor<?x4xf32, #dynamo.sizes<s0, 4>>`.
    The function declares its symbols in `dynamo.symbols`. The verifiers then
    require equalities to hold for all values of the symbols, and bounds for
    at least one value.
  }];
  let cppNamespace = "::dynamlir::dynamo";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
  // The dialect's attributes on operations of other dialects. `verifyOperationAttribute` and its counterparts for arguments and results
  // check them.
  let discardableAttrs = (ins
    // On the module of a dump: the format of its text.
    "::dynamlir::dynamo::FormatAttr":$format,
    // On the module: the machine that kernels are compiled for, the tensors' device, the choices for problems, the list of problems, random
    // numbers equal to eager's, and the percentage of the recomputable memory that may be saved for backward.
    "::dynamlir::dynamo::TargetAttr":$target, "::mlir::StringAttr":$device,
    "::mlir::DictionaryAttr":$choices, "::mlir::ArrayAttr":$problems,
    "::mlir::UnitAttr":$eager_random, "::mlir::IntegerAttr":$memory_budget,
    // On a graph function: its user outputs, the base of each output, how often each result was written, whether it draws random numbers.
    "::mlir::UnitAttr":$entry, "::mlir::ArrayAttr":$outputs, "::mlir::ArrayAttr":$bases,
    "::mlir::DenseI64ArrayAttr":$versions, "::mlir::UnitAttr":$random,
    // The outputs that require a gradient, the views created with grad mode off, the views that are one of several created by one
    // operation, the function that computes gradients, and the number of trailing outputs that are saved for it.
    "::mlir::DenseI64ArrayAttr":$differentiable, "::mlir::DenseI64ArrayAttr":$without_grad, "::mlir::DenseI64ArrayAttr":$one_of_several,
    // For each output: the output that it is a view of if that output is itself a view, or -1; the first output that was returned by the
    // same call of an operation that returns several views, or -1.
    "::mlir::DenseI64ArrayAttr":$made_from, "::mlir::DenseI64ArrayAttr":$made_beside,
    "::mlir::FlatSymbolRefAttr":$vjp, "::mlir::IntegerAttr":$saved,
    // The number of operations that this function recomputes.
    "::mlir::IntegerAttr":$recomputed,
    // The number of times it is differentiated, and the arguments that its gradients depend on. On an argument of a function that computes
    // gradients: the number of the argument or tangent of the original function. On its results: the arguments that give them a history.
    "::mlir::IntegerAttr":$order, "::mlir::DenseI64ArrayAttr":$primals, "::mlir::IntegerAttr":$primal,
    "::mlir::DenseI64ArrayAttr":$sources,
    // On an operator: the number of the entry's random draw that it performs. On a call, or on an argument that replaces it: it provides
    // the keys of all draws. On a function: the position of these keys among its saved values.
    "::mlir::IntegerAttr":$draw, "::mlir::UnitAttr":$keys, "::mlir::IntegerAttr":$kept_keys,
    // On a function: its last saved value is saved for its sizes only.
    "::mlir::UnitAttr":$kept_sizes,
    // On any function: the symbols in its sizes.
    "::mlir::ArrayAttr":$symbols,
    // On an entry: the facts about its symbols that hold in each call: s0 <= s1; s0*s1 mod 2 == 0.
    "::mlir::StringAttr":$assumed,
    // On its arguments, besides their layouts: by how much eager increases the version counter, whether a gradient is required.
    "::mlir::IntegerAttr":$version_bumps, "::mlir::UnitAttr":$requires_grad,
    // On an argument: the result whose tangent it is. On a result: the argument whose gradient it is.
    "::mlir::IntegerAttr":$tangent, "::mlir::IntegerAttr":$gradient,
    // For a graph that becomes several nodes of autograd's graph (here and below). On tangents and gradients: the node that they belong
    // to. On a gradient: the result, or the output that is a view, whose gradient it is.
    "::mlir::IntegerAttr":$node, "::mlir::IntegerAttr":$gradient_of, "::mlir::IntegerAttr":$gradient_of_output,
    // On a tangent: the arguments, results and outputs that its node leads to without computing a gradient for them (autograd visits the
    // nodes that created them nevertheless).
    "::mlir::ArrayAttr":$leads_to,
    // `reached`, on a gradient: the results whose tangents reach it, if those are not all. `once`, on a tangent, recorded derivative or
    // operation: eager saves something for its node, which one backward pass frees. `hidden`, on a result of a joint function: only nodes
    // see it. `shown`, on an operation: for each result, the output that it is, if that is a view, or -1. `materialized`, on an operation:
    // its derivative runs even if the gradients of its results are missing, and receives zeros for them. `not_linear`, on an operation: its
    // derivative takes the sum of all gradients that reach it, so that it becomes a node of its own. `once_differentiable`, on an operation:
    // differentiating its derivative raises. `unseen`, on an operation: the derivative of its derivative is unknown.
    "::mlir::DenseI64ArrayAttr":$reached, "::mlir::UnitAttr":$once, "::mlir::UnitAttr":$hidden, "::mlir::DenseI64ArrayAttr":$shown,
    "::mlir::UnitAttr":$materialized, "::mlir::UnitAttr":$not_linear, "::mlir::UnitAttr":$once_differentiable,
    "::mlir::UnitAttr":$unseen,
    // On a graph function: the functions that compute the gradients of its nodes, in order, and the types of values that only nodes see.
    // On these functions: the saved values that they take, and the arguments that formulas read only through views, since these views are
    // what eager saves. On a function that is differentiated several times: the number of the node, for each time.
    "::mlir::ArrayAttr":$vjps, "::mlir::ArrayAttr":$crossing, "::mlir::DenseI64ArrayAttr":$kept, "::mlir::DenseI64ArrayAttr":$by_views,
    "::mlir::DenseI64ArrayAttr":$path,
    // On a function whose gradients are differentiated: the positions, among the results of that node, of those that are arguments of these
    // gradients.
    "::mlir::DenseI64ArrayAttr":$given,
    // On a tangent: eager's node of the result saves the result itself, since its formula reads it.
    "::mlir::UnitAttr":$kept_by_eager,
    // On the arguments and results of a graph function (stages 00 to 04).
    "::mlir::StringAttr":$name, "::mlir::IntegerAttr":$storage, "::mlir::IntegerAttr":$mutates,
    "::mlir::DenseI64ArrayAttr":$strides, "::mlir::IntegerAttr":$offset,
    // On arguments in memory (04), since their types cannot contain expressions.
    "::mlir::DenseI64ArrayAttr":$sizes,
    // On a kernel: its iteration domain (03), its arguments in memory (04), the scratch memory among them, the schedule of its product,
    // the reason that it has no schedule (06), an expression that is negative if its loops are too short for threads (06), and whether it
    // traverses memory backwards (07).
    "::mlir::UnitAttr":$kernel, "::mlir::DenseI64ArrayAttr":$domain, "::mlir::DenseI64ArrayAttr":$reduced_dims,
    "::mlir::TypeAttr":$signature, "::mlir::UnitAttr":$scratch, "::mlir::DictionaryAttr":$matmul, "::mlir::StringAttr":$choice,
    "::mlir::StringAttr":$unscheduled, "::mlir::IntegerAttr":$parallel, "::mlir::UnitAttr":$backward,
    // On operations up to 02: the `torch.utils.checkpoint` region that they belong to; backward recomputes them.
    "::mlir::IntegerAttr":$recompute,
    // On an ATen operator with code (02): pointwise operations follow that can be fused into the code.
    "::mlir::UnitAttr":$followed,
    // On an `f64` sum (02 to 07): its terms are `f32`, widened only because there may be many of them. Blocks of terms may be added in
    // `f32` first.
    "::mlir::UnitAttr":$long_sum,
    // On operations in a kernel (05): the phase that they compute, whose result they initialize, or whose result they are; the
    // dimension of a scan; the number of batch dimensions of a contraction; the piece of a reduction that is computed; the dimension that a
    // tile size is for; whether a loop prefetches what it reads next.
    "::mlir::IntegerAttr":$phase, "::mlir::IntegerAttr":$init, "::mlir::IntegerAttr":$out, "::mlir::IntegerAttr":$scan,
    "::mlir::IntegerAttr":$batch, "::mlir::IntegerAttr":$piece, "::mlir::IntegerAttr":$tile,
    "::mlir::UnitAttr":$prefetch,
    // On a kernel that is lowered for a GPU: the alignments of its arguments, its threads, the use of tf32, or the reason that it has no
    // form for a GPU. On the declaration that remains of it: the symbol of its code. On its code: how it is launched.
    "::mlir::SymbolRefAttr":$code, "::mlir::DenseI64ArrayAttr":$alignments, "::mlir::DictionaryAttr":$gpu, "::mlir::UnitAttr":$tf32,
    "::mlir::StringAttr":$no_gpu, "::mlir::DictionaryAttr":$launch, "::mlir::DictionaryAttr":$launches);
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  // True if an expression was ever created in the context. If not, nothing looks for symbols.
  // `verifyName` rejects attributes that are not among the above, and the hook unknown operations; their errors name the version.
  let extraClassDeclaration = [{
    ::llvm::LogicalResult verifyName(::mlir::Operation *op, ::mlir::StringAttr name) const;
    ::std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;

    bool holdsExpressions() const { return expressions.load(::std::memory_order_relaxed); }
    void noteExpression() { expressions.store(true, ::std::memory_order_relaxed); }

  private:
    void nameAttributes();

    ::std::atomic<bool> expressions{false};
    ::llvm::DenseSet<::mlir::StringAttr> names;

  public:
  }];
}

// torch's element types that dynamlir compiles. `i8` is torch's int8, `ui8` its
// uint8, `i1` its bool.
def Dynamo_Float : AnyTypeOf<[F64, F32, BF16, F16], "floating point">;
def Dynamo_Int : AnyTypeOf<[I64, I32, I16, I8, UI8], "integer">;
def Dynamo_Bool : AnyTypeOf<[I1], "bool">;
def Dynamo_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I16, I8, UI8, I1],
                               "torch element type">;

def Dynamo_Tensor : RankedTensorOf<[Dynamo_Element]>;
def Dynamo_FloatTensor : RankedTensorOf<[F64, F32, BF16, F16]>;
def Dynamo_NumberTensor : RankedTensorOf<[F64, F32, BF16, F16, I64, I32, I16, I8, UI8]>;
def Dynamo_IntTensor : RankedTensorOf<[I64, I32, I16, I8, UI8, I1]>;
def Dynamo_BoolTensor : RankedTensorOf<[I1]>;
def Dynamo_IndexTensor : RankedTensorOf<[I64]>;

#endif // DYNAMO_BASE
