#include "runtime/Error.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/RecurrentCellElements.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

struct Functions {
  static PDC_EITHER float sigmoid(float x) { return 1 / (1 + expf(-x)); }
  static PDC_EITHER float tanh(float x) { return tanhf(x); }
};
using Lstm = LstmElement<Functions>;
using Gru = GruElement<Functions>;

/// Where the gates of a row begin, in ONNX's order.
template <int Gates> struct GateBegins {
  int64_t at[Gates];

  explicit GateBegins(const RecurrentCellFields &f) {
    for (int g = 0; g < Gates; ++g)
      at[g] = f.begin(size_t(g));
  }
};

/// The same element of each gate of a row, `Width` neighbours of each.
template <int Gates, int Width> struct GateLanes {
  Lanes<float, Width> gate[Gates];

  template <class T>
  __device__ static GateLanes from(const T *first, const GateBegins<Gates> &begins) {
    GateLanes lanes;
    for (int g = 0; g < Gates; ++g)
      lanes.gate[g] = load<Width>(first + begins.at[g]);
    return lanes;
  }
  template <class T> __device__ void to(T *first, const GateBegins<Gates> &begins) const {
    for (int g = 0; g < Gates; ++g)
      store(first + begins.at[g], gate[g]);
  }
  __device__ Lstm lstm(int lane) const {
    return {gate[0].at[lane], gate[1].at[lane], gate[2].at[lane], gate[3].at[lane]};
  }
};

template <int Width>
__device__ Gru gruOf(const GateLanes<3, Width> &input, const GateLanes<3, Width> &state, int lane) {
  return {{input.gate[0].at[lane], input.gate[1].at[lane], input.gate[2].at[lane]},
          {state.gate[0].at[lane], state.gate[1].at[lane], state.gate[2].at[lane]}};
}

template <int Width, class T> __device__ Lanes<float, Width> loadOrZero(const T *from, int64_t i) {
  return from ? load<Width>(from + i) : Lanes<float, Width>{};
}

/// What arrives at a state: a sum is rounded as a kernel that stored it would.
template <class T> struct Arriving {
  static constexpr int kMost = RecurrentCellFields::kMostTerms;
  const T *terms[kMost] = {};
  int count = 1;

  template <int Width> __device__ Lanes<float, Width> at(int64_t i) const {
    auto sum = loadOrZero<Width>(terms[0], i);
    PDC_UNROLL
    for (int term = 1; term < kMost; ++term)
      if (term < count) {
        const auto added = load<Width>(terms[term] + i);
        for (int lane = 0; lane < Width; ++lane)
          sum.at[lane] += added.at[lane];
      }
    for (int lane = 0; lane < Width; ++lane)
      sum.at[lane] = static_cast<float>(static_cast<T>(sum.at[lane]));
    return sum;
  }
};

/// What a gradient's call has behind its operands.
template <class T> struct Others {
  Arriving<T> arriving;
  std::array<void *, 3> results = {};

  Others(const RecurrentCellFields &f, const T *first, std::initializer_list<const void *> given) {
    const size_t further = size_t(f.terms) - 1;
    if (f.terms < 1 || f.terms > Arriving<T>::kMost || given.size() != further + f.results.size())
      throw Error("recurrent cell: ", given.size(),
                  " pointers behind the operands of a gradient of ", f.terms, " terms and ",
                  f.results.size(), " results");
    arriving.terms[0] = first, arriving.count = int(f.terms);
    for (size_t i = 0; i < further; ++i)
      arriving.terms[i + 1] = static_cast<const T *>(given.begin()[i]);
    for (size_t i = 0; i < f.results.size(); ++i)
      results.at(size_t(f.results[i])) = const_cast<void *>(given.begin()[further + i]);
  }
};
template <int Width, class T>
__device__ void storeWhereAsked(T *to, int64_t i, const Lanes<float, Width> &values) {
  if (to)
    store(to + i, values);
}

/// body.at<Width>(element, its first gate) for each `Width` neighbours of a row.
template <int Width, class Body>
__global__ void cellKernel(int64_t elements, int64_t width, int64_t gates, Body body) {
  const int64_t i = globalThread() * Width;
  if (i < elements)
    body.template at<Width>(i, i / width * (gates - 1) * width + i);
}

template <class Body>
void overCells(const Run &run, const RecurrentCellFields &f, int64_t gates, Body body) {
  const int64_t elements = f.rows * f.width;
  if (f.width % kLanes == 0)
    launchOver(run, elements / kLanes, cellKernel<kLanes, Body>, elements, f.width, gates, body);
  else
    launchOver(run, elements, cellKernel<1, Body>, elements, f.width, gates, body);
}

template <class T> struct LstmForward {
  GateBegins<4> begins;
  const T *gates;
  const float *cell;
  T *state;
  float *next;
  template <int Width> __device__ void at(int64_t i, int64_t g) const {
    const auto held = GateLanes<4, Width>::from(gates + g, begins);
    auto cells = load<Width>(cell + i), states = cells;
    for (int lane = 0; lane < Width; ++lane) {
      const Lstm element = held.lstm(lane);
      cells.at[lane] = element.next(cells.at[lane]);
      states.at[lane] = element.state(cells.at[lane]);
    }
    storeWhereAsked(state, i, states);
    storeWhereAsked(next, i, cells);
  }
};

template <class T> struct LstmBackward {
  GateBegins<4> begins;
  const T *gates;
  const float *cell, *next;
  Arriving<T> ofState;
  const float *ofNext;
  T *ofGates;
  float *ofCell;
  template <int Width> __device__ void at(int64_t i, int64_t g) const {
    auto held = GateLanes<4, Width>::from(gates + g, begins);
    auto cells = load<Width>(cell + i);
    const auto after = load<Width>(next + i), dState = ofState.template at<Width>(i),
               dNext = loadOrZero<Width>(ofNext, i);
    for (int lane = 0; lane < Width; ++lane) {
      const Lstm::Gradient d =
          held.lstm(lane).gradient(cells.at[lane], after.at[lane], dState.at[lane], dNext.at[lane]);
      held.gate[0].at[lane] = d.in, held.gate[1].at[lane] = d.out;
      held.gate[2].at[lane] = d.forget, held.gate[3].at[lane] = d.candidate;
      cells.at[lane] = d.cell;
    }
    if (ofGates)
      held.to(ofGates + g, begins);
    storeWhereAsked(ofCell, i, cells);
  }
};

template <class T> struct GruForward {
  GateBegins<3> begins;
  const T *ofInput, *ofState, *state;
  T *next;
  template <int Width> __device__ void at(int64_t i, int64_t g) const {
    const auto x = GateLanes<3, Width>::from(ofInput + g, begins),
               s = GateLanes<3, Width>::from(ofState + g, begins);
    auto states = load<Width>(state + i);
    for (int lane = 0; lane < Width; ++lane)
      states.at[lane] = gruOf(x, s, lane).next(states.at[lane]);
    store(next + i, states);
  }
};

template <class T> struct GruBackward {
  GateBegins<3> begins;
  const T *ofInput, *ofState, *state;
  Arriving<T> ofNext;
  T *dInput, *dState, *dBefore;
  template <int Width> __device__ void at(int64_t i, int64_t g) const {
    auto x = GateLanes<3, Width>::from(ofInput + g, begins),
         s = GateLanes<3, Width>::from(ofState + g, begins);
    auto states = load<Width>(state + i);
    const auto dNext = ofNext.template at<Width>(i);
    for (int lane = 0; lane < Width; ++lane) {
      const Gru::Gradient d = gruOf(x, s, lane).gradient(states.at[lane], dNext.at[lane]);
      x.gate[0].at[lane] = s.gate[0].at[lane] = d.update;
      x.gate[1].at[lane] = s.gate[1].at[lane] = d.reset;
      x.gate[2].at[lane] = d.candidate, s.gate[2].at[lane] = d.candidateOfState;
      states.at[lane] = d.state;
    }
    if (dInput)
      x.to(dInput + g, begins);
    if (dState)
      s.to(dState + g, begins);
    storeWhereAsked(dBefore, i, states);
  }
};

} // namespace

template <class T>
void LstmCell::call(const Run &run, const T *gates, const float *cell,
                    const std::array<void *, 3> &results) const {
  overCells(run, fields, 4,
            LstmForward<T>{GateBegins<4>(fields), gates, cell, static_cast<T *>(results[0]),
                           static_cast<float *>(results[1])});
}

template <class T>
void LstmCellGradient::call(const Run &run, const T *gates, const float *cell, const float *next,
                            const T *ofState, const float *ofNext,
                            std::initializer_list<const void *> others) const {
  const Others<T> o(fields, ofState, others);
  overCells(run, fields, 4,
            LstmBackward<T>{GateBegins<4>(fields), gates, cell, next, o.arriving, ofNext,
                            static_cast<T *>(o.results[0]), static_cast<float *>(o.results[1])});
}

template <class T>
void GruCell::operator()(const Run &run, const T *ofInput, const T *ofState, const T *state,
                         T *next) const {
  overCells(run, fields, 3, GruForward<T>{GateBegins<3>(fields), ofInput, ofState, state, next});
}

template <class T>
void GruCellGradient::call(const Run &run, const T *ofInput, const T *ofState, const T *state,
                           const T *ofNext, std::initializer_list<const void *> others) const {
  const Others<T> o(fields, ofNext, others);
  overCells(run, fields, 3,
            GruBackward<T>{GateBegins<3>(fields), ofInput, ofState, state, o.arriving,
                           static_cast<T *>(o.results[0]), static_cast<T *>(o.results[1]),
                           static_cast<T *>(o.results[2])});
}

#define PDC_CELLS(T)                                                                               \
  template void LstmCell::call(const Run &, const T *, const float *,                              \
                               const std::array<void *, 3> &) const;                               \
  template void LstmCellGradient::call(const Run &, const T *, const float *, const float *,       \
                                       const T *, const float *,                                   \
                                       std::initializer_list<const void *>) const;                 \
  template void GruCell::operator()(const Run &, const T *, const T *, const T *, T *) const;      \
  template void GruCellGradient::call(const Run &, const T *, const T *, const T *, const T *,     \
                                      std::initializer_list<const void *>) const;
PDC_CELLS(float)
PDC_CELLS(BFloat16)
PDC_CELLS(Float16)
#undef PDC_CELLS

} // namespace pdc::runtime::cuda
