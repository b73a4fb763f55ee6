//===- Sizes.h - Sizes that are numbers or expressions ----------*- C++ -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on sizes for verifiers, parsers and printers. Numbers are computed
// here; expressions are parsed, brought into canonical form and compared by
// callbacks (`dynamoSetSizeCallbacks` in dynamo-c/Dynamo.h), so that there is
// only one algebra.
//
//===----------------------------------------------------------------------===//

#ifndef DYNAMO_SIZES_H
#define DYNAMO_SIZES_H

#include "dynamo/Dynamo.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace dynamlir::dynamo {

/// A number, an expression, or `?`.
class Size {
public:
  /// A number, or `?` for `ShapedType::kDynamic`.
  Size(int64_t number) : number(number) {}
  Size(ExprAttr expression) : number(mlir::ShapedType::kDynamic), expression(expression) {}
  /// The size in an attribute for which `isSize` is true; null is `?`.
  static Size of(mlir::Attribute attribute);

  bool isNumber() const { return !mlir::ShapedType::isDynamic(number); }
  bool isUnknown() const { return !isNumber() && !expression; }
  /// The number, or `ShapedType::kDynamic`.
  int64_t getNumber() const { return number; }
  /// The expression, or null.
  ExprAttr getExpression() const { return expression; }
  bool isNegative() const { return isNumber() && number < 0; }
  /// The printed form.
  std::string str() const;
  /// Returns true if both have the same form.
  bool operator==(Size other) const { return number == other.number && expression == other.expression; }
  bool operator!=(Size other) const { return !(*this == other); }

private:
  int64_t number;
  ExprAttr expression;
};

using SizeList = llvm::SmallVector<Size, 4>;

/// `[2, s0, ?]`
std::string sizesToString(llvm::ArrayRef<Size> sizes);

/// The sizes of a tensor: those of its encoding, if it has them, else its shape.
SizeList sizesOf(mlir::RankedTensorType type);
SizeList sizesOf(llvm::ArrayRef<int64_t> numbers);
/// The sizes in an array attribute of sizes (`Dynamo_SizeArray`).
SizeList sizesOf(mlir::Attribute array);
/// The number of sizes in it.
size_t countSizes(mlir::Attribute array);

/// The results; `?` if an operand is `?`, nothing if the result cannot be represented as a size.
std::optional<Size> add(Size a, Size b);
std::optional<Size> multiply(Size a, Size b);
std::optional<Size> multiply(llvm::ArrayRef<Size> sizes);
/// `a mod divisor`; the divisor is positive.
std::optional<Size> modulo(Size a, int64_t divisor);

/// A relation between two sizes.
enum class Relation { equal, less, lessOrEqual };

/// Returns true or false if a relation has that value for all values of the symbols, as the function around `op`
/// declares them; nothing if it depends on them, or on a `?`.
std::optional<bool> decide(mlir::Operation *op, Size a, Relation relation, Size b);
/// Returns true if two sizes are known to be equal. `?` counts as equal to `?` here, since verifiers do not check
/// unknown sizes. Folders must not use this, as they need certainty.
bool areEqual(mlir::Operation *op, Size a, Size b);
bool areEqual(mlir::Operation *op, llvm::ArrayRef<Size> a, llvm::ArrayRef<Size> b);
/// Returns true if a size is negative for all values of its symbols.
bool isSurelyNegative(mlir::Operation *op, Size size);
/// Reports an error if one of the sizes is.
llvm::LogicalResult verifyNotNegative(mlir::Operation *op, llvm::Twine what, llvm::ArrayRef<Size> sizes);
/// Returns true if two tensors have the same shape.
bool haveOneShape(mlir::Operation *op, mlir::RankedTensorType a, mlir::RankedTensorType b);

/// Parses a size from text. Returns null, with an error at a position, if the text is not a size or callbacks are not
/// set.
mlir::Attribute readSize(mlir::MLIRContext *context, llvm::StringRef text,
                         llvm::function_ref<mlir::InFlightDiagnostic(size_t position)> emitError);

/// Parses `s0*4`.
mlir::ParseResult parseSize(mlir::AsmParser &parser, mlir::Attribute &size);
void printSize(mlir::AsmPrinter &printer, mlir::Attribute size);
inline void printSize(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Attribute size) { printSize(printer, size); }

/// Parses `[s0*4, 1]`: an array of numbers, or with expressions.
mlir::ParseResult parseSizeArray(mlir::AsmParser &parser, mlir::Attribute &array);
void printSizeArray(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute array);

/// Checks `dynamo.symbols` of a function, and that operations of other dialects in it use only declared symbols.
llvm::LogicalResult verifySymbols(mlir::FunctionOpInterface function, mlir::Attribute value);
/// Checks that operations of other dialects in a function, and the function itself, use only declared symbols.
llvm::LogicalResult verifyNamedSymbols(mlir::FunctionOpInterface function);
/// Checks that an operation's types and attributes use only declared symbols.
llvm::LogicalResult verifyDeclared(mlir::Operation *op);

} // namespace dynamlir::dynamo

#endif // DYNAMO_SIZES_H
