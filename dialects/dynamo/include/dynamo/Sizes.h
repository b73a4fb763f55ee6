//===- Sizes.h - Sizes that are numbers or expressions ----------*- C++ -*-===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What verifiers, parsers and printers do with sizes. Numbers are computed here;
// expressions are read, brought into canonical form and compared by callbacks
// (`dynamoSetSizeCallbacks` in dynamo-c/Dynamo.h), so that there is one algebra.
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
  /// A number, or `?` where it is `ShapedType::kDynamic`.
  Size(int64_t number) : number(number) {}
  Size(ExprAttr expression) : number(mlir::ShapedType::kDynamic), expression(expression) {}
  /// What an attribute says for which `isSize` holds; null is `?`.
  static Size of(mlir::Attribute attribute);

  bool isNumber() const { return !mlir::ShapedType::isDynamic(number); }
  bool isUnknown() const { return !isNumber() && !expression; }
  /// The number, or `ShapedType::kDynamic`.
  int64_t getNumber() const { return number; }
  /// The expression, or null.
  ExprAttr getExpression() const { return expression; }
  bool isNegative() const { return isNumber() && number < 0; }
  /// As it is written.
  std::string str() const;
  /// Whether both are the same in form.
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
/// What an array attribute of sizes holds (`Dynamo_SizeArray`).
SizeList sizesOf(mlir::Attribute array);
/// How many that are.
size_t countSizes(mlir::Attribute array);

/// The results; `?` where an operand is `?`, nothing where no size says it.
std::optional<Size> add(Size a, Size b);
std::optional<Size> multiply(Size a, Size b);
std::optional<Size> multiply(llvm::ArrayRef<Size> sizes);
/// `a mod divisor`, which is positive.
std::optional<Size> modulo(Size a, int64_t divisor);

/// How two sizes are compared.
enum class Relation { equal, less, lessOrEqual };

/// Whether a relation holds for all values of the symbols, as the function around `op` declares them; nothing where that
/// depends on them, or on a `?`.
std::optional<bool> decide(mlir::Operation *op, Size a, Relation relation, Size b);
/// Whether two sizes are known to be equal. `?` passes for `?` here: of a size that nobody knows, verifiers ask nothing. Folders,
/// which would have to know, do not ask this.
bool areEqual(mlir::Operation *op, Size a, Size b);
bool areEqual(mlir::Operation *op, llvm::ArrayRef<Size> a, llvm::ArrayRef<Size> b);
/// Whether a size is negative for all values of its symbols.
bool isSurelyNegative(mlir::Operation *op, Size size);
/// An error where one of the sizes is.
llvm::LogicalResult verifyNotNegative(mlir::Operation *op, llvm::Twine what, llvm::ArrayRef<Size> sizes);
/// Whether two tensors have one shape.
bool haveOneShape(mlir::Operation *op, mlir::RankedTensorType a, mlir::RankedTensorType b);

/// A size from its text; null where it is none, or where nobody has given callbacks, with an error at a position.
mlir::Attribute readSize(mlir::MLIRContext *context, llvm::StringRef text,
                         llvm::function_ref<mlir::InFlightDiagnostic(size_t position)> emitError);

/// Parses `s0*4`.
mlir::ParseResult parseSize(mlir::AsmParser &parser, mlir::Attribute &size);
void printSize(mlir::AsmPrinter &printer, mlir::Attribute size);
inline void printSize(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Attribute size) { printSize(printer, size); }

/// Parses `[s0*4, 1]`: an array of numbers, or with expressions.
mlir::ParseResult parseSizeArray(mlir::AsmParser &parser, mlir::Attribute &array);
void printSizeArray(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute array);

/// Checks `dynamo.symbols` of a function, and that what is not of this dialect in it names declared symbols only.
llvm::LogicalResult verifySymbols(mlir::FunctionOpInterface function, mlir::Attribute value);
/// Checks that what is not of this dialect in a function, itself included, names declared symbols only.
llvm::LogicalResult verifyNamedSymbols(mlir::FunctionOpInterface function);
/// Checks that an operation's types and attributes name declared symbols only.
llvm::LogicalResult verifyDeclared(mlir::Operation *op);

} // namespace dynamlir::dynamo

#endif // DYNAMO_SIZES_H
