#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"
#include "runtime/kernels/RecurrentCellFields.h"

#include <array>
#include <type_traits>

/// Steps of recurrent layers behind their matrix products: a kernel each way. T: float, BFloat16,
/// Float16; cells of LSTMs are f32.
namespace pdc::runtime::cuda {

class LstmCell {
public:
  LstmCell(const Device &, const RecurrentCellFields &fields) : fields(fields) {}
  template <class T, class... Results>
  void operator()(const Run &run, const T *gates, const float *cell, Results *...results) const {
    call(run, gates, cell, cellResults(fields, {results...}));
  }

private:
  template <class T>
  void call(const Run &run, const T *gates, const float *cell,
            const std::array<void *, 3> &results) const;
  RecurrentCellFields fields;
};

/// Others: further terms of T, then results.
class LstmCellGradient {
public:
  LstmCellGradient(const Device &, const RecurrentCellFields &fields) : fields(fields) {}
  template <class T, class... Others>
  void operator()(const Run &run, const T *gates, const float *cell, const float *next,
                  const std::type_identity_t<T> *ofState, const float *ofNext,
                  Others *...others) const {
    call(run, gates, cell, next, ofState, ofNext, {others...});
  }

private:
  template <class T>
  void call(const Run &run, const T *gates, const float *cell, const float *next, const T *ofState,
            const float *ofNext, std::initializer_list<const void *> others) const;
  RecurrentCellFields fields;
};

class GruCell {
public:
  GruCell(const Device &, const RecurrentCellFields &fields) : fields(fields) {}
  template <class T>
  void operator()(const Run &run, const T *ofInput, const T *ofState, const T *state,
                  T *next) const;

private:
  RecurrentCellFields fields;
};

/// Others: further terms of T, then results.
class GruCellGradient {
public:
  GruCellGradient(const Device &, const RecurrentCellFields &fields) : fields(fields) {}
  template <class T, class... Others>
  void operator()(const Run &run, const T *ofInput, const T *ofState, const T *state,
                  const T *ofNext, Others *...others) const {
    call(run, ofInput, ofState, state, ofNext, {others...});
  }

private:
  template <class T>
  void call(const Run &run, const T *ofInput, const T *ofState, const T *state, const T *ofNext,
            std::initializer_list<const void *> others) const;
  RecurrentCellFields fields;
};

} // namespace pdc::runtime::cuda
