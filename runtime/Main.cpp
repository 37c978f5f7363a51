#include "runtime/Main.h"
#include "runtime/Error.h"
#include "runtime/Trainer.h"
#include "runtime/kernels/Processor.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace pdc::runtime {

static void tell(const std::string &error) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", error.c_str());
}

/// From a signal handler.
static void say(std::string_view text) {
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

static std::atomic<bool> speaks = false, launched = false;

/// SIGUSR1 and SIGUSR2 are SIGINT and SIGTERM by way of a launcher such as mpirun, which passes
/// only these on. The exit code is then its caller's affair: a rank that fails would be an error to
/// it.
static void onSignal(int signal) {
  static std::atomic<double> first = 0;
  int asked = signal == SIGUSR1 ? SIGINT : signal == SIGUSR2 ? SIGTERM : signal;
  if (!stopSignal.exchange(asked)) {
    first = now();
    launched = asked != signal;
    if (speaks && asked == signal)
      say("\nasked to end: finishes the step, saves where --save was given; ask again to end at "
          "once\n");
    return;
  }
  // Some send a signal to a process and to its group, which is one request; launchers repeat it.
  if (asked == signal && now() - first > 0.3)
    std::_Exit(128 + asked);
}

static int stoppedCode() { return launched ? 0 : 128 + (stopSignal ? int(stopSignal) : SIGTERM); }

static std::unique_ptr<Accelerator> openAccelerator(const Program &program, int local) {
  return program.device ? program.device->open(local) : nullptr;
}

static std::unique_ptr<Trainer> makeTrainer(const Program &program, const Options &options,
                                            Transport &transport, Control &control,
                                            Accelerator *accelerator) {
#ifdef _OPENMP
  omp_set_num_threads(program.threads);
#endif
  return std::make_unique<Trainer>(program, options, transport, control, accelerator);
}

/// All ranks as threads. The first failure reaches all of them and is told once.
static int runLocal(std::span<const Program *const> programs, const Options &options) {
  if (int(programs.size()) != programs[0]->ranks)
    throw Error("this binary holds ", programs.size(), " of ", programs[0]->ranks,
                " ranks; start all_stages, or mpirun with the binaries of all stages");
  int ranks = int(programs.size());
  LocalNetwork network(ranks);
  LocalControlPlane plane(ranks);
  std::vector<std::unique_ptr<Accelerator>> accelerators;
  std::vector<std::unique_ptr<Transport>> endpoints;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(ranks);
  std::atomic<bool> stopped = false, early = false;
  speaks = true;
  for (int rank = 0; rank < ranks; ++rank) {
    accelerators.push_back(openAccelerator(*programs[rank], rank));
    endpoints.push_back(network.endpoint(rank, accelerators[rank].get()));
  }
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Control &control = plane.of(rank);
      if (options.timeout > 0)
        control.timeout = options.timeout;
      try {
        if (!makeTrainer(*programs[rank], options, *endpoints[rank], control,
                         accelerators[rank].get())
                 ->run())
          stopped = true;
      } catch (const std::exception &error) {
        if (stopSignal && !control.running)
          early = true;
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
    if (!error.empty()) {
      tell(error);
      return early ? 128 + stopSignal : 1;
    }
  return stopped ? stoppedCode() : 0;
}

static const Program &programOf(int rank, int ranks, std::span<const Program *const> programs) {
  if (ranks != programs[0]->ranks)
    throw Error("started as ", ranks, " processes; the plan has ", programs[0]->ranks,
                " ranks: mpirun -n ", programs[0]->ranks);
  for (const Program *program : programs)
    if (program->rank == rank)
      return *program;
  throw Error(
      "process ", rank, " was started with the binary of rank ", programs[0]->rank,
      "; give mpirun the binaries in the order of the stages, each for as many processes as "
      "the stage has replicas");
}

/// One rank. After an error MPI and the arena are left as they are: to finalise would wait for the
/// others, who may still read what this rank sends.
static int runMpi(std::span<const Program *const> programs, const Options &options) {
  std::unique_ptr<Transport> transport = makeMpiTransport();
  std::unique_ptr<Control> control;
  std::unique_ptr<Trainer> trainer;
  speaks = transport->rank() == 0;
  try {
    control = connectRanks(transport->rank(), transport->ranks(), true,
                           options.timeout > 0 ? options.timeout : 600);
    trainer = makeTrainer(programOf(transport->rank(), transport->ranks(), programs), options,
                          *transport, *control, nullptr);
    return trainer->run() ? 0 : stoppedCode();
  } catch (const std::exception &error) {
    if (!control && (!stopSignal || transport->rank() == 0))
      tell(error.what());
    else if (control && !control->failed())
      control->fail(error.what());
    std::fflush(nullptr);
    // Rank 0's report must be out before a launcher sees the first rank go.
    if (transport->rank() != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::_Exit(stopSignal && !(control && control->running) ? 128 + stopSignal : 1);
  }
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
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2})
    std::signal(signal, onSignal);
  bool mpi =
      options.transport == "mpi" ||
      (options.transport.empty() && (startedByMpi() || int(programs.size()) < programs[0]->ranks));
  return mpi ? runMpi(programs, options) : runLocal(programs, options);
}

int main(int argc, char **argv, std::span<const Programs> sources) {
  std::vector<const Program *> programs;
  for (const Programs &source : sources)
    for (int i = 0; i < source.count; ++i)
      programs.push_back(source.first + i);
  std::ranges::sort(programs, {}, &Program::rank);
  Options options;
  CLI::App app(std::string("trains ") + (programs.empty() ? "" : programs[0]->model));
  addOptions(app, options);
  if (std::optional<int> code = parse(app, argc, argv))
    return *code;
  try {
    if (programs.empty())
      throw Error("this binary holds no program");
    return runPrograms(programs, options);
  } catch (const std::exception &error) {
    tell(error.what());
    return 1;
  }
}

} // namespace pdc::runtime
