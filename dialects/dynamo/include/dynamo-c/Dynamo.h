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

/// Returns true if the type is `!dynamo.tensor`.
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

/// The same for sizes, strides and an offset that may be expressions: arrays of attributes for which `dynamoSizeAttrIs`
/// is true. Null, with a diagnostic, if they do not fit together.
MLIR_CAPI_EXPORTED MlirType dynamoMutableTensorTypeGetOfSizes(MlirContext context, intptr_t rank, const MlirAttribute *sizes,
                                                              MlirType elementType, const MlirAttribute *strides, MlirAttribute offset);
/// A size, a stride, and the offset, as attributes; null for `?`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetSizeAttr(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetStrideAttr(MlirType type, intptr_t dim);
MLIR_CAPI_EXPORTED MlirAttribute dynamoMutableTensorTypeGetOffsetAttr(MlirType type);

/// A size that was parsed, or the error in its text.
typedef struct {
  /// True if it does not depend on symbols; then it is `number`.
  bool isNumber;
  int64_t number;
  /// Otherwise the canonical text, which is the same for equal expressions.
  MlirStringRef text;
  /// The numbers of its symbols, ascending.
  const int64_t *symbols;
  intptr_t numSymbols;
  /// Not empty if the text is not a size; `position` is the byte where the error was detected.
  MlirStringRef fault;
  intptr_t position;
} DynamoSize;
typedef void (*DynamoSizeTake)(const DynamoSize *size, void *userData);

/// The fields of `#dynamo.symbol<…>`. `argument`, `dim` and `hint` are -1 if they are not given; `max` is the largest
/// number if there is no limit.
typedef struct {
  int64_t number, argument, dim, min, max, divisor, hint;
} DynamoSymbol;

typedef enum { DynamoRelationEqual, DynamoRelationLess, DynamoRelationLessOrEqual } DynamoRelation;

/// The algebra of sizes. The dialect does not have its own: these callbacks parse expressions, bring them into
/// canonical form and compare them.
typedef struct {
  /// Parses a text and calls `take` once, before it returns. The text is borrowed for this call; the memory that the
  /// size points to is borrowed by `take` for its call.
  void (*read)(MlirStringRef text, DynamoSizeTake take, void *userData);
  /// Returns 1 if the relation holds for all values of the symbols that satisfy the assumptions (a text as in
  /// `dynamo.assumed`), 0 if for none, and -1 otherwise. Everything is borrowed for the call.
  int32_t (*decide)(const DynamoSymbol *symbols, intptr_t numSymbols, MlirStringRef assumed, DynamoRelation relation, MlirStringRef left,
                    MlirStringRef right);
} DynamoSizeCallbacks;
/// Sets the algebra for the process. The struct is copied; both functions are called from any thread, must not unwind,
/// and must live as long as the process. Call it before a context has the dialect. Without it, parsing an expression is
/// an error.
MLIR_CAPI_EXPORTED void dynamoSetSizeCallbacks(const DynamoSizeCallbacks *callbacks);

/// Returns true if the attribute is a size: an `i64`, or `#dynamo.expr`.
MLIR_CAPI_EXPORTED bool dynamoSizeAttrIs(MlirAttribute attr);
/// The size with this text, a number or `#dynamo.expr<text>`; null, with a diagnostic, if the text is not a size.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizeAttrGet(MlirContext context, MlirStringRef text);
/// Returns true if the attribute is `#dynamo.expr`, and then writes its text, which the context owns, to `text`.
MLIR_CAPI_EXPORTED bool dynamoExprAttrGetText(MlirAttribute attr, MlirStringRef *text);
/// `#dynamo.sizes` of attributes for which `dynamoSizeAttrIs` is true; `array<i64: …>` if all are numbers.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizesAttrGet(MlirContext context, intptr_t count, const MlirAttribute *sizes);
/// The number of sizes of `#dynamo.sizes`, or -1 for another attribute (including null).
MLIR_CAPI_EXPORTED intptr_t dynamoSizesAttrGetCount(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirAttribute dynamoSizesAttrGetSize(MlirAttribute attr, intptr_t index);
/// `#dynamo.symbol<…>`; null, with a diagnostic, if the fields do not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoSymbolAttrGet(MlirContext context, const DynamoSymbol *fields);
/// Returns true if the attribute is `#dynamo.symbol<…>`, and then writes its fields to `fields`.
MLIR_CAPI_EXPORTED bool dynamoSymbolAttrGetFields(MlirAttribute attr, DynamoSymbol *fields);
/// Returns true if an expression was ever created in the context.
MLIR_CAPI_EXPORTED bool dynamoContextHoldsExpressions(MlirContext context);
/// The first operation, in or at `root`, that has an expression in its attributes or types, or in its blocks'
/// arguments; null if there is none. Writes the first of these expressions, which the context owns, to `text`.
MLIR_CAPI_EXPORTED MlirOperation dynamoFindExpression(MlirOperation root, MlirStringRef *text);

/// Adds this dialect and the upstream ones that dynamlir's pipelines use, with
/// their interfaces, transform ops and translations to LLVM IR.
MLIR_CAPI_EXPORTED void dynamoRegisterDialects(MlirDialectRegistry registry);
/// Registers the upstream passes that dynamlir's pipelines use. Call it once per process, and not if all of MLIR's
/// passes are registered.
MLIR_CAPI_EXPORTED void dynamoRegisterUpstreamPasses(void);

/// `#dynamo.operand<index>`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoOperandAttrGet(MlirContext context, int64_t index);
/// Index of `#dynamo.operand<index>`, or -1 for another attribute.
MLIR_CAPI_EXPORTED int64_t dynamoOperandAttrGetIndex(MlirAttribute attr);

/// `#dynamo.device<"cpu">`, or another attribute that is a text: `device`, `memory_format`, `layout`; null for another
/// mnemonic.
MLIR_CAPI_EXPORTED MlirAttribute dynamoTextAttrGet(MlirContext context, MlirStringRef mnemonic, MlirStringRef value);
/// Returns true if the attribute is the one with this mnemonic, and then writes its text, which the context owns, to
/// `value`.
MLIR_CAPI_EXPORTED bool dynamoTextAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic, MlirStringRef *value);

/// The fields of `#dynamo.output<…>`; `kind` is a number of the enumeration `OutputKind`. Lists of sizes are
/// `array<i64: …>` or `#dynamo.sizes<…>`, the offset is a number or `#dynamo.expr<…>`; all three are null if the output
/// is not a view.
typedef struct {
  int64_t kind, index;
  MlirAttribute sizes, strides, offset;
} DynamoOutput;
/// Builds `#dynamo.output<…>`; null, with a diagnostic, if the fields do not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoOutputAttrGet(MlirContext context, const DynamoOutput *fields);
/// Returns true if the attribute is `#dynamo.output<…>`, and then writes its fields to `fields`.
MLIR_CAPI_EXPORTED bool dynamoOutputAttrGetFields(MlirAttribute attr, DynamoOutput *fields);

/// Builds `#dynamo.base<…>`; `kind` is a number of the enumeration `BaseKind`. Null, with a diagnostic, if the two do
/// not fit together.
MLIR_CAPI_EXPORTED MlirAttribute dynamoBaseAttrGet(MlirContext context, int64_t kind, int64_t index);
/// Returns true if the attribute is `#dynamo.base<…>`, and then writes its parts to `kind` and `index`.
MLIR_CAPI_EXPORTED bool dynamoBaseAttrGetFields(MlirAttribute attr, int64_t *kind, int64_t *index);

/// A case of the enumeration with this mnemonic (`reduce_kind`); null if the mnemonic or the number is unknown.
MLIR_CAPI_EXPORTED MlirAttribute dynamoEnumAttrGet(MlirContext context, MlirStringRef mnemonic, int64_t value);
/// The number of the case, or -1 if the attribute does not belong to the enumeration with this mnemonic.
MLIR_CAPI_EXPORTED int64_t dynamoEnumAttrGetValue(MlirAttribute attr, MlirStringRef mnemonic);

/// The parts of `#dynamo.target`. The strings belong to the attribute, or are copied into it.
typedef struct {
  MlirStringRef triple, cpu, features;
  int64_t vectorBits, libraryVectorBits;
  MlirStringRef chip;
} DynamoTarget;
/// Builds the attribute; null, with a diagnostic, if it would be invalid.
MLIR_CAPI_EXPORTED MlirAttribute dynamoTargetAttrGet(MlirContext context, const DynamoTarget *parts);
/// Writes the parts of the attribute; false for another attribute.
MLIR_CAPI_EXPORTED bool dynamoTargetAttrGetParts(MlirAttribute attr, DynamoTarget *parts);
/// Returns the `dynamo.format` of the texts that this version writes.
MLIR_CAPI_EXPORTED MlirAttribute dynamoFormatAttrGet(MlirContext context);
/// Parses a module, whose operations get locations in a file of this name. Null, with a diagnostic, if it is not one.
MLIR_CAPI_EXPORTED MlirModule dynamoModuleParse(MlirContext context, MlirStringRef text, MlirStringRef file);
/// Passes LLVM's data layout for a triple to `take`, without needing a code generator for it. Does not call `take` for
/// an unknown triple.
MLIR_CAPI_EXPORTED void dynamoDataLayout(MlirStringRef triple, void *userData, void (*take)(MlirStringRef layout, void *userData));
/// `#linalg.iterator_type<parallel>` or `<reduction>`.
MLIR_CAPI_EXPORTED MlirAttribute dynamoIteratorTypeAttrGet(MlirContext context, bool isReduction);
/// Returns true if the attribute is `#linalg.iterator_type<reduction>`.
MLIR_CAPI_EXPORTED bool dynamoIteratorTypeAttrIsReduction(MlirAttribute attr);
/// The flags of `#arith.fastmath<…>` as `#llvm.fastmath<…>`, with `nsz` if requested. A null attribute has no flags.
MLIR_CAPI_EXPORTED MlirAttribute dynamoFastmathAttrToLLVM(MlirContext context, MlirAttribute flags, bool noSignedZeros);

/// Drops all references from an operation and its contents: operands and successors are null from here on.
MLIR_CAPI_EXPORTED void dynamoOperationDropReferences(MlirOperation op);
/// Returns true if an operation is pointwise (has the Elementwise trait).
MLIR_CAPI_EXPORTED bool dynamoOperationIsElementwise(MlirOperation op);
/// Returns true if the operation itself declares that it does not have side effects.
MLIR_CAPI_EXPORTED bool dynamoOperationIsPure(MlirOperation op);

/// The kind of value of a pass's or pipeline's option: `true` or `false`, a non-negative number, or text.
typedef enum { DynamoOptionFlag, DynamoOptionNumber, DynamoOptionText } DynamoOptionKind;
/// The declaration of an option: undeclared options and values of another kind are errors; `--help` lists it.
typedef struct {
  MlirStringRef name, description;
  DynamoOptionKind kind;
} DynamoOption;
/// An option's value, if one was given. A flag is the number 0 or 1. The text is borrowed for the call.
typedef struct {
  bool isGiven;
  uint64_t number;
  MlirStringRef text;
} DynamoOptionValue;
/// A statistic of a pass, for `--mlir-pass-statistics`.
typedef struct {
  MlirStringRef name, description;
} DynamoStatistic;

/// The outcome of a pass: it failed, with a diagnostic; it changed the module; or it left the module unchanged, so that
/// it need not be verified.
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
/// Prints the statistics of all passes run in this process, as `--mlir-pass-statistics` would: MLIR itself counts only
/// if LLVM was built with statistics, which release builds are not.
MLIR_CAPI_EXPORTED void dynamoPrintPassStatistics(void);
/// Registers a list of passes on modules under a name: `--name` means `--pass-pipeline=builtin.module(passes)`. A given
/// option replaces `$option` in `passes`. The strings are copied; the passes are looked up when the name is used.
MLIR_CAPI_EXPORTED void dynamoRegisterPipeline(MlirStringRef name, MlirStringRef description, MlirStringRef passes,
                                               const DynamoOption *options, intptr_t numOptions);
/// Calls `visit` with the name of each pass and pipeline registered so far.
MLIR_CAPI_EXPORTED void dynamoForEachPass(void (*visit)(MlirStringRef name, void *userData), void *userData);

/// Calls `note` with the argument and the wall-clock seconds of each pass that the manager has run. `note` must not
/// unwind; it and `userData` must outlive the manager, whose context must not be multi-threaded. The name is borrowed
/// for the call.
typedef void (*DynamoPassTimeCallback)(MlirStringRef pass, double seconds, void *userData);
MLIR_CAPI_EXPORTED void dynamoPassManagerNoteTimes(MlirPassManager manager, DynamoPassTimeCallback note, void *userData);

/// Turns strength reduction of address arithmetic in loops by LLVM's code generator on or off, for the whole process.
/// Returns false if this LLVM does not have such a switch. Must not be called while code is generated.
MLIR_CAPI_EXPORTED bool dynamoSetLoopStrengthReduction(bool enabled);

/// The line of a text where brackets are nested too deeply for MLIR's recursive parser, or 0.
MLIR_CAPI_EXPORTED intptr_t dynamoFindDeepNesting(MlirStringRef text);

/// Registers every upstream pass, and with `registry` every upstream dialect
/// and this one. A program that refers to this function links all of MLIR.
MLIR_CAPI_EXPORTED void dynamoRegisterAllOfUpstream(MlirDialectRegistry registry);

/// `mlir-opt` with the dialects of `registry`, which the caller continues to own, and the passes registered so far.
/// Returns the process's exit code. Call it once per process.
MLIR_CAPI_EXPORTED int dynamoOptMain(int argc, char **argv, MlirDialectRegistry registry);

/// `mlir-lsp-server` with the dialects of `registry`, which the caller continues to own. Returns the exit code, once the
/// client has closed the connection. Call it once per process.
MLIR_CAPI_EXPORTED int dynamoLspServerMain(int argc, char **argv, MlirDialectRegistry registry);

/// Sets the text that `--version` prints in this process, which outlives the call.
MLIR_CAPI_EXPORTED void dynamoSetVersion(MlirStringRef tool, MlirStringRef version);

#ifdef __cplusplus
}
#endif

#endif // DYNAMO_C_DYNAMO_H
