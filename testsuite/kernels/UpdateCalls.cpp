#include "testsuite/kernels/KernelMakers.h"

#ifndef PDC_CUDA_KERNELS
#include "runtime/kernels/AdagradUpdate.h"
#include "runtime/kernels/AdamUpdate.h"
#include "runtime/kernels/MomentumUpdate.h"
#include "runtime/kernels/SgdUpdate.h"
#endif

namespace pdc {

using namespace runtime;

/// On a GPU the weights of a task share a kernel; here each has one of its own.
template <class Kernel, class... Pointers>
static void update(const Kernel &kernel, const Run &run, Pointers... pointers) {
#ifdef PDC_CUDA_KERNELS
  cuda::Updates updates(run);
  kernel(updates, pointers...);
  updates.launch();
#else
  kernel(run, pointers...);
#endif
}

KernelMakers updateMakers() {
  return {
      {"SgdUpdate",
       [](auto &c, auto &d) {
         SgdUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(weight_decay);
         return made<kernels::SgdUpdate>(
             d, f, CALL { update(k, r, p[0], p[1], p[2], p[3], p[4]); });
       }},
      {"MomentumUpdate",
       [](auto &c, auto &d) {
         MomentumUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(dampening) FIELD(first_step) FIELD(momentum)
             FIELD(nesterov) FIELD(weight_decay);
         return made<kernels::MomentumUpdate>(
             d, f, CALL { update(k, r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]); });
       }},
      {"AdagradUpdate",
       [](auto &c, auto &d) {
         AdagradUpdateFields f;
         FieldReader{c} FIELD(count) FIELD(epsilon) FIELD(first_step) FIELD(lr_decay)
             FIELD(weight_decay);
         return made<kernels::AdagradUpdate>(
             d, f, CALL { update(k, r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]); });
       }},
      {"AdamUpdate",
       [](auto &c, auto &d) {
         AdamUpdateFields f;
         FieldReader{c} FIELD(beta1) FIELD(beta2) FIELD(count) FIELD(decoupled) FIELD(epsilon)
             FIELD(first_step) FIELD(post_decay) FIELD(scaled_epsilon) FIELD(weight_decay);
         return made<kernels::AdamUpdate>(
             d, f,
             CALL { update(k, r, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]); });
       }},
  };
}

} // namespace pdc
