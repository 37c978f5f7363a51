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

/// Outlive what fails: while they are destroyed they may wait for ranks that do not know of it yet.
struct Connection {
  std::unique_ptr<Control> control;
  std::unique_ptr<Accelerator> accelerator;
  std::unique_ptr<Transport> transport;
};

static void measureAs(const RankPlace &place, Connection &connection, const char *output) {
  connection.control = connectRanks(place.rank, place.ranks, false, kStartSeconds);
  Control &control = *connection.control;
  connection.accelerator = support.open(place.local);
  connection.accelerator->whileWaiting = [&](double waited) {
    control.check();
    if (waited > control.timeout)
      throw Error("rank ", place.rank, " waits for its GPU longer than ", control.timeout, " s");
  };
  connection.transport = connectAll(*connection.accelerator, control);
  measureTopology(*connection.transport, control, connection.accelerator.get(), output);
  control.finish();
}

/// The first failure reaches all ranks and is told once.
int measureLinks(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOPOLOGY.json, as many processes as there are GPUs\n", argv[0]);
    return 2;
  }
  Connection connection;
  int rank = 0;
  try {
    const RankPlace place = requirePlace();
    rank = place.rank;
    measureAs(place, connection, argv[1]);
    return 0;
  } catch (const std::exception &error) {
    Control *control = connection.control.get();
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
