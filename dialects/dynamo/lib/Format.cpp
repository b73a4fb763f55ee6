//===- Format.cpp - Texts of other versions of dynamlir -------------------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR versions bytecode, but not text. So the module of a dump states its
// format, in an attribute whose parser refuses others: a module's attributes
// are parsed before its body, which may have operations of the other format.
// A name that this version does not know is refused as well.
//
//===----------------------------------------------------------------------===//

#include "dynamo/Dynamo.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace dynamlir::dynamo;

/// To be raised when this version rejects or misreads texts that the version before has written.
static constexpr int64_t currentFormat = 1;

/// What a name of older forms was replaced by; empty for other names.
static StringRef replacement(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Case("dynamo.arg_versions", "arguments have 'dynamo.version_bumps' now")
      .Case("dynamo.chip", "the chip is a part of '#dynamo.target' now")
      .Default("");
}

FormatAttr dynamlir::dynamo::formatOfThisVersion(MLIRContext *context) {
  return FormatAttr::get(context, currentFormat, DYNAMLIR_VERSION);
}

LogicalResult FormatAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t number, StringRef writer) {
  if (number == currentFormat)
    return success();
  return emitError() << "the text has format " << number << " and was written by dynamlir " << writer << ", but this is dynamlir "
                     << DYNAMLIR_VERSION << ", which reads format " << currentFormat
                     << ": use that version, or write the text again with this one";
}

void DynamoDialect::nameAttributes() {
#define DYNAMO_ATTRIBUTE(name) names.insert(StringAttr::get(getContext(), "dynamo." #name));
#include "dynamo/DynamoAttributeNames.inc"
#undef DYNAMO_ATTRIBUTE
}

/// Adds to an error about an unknown name that the text may be of another version, which it is if it says so.
static InFlightDiagnostic addVersions(InFlightDiagnostic error, FormatAttr format) {
  error << ", which dynamlir " << DYNAMLIR_VERSION << " does not know";
  if (!format)
    error << "; the text may be of another version";
  else if (format.getWriter() != DYNAMLIR_VERSION)
    error << "; the text was written by dynamlir " << format.getWriter();
  return error;
}

LogicalResult DynamoDialect::verifyName(Operation *op, StringAttr name) const {
  if (names.contains(name))
    return success();
  StringRef other = replacement(name);
  if (!other.empty())
    return op->emitOpError() << "has '" << name.getValue() << "', which is of an older version of dynamlir: " << other;
  FormatAttr format;
  for (Operation *outer = op; outer && !format; outer = outer->getParentOp())
    format = outer->getAttrOfType<FormatAttr>("dynamo.format");
  return addVersions(op->emitOpError() << "has the attribute '" << name.getValue() << "'", format);
}

std::optional<Dialect::ParseOpHook> DynamoDialect::getParseOperationHook(StringRef name) const {
  if (std::optional<ParseOpHook> known = Dialect::getParseOperationHook(name))
    return known;
  // The module does not exist yet, so its format is not known here.
  return ParseOpHook([](OpAsmParser &parser, OperationState &state) -> ParseResult {
    return addVersions(parser.emitError(parser.getNameLoc()) << "'" << state.name << "' is an operation", {});
  });
}
