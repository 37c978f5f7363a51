#include "compiler/devices/Device.h"
#include "passes/ProgramMemory.h"
#include "runtime/kernels/MatrixProduct.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace pdc::test {
namespace {

/// Bytes that are taken of the heap, and those in memory of mappings that can be written and run,
/// in which libraries generate code.
int64_t heldBytes() {
  const struct mallinfo2 heap = mallinfo2();
  int64_t bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  std::ifstream mappings("/proc/self/smaps");
  bool isGenerated = false;
  for (std::string line; std::getline(mappings, line);)
    if (line.find('-') < line.find(' '))
      isGenerated = line.find(" rwxp ") != line.npos;
    else if (isGenerated && line.starts_with("Rss:"))
      bytes += std::stoll(line.substr(4)) * 1024;
  return bytes;
}

struct Product {
  int64_t rows, terms, columns;
  bool transA, transB, relu;

  runtime::MatrixProductFields fields() const {
    runtime::MatrixProductFields f;
    f.a = transA ? runtime::Dimensions{terms, rows} : runtime::Dimensions{rows, terms};
    f.b = transB ? runtime::Dimensions{columns, terms} : runtime::Dimensions{terms, columns};
    f.output = {rows, columns};
    if (relu)
      f.bias = {1, columns};
    f.relu = relu;
    f.sums = !relu; // as the kernel below
    f.transA = transA;
    f.transB = transB;
    return f;
  }

  ir::KernelAttr kernel(mlir::Builder &builder) const {
    auto shape = [&](int64_t first, int64_t second) {
      return builder.getDenseI64ArrayAttr({first, second});
    };
    mlir::NamedAttrList fields;
    fields.set("a", transA ? shape(terms, rows) : shape(rows, terms));
    fields.set("output", shape(rows, columns));
    for (auto [name, value] : {std::pair("relu", relu), {"transA", transA}, {"transB", transB}})
      fields.set(name, builder.getI64IntegerAttr(value));
    return ir::KernelAttr::get(builder.getContext(), "MatrixProduct",
                               fields.getDictionary(builder.getContext()), 0, !relu, false, false);
  }
};

class PrimitiveMemory : public testing::Test {
protected:
  PrimitiveMemory() { context.loadDialect<ir::PdcDialect>(); }

  void add(LibraryUse &use, const Product &product) {
    mlir::OpBuilder builder(&context);
    mlir::OwningOpRef<ir::UnitOp> unit = builder.create<ir::UnitOp>(
        builder.getUnknownLoc(),
        mlir::TypeRange{mlir::RankedTensorType::get({1}, builder.getF32Type())}, mlir::ValueRange{},
        "unit", "unit", ir::Phase::Forward, ir::Rate::Microbatch, product.kernel(builder),
        mlir::FloatAttr(), mlir::FloatAttr(), mlir::FloatAttr(), mlir::IntegerAttr(),
        mlir::ArrayAttr(), mlir::DenseI64ArrayAttr(), mlir::DenseI64ArrayAttr(), mlir::StringAttr(),
        mlir::ArrayAttr());
    use.add(*unit);
  }

  /// What one more product is planned to take, in a program that has one.
  int64_t plannedBytes(const Product &product) {
    LibraryUse one, both;
    const Product first{3, 3, 3, false, false, false};
    add(one, first);
    add(both, first);
    add(both, product);
    return both.bytesOfProcess() + both.bytesOfRank() - one.bytesOfProcess() - one.bytesOfRank();
  }

  mlir::MLIRContext context;
};

/// Against what the kernel takes when it is made, of sizes as small networks have them.
TEST_F(PrimitiveMemory, OfProducts) {
  if (detectDevice().vectorWidth < 16)
    GTEST_SKIP() << "products are plain ones here";
  const runtime::Device device{1, int64_t(1) << 30};
  const runtime::MatrixProduct first(device, Product{3, 3, 3, false, false, false}.fields());
  std::mt19937 random(5);
  auto draw = [&](std::initializer_list<int64_t> from) {
    return from.begin()[random() % from.size()];
  };
  int64_t held = 0, planned = 0;
  for (int round = 0; round < 40; ++round) {
    Product product{draw({8, 16, 32, 64, 128}),
                    draw({10, 20, 64, 96, 200, 784}),
                    draw({10, 16, 48, 64, 100, 256, 300}),
                    false,
                    false,
                    random() % 2 == 0};
    (random() % 2 ? product.transB : product.transA) = true;
    const int64_t before = heldBytes();
    const runtime::MatrixProduct made(device, product.fields());
    const int64_t taken = heldBytes() - before, expected = plannedBytes(product);
    EXPECT_NEAR(expected, taken, 90e3) << product.rows << ' ' << product.terms << ' '
                                       << product.columns << ' ' << product.transB << product.relu;
    held += taken;
    planned += expected;
  }
  RecordProperty("held", std::to_string(held));
  EXPECT_NEAR(static_cast<double>(planned) / static_cast<double>(held), 1, 0.15)
      << held << ' ' << planned;
}

/// As the steps of a sequence are, which run the same code.
TEST_F(PrimitiveMemory, OfEqualProducts) {
  const runtime::Device device{1, int64_t(1) << 30};
  for (const bool relu : {false, true}) {
    const Product product{8, 32, 128, false, true, relu};
    constexpr int kFurther = 20;
    LibraryUse one, all;
    add(one, product);
    std::vector<std::unique_ptr<runtime::MatrixProduct>> made;
    auto make = [&] {
      add(all, product);
      made.push_back(std::make_unique<runtime::MatrixProduct>(device, product.fields()));
    };
    make();
    const int64_t before = heldBytes();
    for (int further = 0; further < kFurther; ++further)
      make();
    const int64_t taken = heldBytes() - before;
    EXPECT_EQ(all.bytesOfProcess(), one.bytesOfProcess());
    EXPECT_NEAR(static_cast<double>(all.bytesOfRank() - one.bytesOfRank()) /
                    static_cast<double>(taken),
                1, 0.25)
        << relu << ' ' << taken;
  }
}

} // namespace
} // namespace pdc::test
