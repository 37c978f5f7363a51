#include "runtime/Main.h"
#include "runtime/Error.h"
#include "runtime/RankPlace.h"
#include "runtime/SharedFolder.h"
#include "runtime/Signals.h"
#include "runtime/StartWatch.h"
#include "runtime/Trainer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>
#include <thread>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef PDC_RUNTIME_PROCESSOR
#include "runtime/kernels/Processor.h"
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

static std::atomic<bool> speaks = false, hasLauncher = false, launched = false;

/// Of what a launcher passes on the exit code is its caller's affair: a rank that fails would be an
/// error to it.
static void onSignal(int signal) {
  static std::atomic<double> first = 0;
  const int asked = askedBy(signal);
  if (!stopSignal.exchange(asked)) {
    first = now();
    launched = asked != signal && hasLauncher;
    if (speaks && !launched)
      say("\nasked to end: finishes the step, saves where --save was given; ask again to end at "
          "once\n");
    return;
  }
  // Some send a signal to a process and to its group, which is one request; launchers repeat it.
  if (asked == signal && now() - first > 0.3)
    std::_Exit(128 + asked);
}

static int stoppedCode() { return launched ? 0 : 128 + (stopSignal ? int(stopSignal) : SIGTERM); }

/// The device of a rank that is number `local` on its host; while the rank waits for it, failures
/// of others and the timeout are seen. Null on the CPU.
static std::unique_ptr<Accelerator> openAccelerator(const Program &program, int local,
                                                    Control &control) {
  if (!program.device)
    return nullptr;
  std::unique_ptr<Accelerator> accelerator = program.device->open(local);
  accelerator->whileWaiting = [&control, rank = program.rank](double waited) {
    control.check();
    if (waited < control.timeout)
      return;
    std::ostringstream why;
    why << "nothing moves: rank " << rank << " waits for its GPU longer than " << control.timeout
        << " s (--timeout)";
    control.fail(why.str(), true);
    control.check();
  };
  return accelerator;
}

static std::unique_ptr<Trainer> makeTrainer(const Program &program, const Options &options,
                                            Transport &transport, Control &control,
                                            Accelerator *accelerator) {
#ifdef _OPENMP
  omp_set_num_threads(program.threads);
#endif
  return std::make_unique<Trainer>(program, options, transport, control, accelerator);
}

/// One for each rank, as far as they can be had; why not, where they cannot.
static std::string startThreads(std::vector<std::thread> &threads, int ranks,
                                const std::function<void(int)> &runRank) {
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(runRank, rank);
  } catch (const std::system_error &error) {
    return "cannot start a thread for rank " + std::to_string(threads.size()) + " of " +
           std::to_string(ranks) + ": " + error.code().message() +
           "; raise the limit of processes (ulimit -u)";
  }
  return "";
}

/// All ranks as threads. The first failure reaches all of them and is told once.
static int runLocal(std::span<const Program *const> programs, const Options &options) {
  if (int(programs.size()) != programs[0]->ranks)
    throw Error("this binary holds ", programs.size(), " of ", programs[0]->ranks,
                " ranks; start all_stages, or mpirun with the binaries of all stages");
  int ranks = int(programs.size());
  LocalNetwork network(ranks);
  LocalControlPlane plane(ranks);
  std::vector<std::unique_ptr<Accelerator>> accelerators(ranks);
  std::vector<std::unique_ptr<Transport>> endpoints(ranks);
  std::vector<std::thread> threads;
  std::vector<std::string> errors(ranks);
  std::atomic<bool> stopped = false, early = false;
  speaks = true;
  auto runRank = [&](int rank) {
    Control &control = plane.of(rank);
    if (options.timeout > 0)
      control.timeout = options.timeout;
    try {
      accelerators[rank] = openAccelerator(*programs[rank], rank, control);
      endpoints[rank] = network.endpoint(rank, accelerators[rank].get());
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
  };
  if (const std::string refusal = startThreads(threads, ranks, runRank); !refusal.empty()) {
    errors[threads.size()] = refusal;
    plane.of(int(threads.size())).fail(refusal);
  }
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &error : errors)
    if (!error.empty()) {
      tell(error);
      return early ? 128 + stopSignal : 1;
    }
  return stopped ? stoppedCode() : 0;
}

static const Program &programOf(int rank, int ranks, std::span<const Program *const> programs,
                                bool mpi) {
  if (ranks != programs[0]->ranks)
    throw Error("started as ", ranks, ranks == 1 ? " process" : " processes", "; the plan has ",
                programs[0]->ranks, " ranks: ", commandFor(programs[0]->ranks, mpi));
  for (const Program *program : programs)
    if (program->rank == rank)
      return *program;
  throw Error(
      "process ", rank, " was started with the binary of rank ", programs[0]->rank,
      "; give the launcher the binaries in the order of the stages, each for as many processes as "
      "the stage has replicas");
}

/// The end of a rank of several processes. The transport and the arena are left as they are: to
/// finalise would wait for the others, who may still read what this rank sends.
[[noreturn]] static void leave(const std::exception &error, Control *control, int rank) {
  if (!control && (!stopSignal || rank == 0))
    tell(error.what());
  else if (control && !control->failed())
    control->fail(error.what());
  std::fflush(nullptr);
  // Rank 0's report must be out before a launcher sees the first rank go.
  if (rank != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::_Exit(stopSignal && !(control && control->running) ? 128 + stopSignal : 1);
}

static Seconds startTimeout(const Options &options) {
  return options.timeout > 0 ? options.timeout : 600;
}

static int runMpi(std::span<const Program *const> programs, const Options &options) {
  if (programs[0]->device)
    throw Error("--transport mpi moves the memory of CPUs, and these programs are for ",
                programs[0]->device->name, "; use local or nccl");
  std::optional<StartWatch> start(startTimeout(options));
  std::unique_ptr<Transport> transport = makeMpiTransport(programs[0]->threads);
  std::unique_ptr<Control> control;
  std::unique_ptr<Trainer> trainer;
  speaks = transport->rank() == 0;
  try {
    control = connectRanks(transport->rank(), transport->ranks(), true, startTimeout(options));
    start.reset();
    requireSharedFolder(options.save, transport->rank(), *control);
    trainer = makeTrainer(programOf(transport->rank(), transport->ranks(), programs, true), options,
                          *transport, *control, nullptr);
    return trainer->run() ? 0 : stoppedCode();
  } catch (const std::exception &error) {
    leave(error, control.get(), transport->rank());
  }
}

/// One process per device.
static int runNccl(std::span<const Program *const> programs, const Options &options) {
  std::optional<RankPlace> place = placeFromEnvironment();
  if (!programs[0]->device)
    throw Error(
        "--transport nccl moves the memory of GPUs, and these programs are for the CPU; use "
        "local or mpi");
  if (!place)
    throw Error("--transport nccl: this process does not know its rank; start one per GPU with "
                "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set, as torchrun does, "
                "or by srun or mpirun");
  std::unique_ptr<Control> control;
  std::unique_ptr<Accelerator> accelerator;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Trainer> trainer;
  speaks = place->rank == 0;
  try {
    const Program &program = programOf(place->rank, place->ranks, programs, false);
    control = connectRanks(place->rank, place->ranks, false, startTimeout(options));
    control->timeout = startTimeout(options);
    requireSharedFolder(options.save, place->rank, *control);
    accelerator = openAccelerator(program, place->local, *control);
    transport = program.device->connect(*accelerator, *control, program);
    trainer = makeTrainer(program, options, *transport, *control, accelerator.get());
    return trainer->run() ? 0 : stoppedCode();
  } catch (const std::exception &error) {
    leave(error, control.get(), place->rank);
  }
}

/// What is written is not what is read.
static void requireNoInput(const char *option, const std::string &path, const Options &options) {
  std::vector<std::string> inputs = {options.weights, findBeside("weights.safetensors"),
                                     findBeside("constants.safetensors"), findBeside("plan.json")};
  for (const std::vector<std::string> &data : {options.data, options.evaluationData})
    for (const std::string &text : data)
      inputs.push_back(parseDataSpec(text).file);
  std::error_code ignored;
  for (const std::string &input : inputs)
    if (!input.empty() && std::filesystem::equivalent(path, input, ignored))
      throw Error(option, path, ": would be written over '", input, "', which is read; give another");
}

/// `takesPlace`: a whole file is to take the place of what has its name.
static void requireFile(const char *option, const std::string &path, bool takesPlace,
                        const Options &options) {
  namespace fs = std::filesystem;
  if (path.empty())
    return;
  std::error_code ignored;
  const bool isOther = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (isOther && (takesPlace || fs::is_directory(path, ignored)))
    throw Error(option, path, ": is no file; give one, or a name that nothing has");
  const fs::path folder = fs::path(path).parent_path();
  if (!isOther && access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw Error(path, ": cannot be written; give a file in a folder that can");
  requireNoInput(option, path, options);
}

/// What is written at the end is tried at the start: a long run is not lost to a wrong path.
static void requireWritable(const Options &options) {
  namespace fs = std::filesystem;
  for (const auto &[option, folder] :
       {std::pair("--save ", options.save), std::pair("--tune ", options.tune)}) {
    if (folder.empty())
      continue;
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem || access(folder.c_str(), W_OK) != 0)
      throw Error(option, folder, ": cannot be written; give a folder that can");
  }
  requireFile("--trace ", options.trace, true, options);
  requireFile("--record ", options.record, true, options);
  // Written as it comes, to anything that can be written to.
  requireFile("--log ", options.log, false, options);
  const std::pair<const char *, std::string> files[] = {
      {"--trace", options.trace}, {"--record", options.record}, {"--log", options.log}};
  for (size_t i = 0; i < std::size(files); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::error_code ignored;
          !files[i].second.empty() && fs::weakly_canonical(files[i].second, ignored) ==
                                          fs::weakly_canonical(files[j].second, ignored))
        throw Error(files[i].first, " ", files[i].second, ": is what ", files[j].first,
                    " writes, too; give each a file of its own");
}

/// A kernel that is chosen because it is fast may have other bits than the library's first.
static void requireTunable(const Program &program, const Options &options) {
  if (options.tune.empty())
    return;
  if (!program.device)
    throw Error("--tune ", options.tune,
                ": measures kernels of GPUs, and these programs are for the CPU; leave it out, or "
                "pass --device cuda to pdc");
  if (program.exact)
    throw Error("--tune ", options.tune,
                ": these programs were compiled with --exact, whose bits do not depend on how the "
                "model is split, and a kernel that is faster has other bits; leave it out, or run "
                "pdc again without --exact");
}

static int runPrograms(std::span<const Program *const> programs, const Options &options) {
#ifdef PDC_RUNTIME_PROCESSOR
  requireProcessor();
  flushSubnormals();
#endif
  requireTunable(*programs[0], options);
  requireWritable(options);
  for (const Program *program : programs)
    check(*program);
  if (options.check) {
    for (const Program *program : programs)
      std::fputs(rowsText(*program).c_str(), stdout);
    return 0;
  }
  hasLauncher = startedByMpi() || isOneOfSeveral();
  handleSignals({SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}, onSignal);
  // Writing says so itself: to a reader that has gone, or beyond what a file may have.
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN);
  bool isPart = startedByMpi() || isOneOfSeveral() || int(programs.size()) < programs[0]->ranks;
  std::string transport = options.transport;
  if (transport.empty())
    transport = !isPart ? "local" : programs[0]->device ? "nccl" : "mpi";
  return transport == "local"  ? runLocal(programs, options)
         : transport == "nccl" ? runNccl(programs, options)
                               : runMpi(programs, options);
}

int main(int argc, char **argv, std::span<const Programs> sources) {
  if (const char *sign = std::getenv(kBeganSign))
    unlink(sign);
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
