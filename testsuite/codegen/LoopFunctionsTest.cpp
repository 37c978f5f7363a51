#include "codegen/LoopFunctions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

/// A unit that multiplies 8 numbers by 8, and one that multiplies them by one.
constexpr const char kUnits[] = R"(
pdc.memory @x input microbatch : tensor<8xf32>
pdc.memory @s input microbatch : tensor<f32>
func.func @train() {
  %x = pdc.read @x : tensor<8xf32>
  %s = pdc.read @s : tensor<f32>
  %0 = pdc.unit "a" origin "a" forward microbatch
      (%a = %x : tensor<8xf32>, %b = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {
      kernel = #pdc.kernel<"Elementwise", {count = 8 : i64}, workspace = 0, accumulates = false>,
      homes = [#pdc.home<"scratch", 0, 32>]} {
    %1 = pdc.node "Mul" "a"(%a, %b) {} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    pdc.yield %1 : tensor<8xf32>
  }
  %2 = pdc.unit "b" origin "b" forward microbatch
      (%a = %x : tensor<8xf32>, %b = %s : tensor<f32>) -> (tensor<8xf32>) attributes {
      kernel = #pdc.kernel<"Elementwise", {count = 8 : i64}, workspace = 0, accumulates = false>,
      homes = [#pdc.home<"scratch", 0, 32>]} {
    %1 = pdc.node "Mul" "b"(%a, %b) {} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    pdc.yield %1 : tensor<8xf32>
  }
  return
}
)";

struct Parsed {
  explicit Parsed(const char *text) {
    context.loadDialect<ir::PdcDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (module)
      module->walk([&](ir::UnitOp unit) { units.push_back(unit); });
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<ir::UnitOp> units;
};

size_t functionsIn(const LoopFunctions &loops) {
  const std::string text = loops.declarations();
  size_t count = 0;
  for (size_t at = 0; (at = text.find("void ", at)) != std::string::npos; ++at)
    ++count;
  return count;
}

} // namespace

/// What stands twice is one pointer, and a single number is read as one: other functions than that
/// of two arrays, which is called whatever the arrays are.
TEST(LoopFunctions, ShareWhatIsTheSame) {
  const Parsed parsed(kUnits);
  const std::vector<ir::UnitOp> &units = parsed.units;
  ASSERT_EQ(units.size(), 2u);
  LoopFunctions loops(3, LoopPlace::device);
  EXPECT_EQ(loops.call(units[0], {"h", "w"}, {"z"}, 0), "stage_3_loops::mulLoop(run, 8, z, h, w);");
  EXPECT_EQ(loops.call(units[0], {"g", "h"}, {"h1"}, 0),
            "stage_3_loops::mulLoop(run, 8, h1, g, h);");
  EXPECT_EQ(functionsIn(loops), 1u);
  EXPECT_EQ(loops.call(units[0], {"h", "h"}, {"z"}, 0), "stage_3_loops::mulLoop2(run, 8, z, h);");
  EXPECT_EQ(loops.call(units[1], {"h", "s"}, {"z"}, 0),
            "stage_3_loops::mulLoop3(run, 8, z, h, s);");
  EXPECT_EQ(functionsIn(loops), 3u);
  const std::string source = loops.source("stage_3.cpp");
  EXPECT_NE(source.find("// a (and 1 more)\nvoid mulLoop("), std::string::npos);
  EXPECT_NE(source.find("into(y), x0, number(x1));"), std::string::npos);
}

/// A body of one long expression is broken like any other.
TEST(LoopFunctions, HaveNoLongLines) {
  const Parsed parsed(R"(
pdc.memory @x input microbatch : tensor<8xf32>
func.func @train() {
  %x = pdc.read @x : tensor<8xf32>
  %0 = pdc.unit "a" origin "a" forward microbatch (%a = %x : tensor<8xf32>) -> (tensor<8xf32>) attributes {
      kernel = #pdc.kernel<"Elementwise", {}, workspace = 0, accumulates = false>,
      homes = [#pdc.home<"scratch", 0, 32>]} {
    %1 = pdc.node "FastGelu" "a"(%a) {} : (tensor<8xf32>) -> tensor<8xf32>
    pdc.yield %1 : tensor<8xf32>
  }
  return
}
)");
  ASSERT_EQ(parsed.units.size(), 1u);
  for (LoopPlace place : {LoopPlace::host, LoopPlace::device})
    for (const std::string &line :
         loopStatement(parsed.units[0], {"x"}, {"y"}, {place, true}, "8", 2))
      EXPECT_LE(line.size(), 98u) << line;
}

/// On a host those that stand often, which say their operators and know how many elements there
/// are; the others stand where they run.
TEST(LoopFunctions, OfAHostStandOften) {
  const Parsed parsed(kUnits);
  const std::vector<ir::UnitOp> &units = parsed.units;
  ASSERT_EQ(units.size(), 2u);
  LoopFunctions loops(3, LoopPlace::host);
  for (int i = 0; i < 4; ++i)
    loops.count(units[0], {"0", "1"});
  for (int i = 0; i < 3; ++i)
    loops.count(units[1], {"0", "1"});
  loops.nameCounted();
  EXPECT_TRUE(loops.empty());
  EXPECT_EQ(loops.call(units[0], {"h", "w"}, {"z"}, 0), "stage_3_loops::mulLoop(run, z, h, w);");
  EXPECT_EQ(loops.call(units[0], {"h", "h"}, {"z"}, 0), "");
  EXPECT_EQ(loops.call(units[1], {"h", "s"}, {"z"}, 0), "");
  EXPECT_FALSE(loops.empty());
  const std::string text = loops.definitions();
  EXPECT_NE(text.find("// a (and 3 more)\nvoid mulLoop(const Run &run, float *y, const float *x0, "
                      "const float *x1) {\n  elementwise(run, 8,\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("void mulLoop2"), std::string::npos) << text;
}

} // namespace pdc
