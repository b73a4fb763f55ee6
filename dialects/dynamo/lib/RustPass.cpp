//===- RustPass.cpp - Passes whose body is a callback, and pipelines ------===//
//
// Part of dynamlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR registers passes under a name only from C++. This pass just hands the
// module to a callback, with the options that were declared for it, so that
// pipelines, `mlir-opt` and plugins see a pass written in Rust like any other.
//
//===----------------------------------------------------------------------===//

#include "dynamo-c/Dynamo.h"
#include "dynamo/Dynamo.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FormatVariadic.h"

#include <atomic>

using namespace mlir;

namespace {
/// A declared option or statistic, which owns its strings.
struct Declared {
  std::string name, description;
  DynamoOptionKind kind;
};

struct Callback {
  std::string name, description;
  std::vector<Declared> options, statistics;
  DynamoPassCallback run;
  void *userData;
  /// The counts of all runs in this process.
  std::vector<std::atomic<uint64_t>> counted;
};

/// Options of a pass or of a pipeline, declared at run time.
template <typename Parent>
class DeclaredOptions {
public:
  DeclaredOptions(Parent &parent, ArrayRef<Declared> declared) : declared(declared) {
    for (const Declared &option : declared) {
      llvm::cl::desc description(option.description);
      if (option.kind == DynamoOptionFlag)
        flags.push_back(std::make_unique<Option<bool>>(parent, option.name, description, llvm::cl::init(false)));
      else if (option.kind == DynamoOptionNumber)
        numbers.push_back(std::make_unique<Option<uint64_t>>(parent, option.name, description, llvm::cl::init(0)));
      else
        texts.push_back(std::make_unique<Option<std::string>>(parent, option.name, description));
    }
  }

  SmallVector<DynamoOptionValue> values() const {
    SmallVector<DynamoOptionValue> values;
    size_t flag = 0, number = 0, text = 0;
    for (const Declared &option : declared) {
      DynamoOptionValue value = {false, 0, {nullptr, 0}};
      if (option.kind == DynamoOptionFlag) {
        const auto &given = *flags[flag++];
        value = {given.hasValue(), given.getValue(), {nullptr, 0}};
      } else if (option.kind == DynamoOptionNumber) {
        const auto &given = *numbers[number++];
        value = {given.hasValue(), given.getValue(), {nullptr, 0}};
      } else {
        const auto &given = *texts[text++];
        value = {given.hasValue(), 0, wrap(StringRef(given.getValue()))};
      }
      values.push_back(value);
    }
    return values;
  }

private:
  template <typename T>
  using Option = typename Parent::template Option<T>;

  ArrayRef<Declared> declared;
  std::vector<std::unique_ptr<Option<bool>>> flags;
  std::vector<std::unique_ptr<Option<uint64_t>>> numbers;
  std::vector<std::unique_ptr<Option<std::string>>> texts;
};

class RustPass : public PassWrapper<RustPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RustPass)
  // Accessible to the options that are created at run time.
  template <typename T>
  using Option = Pass::Option<T>;

  explicit RustPass(std::shared_ptr<Callback> callback) : callback(std::move(callback)) { declare(); }
  RustPass(const RustPass &other) : PassWrapper(other), callback(other.callback) { declare(); }

  StringRef getName() const final { return callback->name; }
  StringRef getArgument() const final { return callback->name; }
  StringRef getDescription() const final { return callback->description; }

  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<dynamlir::dynamo::DynamoDialect, arith::ArithDialect, bufferization::BufferizationDialect,
                    gpu::GPUDialect, linalg::LinalgDialect, math::MathDialect, memref::MemRefDialect,
                    NVVM::NVVMDialect, scf::SCFDialect, tensor::TensorDialect, transform::TransformDialect,
                    vector::VectorDialect>();
  }

  void runOnOperation() final {
    SmallVector<DynamoOptionValue> values = options->values();
    SmallVector<uint64_t> counts(callback->statistics.size(), 0);
    switch (callback->run(wrap(getOperation().getOperation()), values.data(), counts.data(), callback->userData)) {
    case DynamoPassFailed:
      signalPassFailure();
      break;
    case DynamoPassUnchanged:
      markAllAnalysesPreserved();
      break;
    case DynamoPassChanged:
      break;
    }
    for (auto [index, count] : llvm::enumerate(counts)) {
      *statistics[index] += count;
      callback->counted[index] += count;
    }
  }

private:
  void declare() {
    options = std::make_unique<DeclaredOptions<RustPass>>(*this, callback->options);
    for (const Declared &declared : callback->statistics)
      statistics.push_back(std::make_unique<Statistic>(this, declared.name.c_str(), declared.description.c_str()));
  }

  std::shared_ptr<Callback> callback;
  std::unique_ptr<DeclaredOptions<RustPass>> options;
  std::vector<std::unique_ptr<Statistic>> statistics;
};

class PipelineOptions : public mlir::detail::PassOptions {
public:
  explicit PipelineOptions(ArrayRef<Declared> declared) : options(*this, declared), declared(declared) {}

  /// The passes with the given options inserted for `$name`.
  std::string insertInto(StringRef passes) const {
    std::string text = passes.str();
    for (auto [option, value] : llvm::zip(declared, options.values())) {
      std::string room = "$" + option.name, given;
      if (value.isGiven)
        given = option.name + "=" + (option.kind == DynamoOptionText ? unwrap(value.text).str() : std::to_string(value.number));
      for (size_t at = text.find(room); at != std::string::npos; at = text.find(room, at + given.size()))
        text.replace(at, room.size(), given);
    }
    return text;
  }

private:
  DeclaredOptions<PipelineOptions> options;
  ArrayRef<Declared> declared;
};
} // namespace

/// Names in the order of registration.
static std::vector<std::string> &passNames() {
  static std::vector<std::string> names;
  return names;
}

/// Passes in the order of registration.
static std::vector<std::shared_ptr<Callback>> &passes() {
  static std::vector<std::shared_ptr<Callback>> all;
  return all;
}

static std::vector<Declared> copied(ArrayRef<DynamoOption> options) {
  std::vector<Declared> copies;
  for (const DynamoOption &option : options)
    copies.push_back({unwrap(option.name).str(), unwrap(option.description).str(), option.kind});
  return copies;
}

void dynamoRegisterPass(const DynamoPass *pass) {
  auto callback = std::make_shared<Callback>();
  callback->name = unwrap(pass->name).str();
  callback->description = unwrap(pass->description).str();
  callback->options = copied({pass->options, static_cast<size_t>(pass->numOptions)});
  for (const DynamoStatistic &statistic : ArrayRef(pass->statistics, pass->numStatistics))
    callback->statistics.push_back({unwrap(statistic.name).str(), unwrap(statistic.description).str(), DynamoOptionNumber});
  callback->counted = std::vector<std::atomic<uint64_t>>(callback->statistics.size());
  callback->run = pass->run;
  callback->userData = pass->userData;
  registerPass([callback] { return std::make_unique<RustPass>(callback); });
  passNames().push_back(callback->name);
  passes().push_back(std::move(callback));
}

void dynamoPrintPassStatistics() {
#if !LLVM_ENABLE_STATS
  for (const auto &pass : passes()) {
    if (llvm::all_of(pass->counted, [](const auto &count) { return count == 0; }))
      continue;
    llvm::errs() << pass->name << "\n";
    for (auto [declared, count] : llvm::zip(pass->statistics, pass->counted))
      llvm::errs() << llvm::formatv("  (S) {0} {1} - {2}\n", count.load(), declared.name, declared.description);
  }
#endif
}

void dynamoRegisterPipeline(MlirStringRef name, MlirStringRef description, MlirStringRef passes, const DynamoOption *options,
                            intptr_t numOptions) {
  auto declared = std::make_shared<std::vector<Declared>>(copied({options, static_cast<size_t>(numOptions)}));
  auto build = [declared, passes = unwrap(passes).str()](OpPassManager &manager, StringRef given,
                                                         function_ref<LogicalResult(const Twine &)> error) -> LogicalResult {
    std::string message;
    llvm::raw_string_ostream stream(message);
    PipelineOptions options(*declared);
    if (failed(options.parseFromString(given, stream)) ||
        failed(parsePassPipeline(options.insertInto(passes), manager, stream)))
      return error(message);
    return success();
  };
  auto list = [declared](function_ref<void(const mlir::detail::PassOptions &)> visit) { visit(PipelineOptions(*declared)); };
  registerPassPipeline(unwrap(name), unwrap(description), build, list);
  passNames().push_back(unwrap(name).str());
}

void dynamoForEachPass(void (*visit)(MlirStringRef name, void *userData), void *userData) {
  for (const std::string &name : passNames())
    visit(wrap(StringRef(name)), userData);
}
