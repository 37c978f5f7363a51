#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"
#include "runtime/cuda/Fields.h"

#include <initializer_list>

/// What sums, searches and moves elements.
namespace pdc::runtime::cuda {

class ColumnSum {
public:
  ColumnSum(const Device &, const ColumnSumFields &fields) : fields(fields) {}
  /// X: float, BFloat16, Float16; Y: X or float.
  template <class X, class Y> void operator()(const Run &run, const X *x, Y *sum, bool add) const;

private:
  ColumnSumFields fields;
};

/// The gradient of a relu, and its sum over each channel: the bits of a loop and a ColumnSum. dX may
/// lie where dY or Y does.
class ReluGradientSum {
public:
  ReluGradientSum(const Device &, const ColumnSumFields &fields) : fields(fields) {}
  /// T: float, BFloat16, Float16.
  template <class T>
  void operator()(const Run &run, const T *dy, const T *y, T *dx, float *sum, bool add) const;

private:
  ColumnSumFields fields;
};

class ReduceSum {
public:
  ReduceSum(const Device &, const ReduceSumFields &fields) : fields(fields) {}
  template <class X, class Y> void operator()(const Run &run, const X *x, Y *y, bool add) const;

private:
  ReduceSumFields fields;
};

class Reduce {
public:
  Reduce(const Device &, const ReduceFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  ReduceFields fields;
};

class ArgMax {
public:
  ArgMax(const Device &, const ArgMaxFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;

private:
  ArgMaxFields fields;
};

class CumulativeSum {
public:
  CumulativeSum(const Device &, const CumulativeSumFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, float *y) const;
  void operator()(const Run &run, const int64_t *x, int64_t *y) const;

private:
  CumulativeSumFields fields;
};

class TopK {
public:
  TopK(const Device &, const TopKFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;
  void operator()(const Run &run, const int64_t *x, int64_t *y) const;

private:
  TopKFields fields;
};

class Reorder {
public:
  Reorder(const Device &, const ReorderFields &fields) : fields(fields) {}
  /// T: float, BFloat16, Float16.
  template <class T> void operator()(const Run &run, const T *x, T *y) const;

private:
  ReorderFields fields;
};

class StridedCopy {
public:
  StridedCopy(const Device &, const StridedCopyFields &fields) : fields(fields) {}
  /// T: float, BFloat16, Float16, int64_t, int32_t, uint8_t.
  template <class T> void operator()(const Run &run, const T *x, T *y) const;

private:
  StridedCopyFields fields;
};

class Concat {
public:
  Concat(const Device &, const ConcatFields &fields) : fields(fields) {}
  template <class... Pointers> void operator()(const Run &run, Pointers *...pointers) const {
    call(run, {pointers...});
  }

private:
  void call(const Run &run, std::initializer_list<const void *> pointers) const;
  ConcatFields fields;
};

class Split {
public:
  Split(const Device &, const SplitFields &fields) : fields(fields) {}
  template <class T, class... Pointers>
  void operator()(const Run &run, const T *x, Pointers *...parts) const {
    call(run, x, {parts...});
  }

private:
  void call(const Run &run, const void *x, std::initializer_list<void *> parts) const;
  SplitFields fields;
};

/// An index outside its dimension gives NaN, which ends in a loss that is refused. Whole numbers
/// become an index outside of any table, or a label of no class; flags and bytes 0.
class Gather {
public:
  Gather(const Device &, const GatherFields &fields) : fields(fields) {}
  /// T: float, BFloat16, Float16, int64_t, int32_t, uint8_t; Index: int64_t, int32_t.
  template <class T, class Index>
  void operator()(const Run &run, const T *x, const Index *indices, T *y) const;

private:
  GatherFields fields;
};

/// The slices of a row are added up as a tree, in the order of their indices: no atomics. The
/// workspace holds what gatherGradientBytes says.
class GatherGradient {
public:
  GatherGradient(const Device &, const GatherFields &fields) : fields(fields) {}
  /// Index: int64_t, int32_t; T: float, BFloat16, Float16.
  template <class Index, class T>
  void operator()(const Run &run, const Index *indices, const T *dy, float *dx, bool add) const;

private:
  GatherFields fields;
};

/// By atomics, which no order changes: the largest of some numbers is the same in any.
class ScatterMaximum {
public:
  ScatterMaximum(const Device &, const GatherFields &fields) : fields(fields) {}
  /// Index: int64_t, int32_t.
  template <class Index>
  void operator()(const Run &run, const Index *indices, const float *x, float *y) const;

private:
  GatherFields fields;
};

/// sum[i] = value[i], or sum[i] += value[i] where `add`.
void accumulate(const Run &run, int64_t count, float *sum, const float *value, bool add);

} // namespace pdc::runtime::cuda
