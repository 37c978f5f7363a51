#pragma once

#include "runtime/Layout.h"
#include "runtime/cuda/Kernels.h"
#include "testsuite/cuda/CudaCase.h"
#include "testsuite/kernels/KernelMakers.h"

#include <gtest/gtest.h>

/// A convolution of 16 bits and the normalisation behind it as form-units makes them one, with
/// operands and what is expected of it.
namespace pdc::normalised {

using runtime::Float16;
using runtime::NormalisedConvolutionFields;
using Tensors = std::vector<Tensor>;

struct Shape {
  std::vector<int64_t> image, weight;
  int64_t stride, pad;
  std::pair<double, double> elements = {0.5, 1}, factors = {-0.2, 1};
};

inline NormalisedConvolutionFields fieldsOf(const KernelChoice &choice) {
  NormalisedConvolutionFields f;
  FieldReader{choice} FIELD(compute) FIELD(dilations) FIELD(epsilon) FIELD(groups) FIELD(input)
      FIELD(momentum) FIELD(name) FIELD(output) FIELD(padsBegin) FIELD(padsEnd) FIELD(relu)
          FIELD(results) FIELD(strides) FIELD(weight);
  return f;
}

inline std::vector<Float16> toStored(const Tensor &tensor) {
  std::vector<Float16> rowMajor, stored(tensor.data.size());
  for (double value : tensor.data)
    rowMajor.push_back(Float16(float(value)));
  runtime::Layout("acdb", tensor.type.shape)
      .pack(reinterpret_cast<const std::byte *>(rowMajor.data()),
            reinterpret_cast<std::byte *>(stored.data()), 2);
  return stored;
}

inline Tensor fromStored(const std::vector<Float16> &stored, const TensorType &type) {
  std::vector<Float16> rowMajor(stored.size());
  runtime::Layout("acdb", type.shape)
      .unpack(reinterpret_cast<const std::byte *>(stored.data()),
              reinterpret_cast<std::byte *>(rowMajor.data()), 2);
  Tensor tensor = Tensor::zeros({ElementType::f32, type.shape});
  for (size_t i = 0; i < rowMajor.size(); ++i)
    tensor.data[i] = float(rowMajor[i]);
  return tensor;
}

inline std::vector<float> numbers(const Tensor &tensor) {
  return {tensor.data.begin(), tensor.data.end()};
}

/// Of the largest value.
inline void expectNear(const std::vector<double> &found, const std::vector<double> &expected,
                       double tolerance, const std::string &what) {
  ASSERT_EQ(found.size(), expected.size());
  double most = 0;
  for (double value : expected)
    most = std::max(most, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * most) << what << ", element " << i;
}

/// The unit that form-units makes, and its operands.
struct Unit : CudaCase {
  std::vector<Float16> x, w;
  std::vector<float> scale, bias, mean, variance;
  Attributes constants;

  /// `slots`: of the normalisation's results, those that are read.
  Unit(const Shape &s, bool relu, std::vector<int> slots, double momentum = 0.8,
       double epsilon = 1e-3)
      : constants({{"momentum", momentum}, {"epsilon", epsilon}}) {
    options.precision = Precision::fp16;
    auto image = [&](const std::vector<int64_t> &shape, std::pair<double, double> range) {
      UnitValue drawn = operand(shape, range.first, range.second);
      return given(fromStored(toStored(operandValue(drawn.index)), {ElementType::f32, shape}));
    };
    const std::vector<int64_t> channels = {s.weight[0]};
    const UnitValue from = image(s.image, s.elements), by = image(s.weight, s.factors);
    const UnitValue all[] = {operand(channels), operand(channels), operand(channels),
                             operand(channels, 0.5, 2)};
    const UnitValue y = node("Conv", {from, by},
                             {{"strides", std::vector<int64_t>{s.stride, s.stride}},
                              {"pads", std::vector<int64_t>(4, s.pad)}});
    const UnitValue z =
        node("BatchNormInternal", {y, all[0], all[1], all[2], all[3]}, constants, 5);
    if (relu)
      node("Relu", {z});
    x = toStored(operandValue(from.index)), w = toStored(operandValue(by.index));
    std::vector<float> *const of[] = {&scale, &bias, &mean, &variance};
    for (size_t i = 0; i < 4; ++i)
      *of[i] = numbers(operandValue(all[i].index));
    result(y);
    for (int slot : slots)
      result(slot == 0 && relu ? UnitValue::node(2) : UnitValue::node(1, slot));
    narrow(from, by);
    view.name = "unit";
    choice = chooseKernel(view, options);
  }
  /// What the normalisation makes of what was convolved.
  Tensors normalised(const Tensor &y, bool relu) const {
    CudaCase reference;
    auto all = [&](const std::vector<float> &values) {
      return reference.given(
          {{ElementType::f32, {int64_t(values.size())}}, {values.begin(), values.end()}});
    };
    const UnitValue given = reference.given(y);
    const UnitValue z =
        reference.node("BatchNormInternal",
                       {given, all(scale), all(bias), all(mean), all(variance)}, constants, 5);
    Tensors results = reference.referenceOf(0);
    if (relu) {
      reference.node("Relu", {z});
      results[0] = reference.referenceOf(1)[0];
    }
    return results;
  }

private:
  void narrow(UnitValue from, UnitValue by) {
    for (UnitValue value : {from, by})
      view.operands[size_t(value.index)]->element = ElementType::f16;
    for (UnitNode &node : view.nodes)
      node.outputs[0].element = ElementType::f16;
  }
};

/// What a kernel writes.
struct Written {
  std::vector<Float16> y, z;
  std::vector<float> mean, variance, savedMean, savedInverse;
  bool operator==(const Written &) const = default;

  explicit Written(const Unit &unit)
      : y(size_t(unit.view.nodes[0].outputs[0].elementCount()), Float16(9.0f)), z(y),
        mean(unit.mean.size(), 9), variance(mean), savedMean(mean), savedInverse(mean) {}
};

} // namespace pdc::normalised
