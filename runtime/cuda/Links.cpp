#include "runtime/cuda/Links.h"

#include "runtime/Error.h"
#include "runtime/LinkMeter.h"
#include "runtime/RankPlace.h"
#include "runtime/cuda/CudaAccelerator.h"
#include "runtime/cuda/NcclTransport.h"

#include <cstdio>
#include <cstdlib>

namespace pdc::runtime::cuda {

static constexpr double kStartSeconds = 60;

static RankPlace requirePlace() {
  if (std::optional<RankPlace> place = placeFromEnvironment())
    return *place;
  throw Error("this process does not know its rank; start one per GPU with RANK, WORLD_SIZE, "
              "LOCAL_RANK, MASTER_ADDR and MASTER_PORT set, as torchrun does, or by srun or "
              "mpirun");
}

static void measureAs(const RankPlace &place, Control &control, const char *output) {
  std::unique_ptr<Accelerator> accelerator = support.open(place.local);
  accelerator->whileWaiting = [&](double waited) {
    control.check();
    if (waited > control.timeout)
      throw Error("rank ", place.rank, " waits for its GPU longer than ", control.timeout, " s");
  };
  std::unique_ptr<Transport> transport = connectAll(*accelerator, control);
  measureTopology(*transport, control, accelerator.get(), output);
  control.finish();
}

/// The first failure reaches all ranks and is told once.
int measureLinks(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOPOLOGY.json, as many processes as there are GPUs\n", argv[0]);
    return 2;
  }
  std::unique_ptr<Control> control;
  int rank = 0;
  try {
    const RankPlace place = requirePlace();
    rank = place.rank;
    control = connectRanks(place.rank, place.ranks, false, kStartSeconds);
    measureAs(place, *control, argv[1]);
    return 0;
  } catch (const std::exception &error) {
    if (!control || rank == 0)
      std::fprintf(stderr, "error: %s\n", error.what());
    if (control && !control->failed())
      control->fail(error.what());
    // What waits for a GPU or a peer that is gone would wait for ever.
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

} // namespace pdc::runtime::cuda
