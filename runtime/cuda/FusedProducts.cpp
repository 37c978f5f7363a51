#include "runtime/cuda/ApartOrTogether.h"
#include "runtime/cuda/Epilogue.h"
#include "runtime/cuda/MatrixProductPlan.h"
#include "runtime/cuda/MovementKernels.h"
#include "runtime/cuda/ProductKernels.h"

#include <optional>
#include <string_view>

namespace pdc::runtime::cuda {

namespace {

int64_t elementsOf(const Dimensions &shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

} // namespace

/// A product, and the library's kernel that does more than it where one is to be measured.
class FusedProduct {
protected:
  FusedProduct(const Device &device, const MatrixProductFields &fields, ProductEpilogue epilogue)
      : fields(fields), factors(factorsOf(fields.compute, fields.name)), apart(device, fields),
        ways(device.tuning,
             apart.problem() + ", " + toString(epilogue) + " in one kernel or in two") {
    ways.make(together, device, this->fields, epilogue);
  }

  template <class Start> void run(const Run &run, bool isMeasured, Start start) {
    if (isMeasured)
      ways.choose(run, together.has_value(), start);
    start(ways.taken());
  }

  const MatrixProductFields fields;
  const Factors factors;
  MatrixProductPlan apart;
  std::optional<MatrixProductPlan> together;

private:
  ApartOrTogether ways;
};

class GeluPlan : FusedProduct {
public:
  GeluPlan(const Device &device, const MatrixProductFields &fields)
      : FusedProduct(device, fields,
                     fields.keepsArgument ? ProductEpilogue::geluKept : ProductEpilogue::gelu) {}

  void operator()(const Run &run, std::initializer_list<const void *> pointers) {
    const void *const *next = pointers.begin();
    const void *a = *next++, *b = *next++, *bias = fields.bias.empty() ? nullptr : *next++;
    void *argument = fields.keepsArgument ? const_cast<void *>(*next++) : nullptr;
    void *y = const_cast<void *>(*next);
    FusedProduct::run(run, true, [&](ApartOrTogether::Way way) {
      if (way == ApartOrTogether::kTogether)
        return (*together)(run, a, b, bias, y, false, argument);
      void *product = argument ? argument : y;
      apart(run, a, b, bias, product, false);
      asStored(factors, y, [&](auto *result) {
        gelu(run, elementsOf(fields.output), static_cast<decltype(result)>(product), result);
      });
    });
  }
};

class GeluGradientPlan : FusedProduct {
public:
  GeluGradientPlan(const Device &device, const MatrixProductFields &fields)
      : FusedProduct(device, fields, ProductEpilogue::geluGradient) {}

  void operator()(const Run &run, const void *a, const void *b, const void *argument, void *y) {
    FusedProduct::run(run, true, [&](ApartOrTogether::Way way) {
      if (way == ApartOrTogether::kTogether)
        return (*together)(run, a, b, nullptr, y, false, const_cast<void *>(argument));
      apart(run, a, b, nullptr, y, false);
      asStored(factors, y, [&](auto *result) {
        geluGradient(run, elementsOf(fields.output), result,
                     static_cast<const std::remove_pointer_t<decltype(result)> *>(argument),
                     result);
      });
    });
  }
};

class SummedPlan : FusedProduct {
public:
  SummedPlan(const Device &device, const MatrixProductFields &fields)
      : FusedProduct(behindSums(device, fields), fields,
                     sumsA(fields) ? ProductEpilogue::sumsOfA : ProductEpilogue::sumsOfB),
        sumOfColumns(device, {.input = summed(fields)}) {}

  /// Measured is what may be written again and again: no sum.
  void operator()(const Run &run, const void *a, const void *b, float *sums, void *y, bool add) {
    FusedProduct::run(run, !add, [&](ApartOrTogether::Way way) {
      way == ApartOrTogether::kTogether ? startTogether(run, a, b, sums, y, add)
                                        : startApart(run, a, b, sums, y, add);
    });
  }

private:
  static bool sumsA(const MatrixProductFields &fields) {
    return std::string_view(fields.columnSums) == "a";
  }
  static const Dimensions &summed(const MatrixProductFields &fields) {
    return sumsA(fields) ? fields.a : fields.b;
  }
  static Device behindSums(Device device, const MatrixProductFields &fields) {
    device.workspaceBytes -= fusedSumBytes(summed(fields).back());
    return device;
  }

  void startApart(const Run &run, const void *a, const void *b, float *sums, void *y, bool add) {
    apart(run, a, b, nullptr, y, add);
    asStored(factors, sumsA(fields) ? a : b,
             [&](const auto *factor) { sumOfColumns(run, factor, sums, add); });
  }

  /// The library overwrites its sums: those to add lie in the workspace, before its own.
  void startTogether(const Run &run, const void *a, const void *b, float *sums, void *y, bool add) {
    auto *fresh = static_cast<float *>(alignedWorkspace(run));
    const int64_t columns = summed(fields).back();
    Run ofLibrary = run;
    ofLibrary.scratchBase = reinterpret_cast<std::byte *>(fresh) + fusedSumBytes(columns);
    (*together)(ofLibrary, a, b, nullptr, y, add, add ? fresh : sums);
    if (add)
      accumulate(run, columns, sums, fresh, true);
  }

  const ColumnSum sumOfColumns;
};

GeluProduct::GeluProduct(const Device &device, const MatrixProductFields &fields)
    : plan(std::make_unique<GeluPlan>(device, fields)) {}
GeluProduct::~GeluProduct() = default;

void GeluProduct::call(const Run &run, std::initializer_list<const void *> pointers) {
  (*plan)(run, pointers);
}

GeluGradientProduct::GeluGradientProduct(const Device &device, const MatrixProductFields &fields)
    : plan(std::make_unique<GeluGradientPlan>(device, fields)) {}
GeluGradientProduct::~GeluGradientProduct() = default;

void GeluGradientProduct::operator()(const Run &run, const void *a, const void *b,
                                     const void *argument, void *y) {
  (*plan)(run, a, b, argument, y);
}

SummedProduct::SummedProduct(const Device &device, const MatrixProductFields &fields)
    : plan(std::make_unique<SummedPlan>(device, fields)) {}
SummedProduct::~SummedProduct() = default;

void SummedProduct::operator()(const Run &run, const void *a, const void *b, float *sums, void *y,
                               bool add) {
  (*plan)(run, a, b, sums, y, add);
}

} // namespace pdc::runtime::cuda
