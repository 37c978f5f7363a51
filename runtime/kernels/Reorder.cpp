#include "runtime/kernels/Reorder.h"

#include "runtime/kernels/Layouts.h"
#include "runtime/kernels/Library.h"

namespace pdc::runtime {

Reorder::Reorder(const Device &device, const ReorderFields &f) {
  dnnl::memory::desc from = describe(f.shape, f.from), to = describe(f.shape, f.to);
  call = makeLibraryCall<dnnl::reorder>(f.name, device, Fallback::reference, [&] {
    return dnnl::reorder::primitive_desc(libraryEngine(), from, libraryEngine(), to,
                                         libraryAttributes());
  });
  call.addMemory(DNNL_ARG_FROM, from);
  call.addMemory(DNNL_ARG_TO, to);
}

void Reorder::operator()(const Run &run, const float *x, float *y) {
  call.setData(DNNL_ARG_FROM, x);
  call.setData(DNNL_ARG_TO, y);
  call.execute(run.scratchBase);
}

} // namespace pdc::runtime
