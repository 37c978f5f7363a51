#include "runtime/Error.h"
#include "runtime/Trainer.h"
#include "runtime/kernels/Processor.h"

#include <csignal>
#include <filesystem>
#include <thread>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace pdc::runtime {

static void onSignal(int signal) {
  // A second signal ends the process at once.
  if (stopSignal.exchange(signal))
    std::_Exit(128 + signal);
}

static std::unique_ptr<Trainer> makeTrainer(const Program &program, const Options &options,
                                            Transport &transport, Control &control) {
#ifdef _OPENMP
  omp_set_num_threads(program.threads);
#endif
  return std::make_unique<Trainer>(program, options, transport, control);
}

/// All ranks as threads. The first failure reaches all of them and is told once.
static int runLocal(std::span<const Program *const> programs, const Options &options) {
  if (int(programs.size()) != programs[0]->ranks)
    throw Error("this binary holds ", programs.size(), " of ", programs[0]->ranks,
                " ranks; start all_stages, or mpirun with the binaries of all stages");
  int ranks = int(programs.size());
  LocalNetwork network(ranks);
  LocalControlPlane plane(ranks);
  std::vector<std::unique_ptr<Transport>> endpoints;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    endpoints.push_back(network.endpoint(rank));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Control &control = plane.of(rank);
      if (options.timeout > 0)
        control.timeout = options.timeout;
      try {
        makeTrainer(*programs[rank], options, *endpoints[rank], control)->run();
      } catch (const std::exception &error) {
        if (!control.failed())
          control.fail(error.what());
        try {
          control.check();
        } catch (const Error &report) {
          errors[rank] = report.what();
        }
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &error : errors)
    if (!error.empty())
      throw Error(error);
  return 0;
}

static const Program &programOf(int rank, int ranks, std::span<const Program *const> programs) {
  if (ranks != programs[0]->ranks)
    throw Error("started as ", ranks, " processes; the plan has ", programs[0]->ranks,
                " ranks: mpirun -n ", programs[0]->ranks);
  for (const Program *program : programs)
    if (program->rank == rank)
      return *program;
  throw Error("process ", rank, " was started with the binary of stage ", programs[0]->rank,
              "; give mpirun the binaries in the order of the stages");
}

/// One rank. After an error MPI and the arena are left as they are: to finalise would wait for the
/// others, who may still read what this rank sends.
static int runMpi(std::span<const Program *const> programs, const Options &options) {
  std::unique_ptr<Transport> transport = makeMpiTransport();
  std::unique_ptr<Control> control;
  std::unique_ptr<Trainer> trainer;
  try {
    control = connectRanks(transport->rank(), transport->ranks(), true,
                           options.timeout > 0 ? options.timeout : 600);
    trainer = makeTrainer(programOf(transport->rank(), transport->ranks(), programs), options,
                          *transport, *control);
    trainer->run();
  } catch (const std::exception &error) {
    if (!control)
      std::fprintf(stderr, "error: %s\n", error.what());
    else if (!control->failed())
      control->fail(error.what());
    std::fflush(nullptr);
    // Rank 0's report must be out before a launcher sees the first rank go.
    if (transport->rank() != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::_Exit(1);
  }
  return 0;
}

/// What is written at the end is tried at the start: a long run is not lost to a wrong path.
static void requireWritable(const Options &options) {
  namespace fs = std::filesystem;
  if (!options.save.empty()) {
    std::error_code problem;
    fs::create_directories(options.save, problem);
    if (problem || access(options.save.c_str(), W_OK) != 0)
      throw Error("--save ", options.save, ": cannot be written; give a folder that can");
  }
  for (const std::string &path : {options.trace, options.record})
    if (!path.empty()) {
      fs::path folder = fs::path(path).parent_path();
      if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
        throw Error(path, ": cannot be written; give a file in a folder that can");
    }
}

static int runPrograms(std::span<const Program *const> programs, const Options &options) {
  requireProcessor();
  requireWritable(options);
  for (const Program *program : programs)
    check(*program);
  if (options.check) {
    for (const Program *program : programs)
      std::fputs(rowsText(*program).c_str(), stdout);
    return 0;
  }
  std::signal(SIGINT, onSignal);
  std::signal(SIGTERM, onSignal);
  bool mpi =
      options.transport == "mpi" ||
      (options.transport.empty() && (startedByMpi() || int(programs.size()) < programs[0]->ranks));
  return mpi ? runMpi(programs, options) : runLocal(programs, options);
}

int main(int argc, char **argv, std::span<const Program *const> programs) {
  Options options;
  CLI::App app(std::string("trains ") + (programs.empty() ? "" : programs[0]->model));
  addOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (programs.empty())
      throw Error("this binary holds no program");
    return runPrograms(programs, options);
  } catch (const std::exception &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

} // namespace pdc::runtime
