//===- Dynamo.h - C API of the dialect and its Rust passes ------*- C -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_C_DYNAMO_H
#define DYNAMO_C_DYNAMO_H

#include "mlir-c/IR.h"
#include "mlir-c/Pass.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Dynamo, dynamo);

/// Whether the type is `!dynamo.tensor`.
MLIR_CAPI_EXPORTED bool dynamoTypeIsMutableTensor(MlirType type);
/// Builds `!dynamo.tensor`. Sizes and strides are copied.
MLIR_CAPI_EXPORTED MlirType dynamoMutableTensorTypeGet(
    MlirContext context, intptr_t rank, const int64_t *sizes,
    MlirType elementType, const int64_t *strides, int64_t offset);
MLIR_CAPI_EXPORTED intptr_t dynamoMutableTensorTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int64_t dynamoMutableTensorTypeGetSize(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED int64_t dynamoMutableTensorTypeGetStride(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED int64_t dynamoMutableTensorTypeGetOffset(MlirType type);
MLIR_CAPI_EXPORTED MlirType dynamoMutableTensorTypeGetElementType(MlirType type);

/// The same of sizes, strides and an offset that may be expressions: arrays of attributes for which `dynamoSizeAttrIs` holds.
/// Null, with a diagnostic, where they do not fit together.
MLIR_CAPI_EXPORTED MlirType dynamoMutableTensorTypeGetOfSizes(MlirContext context, intptr_t rank, const MlirAttribute *sizes,
                                                              MlirType elementType, const MlirAttribute *strides, MlirAttribute offset);
/// A size, a stride, and the offset, as attributes; null where it is `?`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetSizeAttr(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetStrideAttr(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetOffsetAttr(MlirType type);

/// A size that was read, or what is wrong with its text.
typedef struct {
  /// Set where it depends on no symbol: then it is `number`.
  bool isNumber;
  int64_t number;
  /// The canonical text else, which is the same for equal expressions.
  MlirStringRef text;
  /// The numbers of its symbols, ascending.
  const int64_t *symbols;
  intptr_t numSymbols;
  /// Not empty where the text is not one of a size; `position` is the byte at which that shows.
  MlirStringRef fault;
  intptr_t position;
} DynamoSize;
typedef void (*DynamoSizeTake)(const DynamoSize *size, void *userData);

/// The fields of `#dynamo.symbol<…>`. `argument`, `dim` and `hint` are -1 where they are not said; `max` is the largest number
/// where there is no limit.
typedef struct {
  int64_t number, argument, dim, min, max, divisor, hint;
} DynamoSymbol;

typedef enum { DynamoRelationEqual, DynamoRelationLess, DynamoRelationLessOrEqual } DynamoRelation;

/// The algebra of sizes. The dialect has none of its own: what reads expressions, brings them into canonical form and compares
/// them is given here.
typedef struct {
  /// Reads a text and calls `take` once, before it returns. The text is borrowed for this call; what the size points to is
  /// borrowed by `take` for its call.
  void (*read)(MlirStringRef text, DynamoSizeTake take, void *userData);
  /// Whether the relation holds for all values of the symbols of which holds what is assumed, a text as in `dynamo.assumed`: 1, or 0
  /// if for none, or -1. Everything is borrowed for the call.
  int32_t (*decide)(const DynamoSymbol *symbols, intptr_t numSymbols, MlirStringRef assumed, DynamoRelation relation, MlirStringRef left,
                    MlirStringRef right);
} DynamoSizeCallbacks;
/// Sets the algebra for the process. The struct is copied; both functions are called from any thread, must not unwind, and must
/// live as long as the process. Call it before a context has the dialect. Without it, expressions are errors where they are
/// parsed.
MLIR_CAPI_EXPORTED void dynamoSetSizeCallbacks(const DynamoSizeCallbacks *callbacks);

/// Whether the attribute is a size: an `i64`, or `#dynamo.expr`.
MLIR_CAPI_EXPORTED bool dynamoSizeAttrIs(MlirAttribute attr);
/// The size with this text, a number or `#dynamo.expr<text>`; null, with a diagnostic, where it is none.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizeAttrGet(MlirContext context, MlirStringRef text);
/// Whether the attribute is `#dynamo.expr`. Its text, which the context owns, goes to `text` then.
MLIR_CAPI_EXPORTED bool dynamoExprAttrGetText(MlirAttribute attr, MlirStringRef *text);
/// `#dynamo.sizes` of attributes for which `dynamoSizeAttrIs` holds; `array<i64: …>` where all are numbers.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizesAttrGet(MlirContext context, intptr_t count, const MlirAttribute *sizes);
/// How many sizes `#dynamo.sizes` has, or -1 where the attribute is another one (null among them).
MLIR_CAPI_EXPORTED intptr_t dynamoSizesAttrGetCount(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizesAttrGetSize(MlirAttribute attr, intptr_t index);
/// `#dynamo.symbol<…>`; null, with a diagnostic, where the fields do not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSymbolAttrGet(MlirContext context, const DynamoSymbol *fields);
/// Whether the attribute is `#dynamo.symbol<…>`. Its fields go to `fields` then.
MLIR_CAPI_EXPORTED bool dynamoSymbolAttrGetFields(MlirAttribute attr, DynamoSymbol *fields);
/// Whether an expression was ever made in the context.
MLIR_CAPI_EXPORTED bool dynamoContextHoldsExpressions(MlirContext context);
/// The first operation, in or at `root`, that says an expression in its attributes or types, or in its blocks' arguments; null
/// where there is none. The first of these expressions, which the context owns, goes to `text`.
MLIR_CAPI_EXPORTED MlirOperation dynamoFindExpression(MlirOperation root, MlirStringRef *text);

/// Adds this dialect and the upstream ones that dynamlir's pipelines use, with
/// their interfaces, transform ops and translations to LLVM IR.
MLIR_CAPI_EXPORTED void dynamoRegisterDialects(MlirDialectRegistry registry);
/// Makes the upstream passes that dynamlir's pipelines use known by name. Call it
/// once per process, and not where all of MLIR's are registered.
MLIR_CAPI_EXPORTED void dynamoRegisterUpstreamPasses(void);

/// `#dynamo.operand<index>`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoOperandAttrGet(MlirContext context, int64_t index);
/// Index of `#dynamo.operand<index>`, or -1 when the attribute is another one.
MLIR_CAPI_EXPORTED int64_t dynamoOperandAttrGetIndex(MlirAttribute attr);

/// `#dynamo.device<"cpu">`, or another attribute that is a text: `device`, `memory_format`, `layout`; null for another mnemonic.
MLIR_CAPI_EXPORTED MlirAttribute dynamoTextAttrGet(MlirContext context, MlirStringRef mnemonic, MlirStringRef value);
/// Whether the attribute is the one with this mnemonic. Its text, which the context owns, goes to `value` then.
MLIR_CAPI_EXPORTED bool dynamoTextAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic, MlirStringRef *value);

/// The fields of `#dynamo.output<…>`; `kind` is a number of the enumeration `OutputKind`. Lists of sizes are `array<i64: …>` or
/// `#dynamo.sizes<…>`, the offset is a number or `#dynamo.expr<…>`; all three are null where the output is no view.
typedef struct {
  int64_t kind, index;
  MlirAttribute sizes, strides, offset;
} DynamoOutput;
/// Builds `#dynamo.output<…>`; null, after a diagnostic, where the fields do not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoOutputAttrGet(MlirContext context, const DynamoOutput *fields);
/// Whether the attribute is `#dynamo.output<…>`. Its fields go to `fields` then.
MLIR_CAPI_EXPORTED bool dynamoOutputAttrGetFields(MlirAttribute attr, DynamoOutput *fields);

/// Builds `#dynamo.base<…>`; `kind` is a number of the enumeration `BaseKind`. Null, after a diagnostic, where the two do not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoBaseAttrGet(MlirContext context, int64_t kind, int64_t index);
/// Whether the attribute is `#dynamo.base<…>`. What it says goes to `kind` and `index` then.
MLIR_CAPI_EXPORTED bool dynamoBaseAttrGetFields(MlirAttribute attr, int64_t *kind, int64_t *index);

/// A case of the enumeration with this mnemonic (`reduce_kind`); null where there is none of that name or number.
MLIR_CAPI_EXPORTED MlirAttribute dynamoEnumAttrGet(MlirContext context, MlirStringRef mnemonic, int64_t value);
/// The number of the case, or -1 when the attribute is not of the enumeration with this mnemonic.
MLIR_CAPI_EXPORTED int64_t dynamoEnumAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic);

/// What `#dynamo.target` says. The strings are the attribute's, or are copied into it.
typedef struct {
  MlirStringRef triple, cpu, features;
  int64_t vectorBits, libraryVectorBits;
  MlirStringRef chip;
} DynamoTarget;
/// The attribute; null, with a diagnostic, where it would not be a valid one.
MLIR_CAPI_EXPORTED MlirAttribute dynamoTargetAttrGet(MlirContext context, const DynamoTarget *parts);
/// False where the attribute is another one.
MLIR_CAPI_EXPORTED bool dynamoTargetAttrGetParts(MlirAttribute attr, DynamoTarget *parts);
/// Gives LLVM's data layout for a triple to `take`; it needs no code generator for it. Nothing is given for an unknown one.
MLIR_CAPI_EXPORTED void dynamoDataLayout(MlirStringRef triple, void *userData, void (*take)(MlirStringRef layout, void *userData));
/// `#linalg.iterator_type<parallel>` or `<reduction>`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoIteratorTypeAttrGet(MlirContext context, bool isReduction);
/// Whether the attribute is `#linalg.iterator_type<reduction>`.
MLIR_CAPI_EXPORTED bool dynamoIteratorTypeAttrIsReduction(MlirAttribute attr);
/// The flags of `#arith.fastmath<…>` as `#llvm.fastmath<…>`, with `nsz` where that is asked for. A null attribute has none.
MLIR_CAPI_EXPORTED MlirAttribute dynamoFastmathAttrToLLVM(MlirContext context, MlirAttribute flags, bool noSignedZeros);

/// Lets an operation, and what it holds, use nothing any more: operands and successors are null from here on.
MLIR_CAPI_EXPORTED void dynamoOperationDropReferences(MlirOperation op);
/// Whether an operation is pointwise (has the Elementwise trait).
MLIR_CAPI_EXPORTED bool dynamoOperationIsElementwise(MlirOperation op);
/// Whether the value is an operation's own report of having no side effects.
MLIR_CAPI_EXPORTED bool dynamoOperationIsPure(MlirOperation op);

/// What an option of a pass or pipeline takes: `true` or `false`, a number that is not negative, or text.
typedef enum { DynamoOptionFlag, DynamoOptionNumber, DynamoOptionText } DynamoOptionKind;
/// An option as it is declared: unknown ones and values of another kind are errors, `--help` lists it.
typedef struct {
  MlirStringRef name, description;
  DynamoOptionKind kind;
} DynamoOption;
/// An option's value, where one was given. A flag is the number 0 or 1. The text is borrowed for the call.
typedef struct {
  bool isGiven;
  uint64_t number;
  MlirStringRef text;
} DynamoOptionValue;
/// Something that a pass counts, for `--mlir-pass-statistics`.
typedef struct {
  MlirStringRef name, description;
} DynamoStatistic;

/// What has become of a module: a diagnostic has been emitted, it is another one, or it is as it was, so that it need not be verified.
typedef enum { DynamoPassFailed, DynamoPassChanged, DynamoPassUnchanged } DynamoPassOutcome;

/// A pass written in another language. `run` gets a value for each option and a zero for each statistic, in the order
/// in which they were declared. It must not unwind. The strings are copied.
typedef DynamoPassOutcome (*DynamoPassCallback)(MlirOperation module, const DynamoOptionValue *options, uint64_t *statistics, void *userData);
typedef struct {
  MlirStringRef name, description;
  const DynamoOption *options;
  intptr_t numOptions;
  const DynamoStatistic *statistics;
  intptr_t numStatistics;
  DynamoPassCallback run;
  void *userData;
} DynamoPass;
MLIR_CAPI_EXPORTED void dynamoRegisterPass(const DynamoPass *pass);
/// Prints what the passes of this process have counted, as `--mlir-pass-statistics` would: MLIR itself counts only where LLVM
/// was built to, which is not so in releases.
MLIR_CAPI_EXPORTED void dynamoPrintPassStatistics(void);
/// Names a list of passes, for modules: `--name` is `--pass-pipeline=builtin.module(passes)`. Where `passes` says `$option`, an
/// option of that name goes if it is given. The strings are copied, the passes are looked up when the name is used.
MLIR_CAPI_EXPORTED void dynamoRegisterPipeline(MlirStringRef name, MlirStringRef description, MlirStringRef passes,
                                               const DynamoOption *options, intptr_t numOptions);
/// Calls `visit` with the name of each pass and pipeline registered so far.
MLIR_CAPI_EXPORTED void dynamoForEachPass(void (*visit)(MlirStringRef name, void *userData), void *userData);

/// Calls `note` with the argument and the wall seconds of each pass that the manager has run. `note` must not unwind; it
/// and `userData` must outlive the manager, whose context must not be multi-threaded. The name is borrowed for the call.
typedef void (*DynamoPassTimeCallback)(MlirStringRef pass, double seconds, void *userData);
MLIR_CAPI_EXPORTED void dynamoPassManagerNoteTimes(MlirPassManager manager, DynamoPassTimeCallback note, void *userData);

/// Whether LLVM's code generator reduces the strength of address arithmetic in loops, for all of the process. False where
/// this LLVM has no such switch. Call it while nobody generates code.
MLIR_CAPI_EXPORTED bool dynamoSetLoopStrengthReduction(bool enabled);

/// The line of a text where brackets are nested deeper than MLIR's recursive
/// parser should be trusted with, or 0.
MLIR_CAPI_EXPORTED intptr_t dynamoFindDeepNesting(MlirStringRef text);

/// Registers every upstream pass, and with `registry` every upstream dialect
/// and this one. A program that refers to this function links all of MLIR.
MLIR_CAPI_EXPORTED void dynamoRegisterAllOfUpstream(MlirDialectRegistry registry);

/// `mlir-opt` with the dialects of `registry`, which stays the caller's, and
/// the passes registered so far. Returns the process's exit code. Call it once
/// per process.
MLIR_CAPI_EXPORTED int dynamoOptMain(int argc, char **argv, MlirDialectRegistry registry);

#ifdef __cplusplus
}
#endif

#endif // DYNAMO_C_DYNAMO_H
