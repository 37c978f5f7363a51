#pragma once

#include "runtime/Program.h"
#include "runtime/cuda/Fields.h"

/// What gives weights their next versions.
namespace pdc::runtime::cuda {

class SgdUpdate {
public:
  SgdUpdate(const Device &, const SgdUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *scale,
                  const float *learningRate, float *nextW) const;

private:
  SgdUpdateFields fields;
};

class MomentumUpdate {
public:
  MomentumUpdate(const Device &, const MomentumUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextV) const;

private:
  MomentumUpdateFields fields;
};

class AdagradUpdate {
public:
  AdagradUpdate(const Device &, const AdagradUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *h,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextH) const;

private:
  AdagradUpdateFields fields;
};

class AdamUpdate {
public:
  AdamUpdate(const Device &, const AdamUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *m, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextM, float *nextV) const;

private:
  AdamUpdateFields fields;
};

} // namespace pdc::runtime::cuda
