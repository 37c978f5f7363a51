#pragma once

#include "runtime/kernels/AttentionFields.h"
#include "testsuite/kernels/UnitCase.h"

#include <gtest/gtest.h>

/// What the kernels of each device are held to alike: `Case` is a UnitCase for the device.
namespace pdc {

/// Forward with and without what the backward pass reads, and the gradients of rows that keep their
/// mean.
template <class Case> void expectRootMeanSquare() {
  const Attributes attributes = {{"axis", int64_t(-1)}, {"epsilon", 1e-3}};
  for (int64_t size : {7, 33, 1500})
    for (int results : {1, 2}) {
      Case forward, input, scale;
      forward.node("RMSNormalization",
                   {forward.operand({2, 5, size}, 1, 2), forward.operand({size})}, attributes, 2);
      for (int slot = 0; slot < results; ++slot)
        forward.result(UnitValue::node(0, slot));
      forward.check(1e-5);
      auto rows = [&](UnitCase &u) { return u.operand({2, 5, size}); };
      auto inverse = [](UnitCase &u) { return u.operand({2, 5, 1}, 1, 2); };
      input.node("LayerNormalizationInputGrad",
                 {rows(input), rows(input), input.operand({size}), UnitValue(), inverse(input)},
                 attributes);
      input.check(1e-5);
      Attributes forScale = attributes;
      forScale.set("scale_shape", std::vector<int64_t>{size});
      scale.node("LayerNormalizationScaleGrad",
                 {rows(scale), rows(scale), UnitValue(), inverse(scale)}, forScale);
      scale.check(1e-5);
    }
}

/// Images, rows of pixels, volumes and matrices; a group for all, for a few channels and for each;
/// channels that vectors divide and others, and samples that are cut into parts.
template <class Case, class Check> void forGroups(Check check) {
  struct Shape {
    std::vector<int64_t> x;
    std::vector<int64_t> groups;
  };
  const Shape shapes[] = {{{2, 48, 5, 6}, {1, 6, 48}}, {{3, 35, 4, 5}, {1, 5, 35}},
                          {{2, 20, 9}, {4}},           {{2, 6, 2, 3, 3}, {3}},
                          {{5, 44}, {1, 2, 11}},       {{2, 8, 16, 17}, {2}},
                          {{1, 24, 1, 1}, {3}}};
  for (const Shape &shape : shapes)
    for (const int64_t count : shape.groups)
      for (const int64_t swish : {0, 1}) {
        Attributes attributes = {{"epsilon", 1e-3}, {"num_groups", count}};
        if (swish)
          attributes.set("swish", swish);
        check(shape.x, std::vector<int64_t>{shape.x[0], count}, attributes);
      }
}

/// With and without what the backward pass reads, with and without scale and bias.
template <class Case> void expectGroupNormalization(const std::string &layout = "") {
  forGroups<Case>([&](const std::vector<int64_t> &x, auto &&, const Attributes &attributes) {
    for (const size_t given : {2, 1, 0}) {
      Case unit;
      unit.options.threads = 2;
      unit.options.vectorWidth = layout.ends_with("8b") ? 8 : 16;
      std::vector<UnitValue> inputs = {unit.operand(x, 3, 5, x.size() == 4 ? layout : "")};
      while (inputs.size() <= given)
        inputs.push_back(unit.operand({x[1]}));
      unit.node("GroupNormalization", inputs, attributes, 3);
      for (int slot = 0; slot < (given == 1 ? 1 : 3); ++slot)
        unit.result(UnitValue::node(0, slot));
      unit.check(2e-5);
    }
  });
}

/// With each of the gradients that nobody may want.
template <class Case> void expectGroupNormalizationGradient(const std::string &layout = "") {
  forGroups<Case>([&](const std::vector<int64_t> &x, const std::vector<int64_t> &statistics,
                      const Attributes &attributes) {
    for (const std::vector<int> &results : {std::vector<int>{0, 1, 2}, {0}, {1, 2}}) {
      Case unit;
      unit.options.threads = 2;
      unit.options.vectorWidth = layout.ends_with("8b") ? 8 : 16;
      const std::string stored = x.size() == 4 ? layout : "";
      std::vector<UnitValue> inputs = {unit.operand(x, -1, 1, stored),
                                       unit.operand(x, -1, 1, stored)};
      const bool isScaled = results.size() > 1;
      while (inputs.size() < 4)
        inputs.push_back(isScaled ? unit.operand({x[1]}) : UnitValue());
      inputs.push_back(unit.operand(statistics, -0.1, 0.1));
      inputs.push_back(unit.operand(statistics, 1, 2));
      unit.node("GroupNormalizationGrad", inputs, attributes, 3);
      for (int slot : results)
        unit.result(UnitValue::node(0, slot));
      unit.check(2e-5);
    }
  });
}

/// Images joined and divided as they lie, along channels and rows; and not where a part would share
/// a block of channels, or hardly any arrives so.
template <class Case> void expectPartsOfImages(const std::string &layout, bool sharesBlocks) {
  auto check = [](Case &unit, const std::string &expected) {
    unit.check();
    EXPECT_EQ(unit.choice.inputLayouts[0], expected);
    EXPECT_EQ(unit.choice.outputLayouts[0], expected);
  };
  for (const int64_t axis : {1, 2})
    for (const int64_t size : {32, 12}) {
      std::vector<int64_t> part = {2, 16, 4, 5}, whole = part;
      part[axis] = size;
      whole[axis] += size;
      const std::string expected = axis == 2 || size == 32 || sharesBlocks ? layout : "";
      Case joined, mixed, divided;
      joined.node(
          "Concat",
          {joined.operand({2, 16, 4, 5}, -1, 1, layout), joined.operand(part, -1, 1, layout)},
          {{"axis", axis}});
      check(joined, expected);
      mixed.node(
          "Concat",
          {mixed.operand({2, 16, 4, 5}, -1, 1, layout), mixed.operand(part), mixed.operand(part)},
          {{"axis", axis}});
      check(mixed, "");
      divided.node("Split",
                   {divided.operand(whole, -1, 1, layout),
                    divided.constant(Tensor::vector({whole[axis] - size, size}))},
                   {{"axis", axis}}, 2);
      for (int result : {0, 1})
        divided.result(UnitValue::node(1, result));
      check(divided, expected);
    }
}

/// Steps of recurrent layers and their gradients, with each gradient that may be missing and each
/// result that nobody may read; of widths that vectors and four divide, and of others; with gates
/// in ONNX's order, and in another.
template <class Case> void expectRecurrentCellsOf(int64_t width, bool isOrdered) {
  auto ordered = [&](std::vector<int64_t> places) {
    return isOrdered ? Attributes() : Attributes({{"gates", std::move(places)}});
  };
  const Attributes ofLstm = ordered({0, 3, 1, 2}), ofGru = ordered({1, 2, 0});
  auto gates = [&](UnitCase &u, int64_t count) { return u.operand({3, count * width}, -4, 4); };
  auto state = [&](UnitCase &u) { return u.operand({3, width}, -2, 2); };
  auto check = [](Case &unit, std::vector<int> results) {
    for (const int slot : results)
      unit.result(UnitValue::node(0, slot));
    unit.check(1e-5);
  };
  for (const std::vector<int> &results : {std::vector<int>{0, 1}, {0}, {1}}) {
    Case forward, whole, ofState, ofNext;
    forward.node("LstmCell", {gates(forward, 4), state(forward)}, ofLstm, 2);
    check(forward, results);
    whole.node("LstmCellGrad",
               {gates(whole, 4), state(whole), state(whole), state(whole), state(whole)}, ofLstm,
               2);
    check(whole, results);
    ofState.node("LstmCellGrad",
                 {gates(ofState, 4), state(ofState), state(ofState), state(ofState)}, ofLstm, 2);
    check(ofState, results);
    ofNext.node("LstmCellGrad",
                {gates(ofNext, 4), state(ofNext), state(ofNext), UnitValue(), state(ofNext)},
                ofLstm, 2);
    check(ofNext, results);
  }
  Case forward;
  forward.node("GruCell", {gates(forward, 3), gates(forward, 3), state(forward)}, ofGru);
  check(forward, {0});
  for (const std::vector<int> &results : {std::vector<int>{0, 1, 2}, {0, 1}, {2}}) {
    Case gradient;
    gradient.node("GruCellGrad",
                  {gates(gradient, 3), gates(gradient, 3), state(gradient), state(gradient)}, ofGru,
                  3);
    check(gradient, results);
  }
}

template <class Case> void expectRecurrentCells() {
  for (const int64_t width : {16, 4, 7})
    for (const bool isOrdered : {true, false})
      expectRecurrentCellsOf<Case>(width, isOrdered);
}

/// Of rows of three samples, of several rows each, of sizes that four divides and others, and of
/// what counts no samples: bit for bit.
template <class Case> void expectUniformRandom() {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 700}, {3, 701}, {6, 5, 7}, {4}, {}}) {
    Case unit;
    unit.node("UniformRandom", {unit.integers({5}, 0, 1 << 30)},
              {{"shape", shape}, {"key", int64_t(-77777777777)}});
    unit.check(0);
  }
}

/// Small integers: many elements are equal.
template <class Case> void expectAlongAnAxis() {
  Tensor x = Tensor::zeros({ElementType::f32, {3, 7, 5}});
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = static_cast<double>(i * 37 % 11);
  for (int64_t axis : {0, 1, -1})
    for (int64_t other : {0, 1}) {
      Case u;
      u.node("ArgMax", {u.given(x)}, {{"axis", axis}, {"select_last_index", other}});
      u.check();
      Case top;
      top.node("TopKIndices", {top.given(x)},
               {{"axis", axis}, {"count", int64_t(3)}, {"largest", other}});
      top.check();
    }
  // Few lines; many of one element that is wanted.
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{2, 600}, {300, 2, 2}, {70, 941}})
    for (int64_t count : shape[0] == 70 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 5, 300}) {
      Case top;
      top.node("TopKIndices", {top.operand(shape, -1, 1)},
               {{"axis", int64_t(shape[0] == 300 ? 0 : 1)}, {"count", count}, {"largest", count % 2}});
      top.check();
    }
}

/// Halves of four neighbours and others, and neighbours; angles that rows of a sample share, or
/// all, or none.
template <class Case> void expectRotations() {
  for (int64_t width : {2, 6, 16})
    for (const std::vector<int64_t> &angles :
         {std::vector<int64_t>{7, 1, width}, {width}, {2, 7, 3, width}, {2, 1, 1, width}})
      for (int64_t form : {0, 1, 2, 3}) {
        Case u;
        const UnitValue x = u.operand({2, 7, 3, width});
        u.node("RotateHalves", {x, u.operand(angles), u.operand(angles)},
               {{"inverse", form % 2}, {"interleaved", form / 2}});
        u.check();
      }
}

/// One form of attention.
struct AttentionCase {
  int64_t batch, heads, keyHeads, queries, keys, width, valueWidth;
  std::vector<int64_t> rowsFirst;
  std::vector<int64_t> mask = {};
  bool isBoolean = false, isCausal = false, drops = false;
  size_t joined = 0;      ///< of queries, keys and values
  bool isGuarded = false; ///< some rows see no key

  /// Each of the batch, or each head, as where exporters make heads a batch.
  int64_t samples() const { return isCausal ? batch * heads : batch; }
  /// How many tensors hold queries, keys and values, and the operand that each begins with.
  size_t tensors() const { return size_t(runtime::attentionTensors(int64_t(joined))); }
  std::vector<int64_t> shape(size_t operand) const {
    const bool isKey = operand == 1 || operand == 2;
    const int64_t others = operand >= 3 - joined && operand + 1 == tensors()
                               ? int64_t(joined == 2 ? 1 : 2) * keyHeads
                               : 0;
    std::vector<int64_t> shape = {batch, (isKey ? keyHeads : heads) + others,
                                  isKey ? keys : queries, operand < 2 ? width : valueWidth};
    if (rowsFirst[operand] != 0)
      std::swap(shape[1], shape[2]);
    if (rowsFirst[operand] == 2)
      std::swap(shape[0], shape[1]);
    return shape;
  }
  std::vector<UnitValue> operandsOf(UnitCase &u) const {
    std::vector<UnitValue> all(3);
    for (size_t tensor = 0; tensor < tensors(); ++tensor)
      all[tensor] = u.operand(shape(tensor));
    return all;
  }
  /// Key 0 is always seen, but by the rows that see none.
  UnitValue maskOf(UnitCase &u) const {
    if (mask.empty())
      return {};
    if (!isBoolean)
      return u.operand(mask);
    Tensor seen = Tensor::zeros({ElementType::boolean, mask});
    for (size_t i = 0; i < seen.data.size(); ++i)
      seen.data[i] = static_cast<double>((i % mask.back() == 0 || i * 7 % 5 != 0) &&
                                         !(isGuarded && i / mask.back() % 3 == 1));
    return u.given(seen);
  }
  UnitValue randomOf(UnitCase &u) const {
    return drops ? u.integers({2 + samples()}, 0, 1 << 20) : UnitValue();
  }
  Attributes attributes() const {
    Attributes given = {{"rows_first", rowsFirst}, {"scale", 0.7}};
    if (joined == 3)
      given.set("key_heads", keyHeads);
    if (isGuarded)
      given.set("is_guarded", int64_t(1));
    if (isCausal)
      given.set("is_causal", int64_t(1)), given.set("past", std::max<int64_t>(0, keys - queries));
    if (mask.size() == 4 && mask[0] != 1 && mask[0] != batch)
      given.set("masks", mask[0]);
    if (drops)
      given.set("ratio", 0.3), given.set("key", int64_t(77)), given.set("samples", samples());
    return given;
  }
};

inline std::vector<AttentionCase> attentionCases() {
  using Sizes = std::vector<int64_t>;
  return {{1, 1, 1, 1, 1, 1, 1, Sizes{0, 0, 0, 0}},
          {2, 3, 3, 5, 7, 4, 6, Sizes{0, 1, 0, 1}},
          {2, 2, 2, 70, 70, 16, 16, Sizes{1, 1, 1, 1}, {}, false, true, true},
          {2, 4, 2, 9, 20, 20, 70, Sizes{1, 0, 1, 1}, {2, 1, 1, 20}, true, false, true},
          {2, 2, 1, 50, 65, 65, 8, Sizes{1, 1, 1, 0}, {1, 2, 50, 65}, false, true, false},
          {2, 2, 2, 6, 33, 3, 5, Sizes{0, 0, 0, 1}, {33}, true},
          {3, 2, 2, 10, 9, 3, 5, Sizes{0, 0, 0, 1}, {3, 1, 10, 1}},
          {2, 4, 2, 9, 9, 5, 5, Sizes{1, 1, 1, 1}, {}, false, true, true, 3},
          {2, 2, 2, 66, 66, 8, 8, Sizes{0, 0, 0, 1}, {2, 1, 66, 66}, false, false, false, 3},
          {2, 4, 2, 7, 12, 3, 3, Sizes{0, 1, 1, 1}, {12}, true, false, true, 2},
          {3, 4, 2, 9, 9, 5, 5, Sizes{2, 2, 2, 2}, {3, 1, 1, 9}, true, true, true, 3},
          {3, 2, 2, 9, 9, 4, 6, Sizes{2, 0, 2, 2}},
          {6, 4, 2, 9, 12, 4, 6, Sizes{1, 1, 1, 1}, {3, 4, 9, 12}, false, false, true},
          {4, 2, 2, 9, 9, 4, 4, Sizes{1, 1, 1, 1}, {2, 1, 9, 9}, true, false, false, 3, true},
          {2, 4, 2, 9, 20, 5, 6, Sizes{1, 0, 1, 1}, {2, 1, 9, 20}, true, false, true, 0, true},
          {3, 4, 2, 7, 12, 3, 3, Sizes{1, 2, 2, 2}, {12}, false, false, true, 2}};
}

/// The gradient reads what the forward reference kept.
template <class Case> void expectAttention() {
  for (const AttentionCase &c : attentionCases()) {
    for (int results : {1, 2}) {
      Case forward;
      std::vector<UnitValue> operands = c.operandsOf(forward);
      operands.push_back(c.maskOf(forward));
      operands.push_back(c.randomOf(forward));
      forward.node("SoftmaxAttention", operands, c.attributes(), 2);
      for (int slot = 0; slot < results; ++slot)
        forward.result(UnitValue::node(0, slot));
      forward.check(3e-6);
    }
    const bool hasMaskGradient = !c.mask.empty() && !c.isBoolean;
    for (bool isWhole : {true, false}) {
      Case both;
      const std::vector<UnitValue> of = c.operandsOf(both);
      const UnitValue q = of[0], k = of[1], v = of[2], mask = c.maskOf(both),
                      random = c.randomOf(both);
      UnitCase kept;
      std::vector<UnitValue> known;
      for (UnitValue value : {q, k, v, mask, random})
        known.push_back(value.kind == UnitValue::Kind::absent
                            ? value
                            : kept.given(both.operandValue(value.index)));
      kept.node("SoftmaxAttention", known, c.attributes(), 2);
      UnitValue y = both.given(kept.referenceOf(0)[0]), sums = both.given(kept.referenceOf(0)[1]);
      both.node("SoftmaxAttentionGrad", {both.operand(c.shape(3)), q, k, v, y, sums, mask, random},
                c.attributes(), c.tensors() + hasMaskGradient);
      const int all = int(c.tensors()) + hasMaskGradient;
      for (int slot = isWhole ? 0 : all / 3; slot < (isWhole ? all : all / 3 + 1); ++slot)
        both.result(UnitValue::node(0, slot));
      both.check(1e-5);
    }
  }
}

} // namespace pdc
