#include "runtime/Options.h"

#include "runtime/Error.h"
#include "runtime/LearningRate.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <type_traits>

namespace pdc::runtime {

static std::string refusal(const std::string &found, const std::string &expected) {
  return "found '" + found + "', expected " + expected;
}

template <class Number = int64_t> static auto wholeNumber(std::type_identity_t<Number> least) {
  return [least](const std::string &text) -> std::string {
    Number value = 0;
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value >= least)
      return "";
    const bool isTooLarge = problem == std::errc::result_out_of_range && text[0] != '-';
    return refusal(text, isTooLarge ? "a whole number of at most " +
                                          std::to_string(std::numeric_limits<Number>::max())
                                    : "a whole number of at least " + std::to_string(least));
  };
}

/// Large numbers that are not infinite yet would be, as 32-bit numbers or as times.
static auto number(double least, double most, const char *expected) {
  return [=](const std::string &text) -> std::string {
    double value = 0;
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value >= least &&
        value <= most)
      return "";
    return refusal(text, expected);
  };
}

static auto oneOf(std::vector<std::string> names) {
  return [names](const std::string &text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end())
      return "";
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "" : ", ") + name;
    return refusal(text, "one of " + list);
  };
}

/// Of a file or folder: a variable of a shell that is not set is no name.
static std::string named(const std::string &text) {
  return text.empty() ? refusal(text, "a name; give one, or leave the option out") : "";
}

static auto dataSpec(const std::string &text) -> std::string {
  try {
    parseDataSpec(text);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

static void requireDifferentInputs(const char *option, const std::vector<std::string> &texts) {
  std::map<std::string, std::string> files;
  for (const std::string &text : texts) {
    DataSpec spec = parseDataSpec(text);
    auto [first, fresh] = files.try_emplace(spec.input, spec.file);
    if (!fresh)
      throw Error(option, ": input '", spec.input, "' is given twice, as ", first->second, " and ",
                  spec.file, "; give each input one file");
  }
}

/// What no option can see alone.
static void checkTogether(const Options &options) {
  LearningRate(1, options.schedule, 1);
  requireDifferentInputs("--data", options.data);
  requireDifferentInputs("--eval-data", options.evaluationData);
  if (options.saveEvery > 0 && options.save.empty())
    throw Error("--save-every ", options.saveEvery, ": needs --save DIR to say where");
  if (options.delaySeed > 0 && !options.rendezvous)
    throw Error("--delays ", options.delaySeed, ": needs --rendezvous");
}

/// Of all that --resume does not say, what the training of weights depends on.
static void addDecisiveOptions(CLI::App &app, Options &options) {
  auto noted = [&options](CLI::Option *option) {
    option->each([&options, name = option->get_name()](const std::string &text) {
      options.decisive[name] = text;
    });
    return option;
  };
  noted(app.add_option("--lr", options.learningRate, "learning rate"))
      ->check(number(0, 1e30, "a finite number of at least 0 and at most 1e30"));
  noted(app.add_option("--lr-schedule", options.schedule,
                       "constant|step|cosine|linear[,warmup=N]"));
  noted(app.add_option("--clip-norm", options.clipNorm, "largest 2-norm of a gradient (0: any)"))
      ->check(number(0, 1e30, "a finite number of at least 0 and at most 1e30"));
  noted(app.add_option("--order", options.order, "of samples: shuffled or file"))
      ->check(oneOf({"shuffled", "file"}));
}

static void addTrainingOptions(CLI::App &app, Options &options) {
  app.add_option(
         "--data", options.data,
         "INPUT=FILE[,mean=M][,std=S]: IDX, NPY or safetensors, .gz too; bytes that are to be "
         "floating-point numbers are divided by 255. Of bare numbers, as tokens: "
         "INPUT=FILE,type=u16[,skip=N]")
      ->allow_extra_args(false)
      ->check(dataSpec);
  app.add_option("--eval-data", options.evaluationData, "the same, for evaluation after each epoch")
      ->allow_extra_args(false)
      ->check(dataSpec);
  app.add_option("--epochs", options.epochs, "passes over the data (1)")->check(wholeNumber(1));
  app.add_option("--steps", options.steps, "updates in all, instead of --epochs")
      ->check(wholeNumber(1));
  app.add_option("--transport", options.transport, "local: threads; mpi, nccl: processes")
      ->check(oneOf({"local", "mpi", "nccl"}));
  addDecisiveOptions(app, options);
  app.add_option("--metric", options.metric,
                 "accuracy or perplexity (accuracy, where the loss has classes)")
      ->check(oneOf({"accuracy", "perplexity"}));
  app.add_option("--seed", options.seed, "of sample order and dropout (0)")
      ->check(wholeNumber<uint64_t>(0));
  app.add_option("--weights", options.weights,
                 "initial weights (weights.safetensors of the model)")
      ->check(named);
}

static void addFileOptions(CLI::App &app, Options &options) {
  app.add_option("--save", options.save,
                 "checkpoints go to DIR/step-NNNNNN, which all hosts share; always one at the end")
      ->check(named);
  app.add_option("--save-every", options.saveEvery, "steps between checkpoints")
      ->check(wholeNumber(1));
  app.add_option("--resume", options.resume,
                 "continue from a checkpoint or the newest of a folder, with its run's --lr, "
                 "--lr-schedule, --clip-norm and --order where none is given")
      ->check(named);
  app.add_option("--log", options.log, "one JSON object per step")->check(named);
  app.add_option("--trace", options.trace, "Chrome trace of what each rank did")->check(named);
  app.add_option("--record", options.record, "every operation issued, in order, for pdc's checker")
      ->check(named);
}

void addOptions(CLI::App &app, Options &options) {
  addTrainingOptions(app, options);
  addFileOptions(app, options);
  app.add_option("--timeout", options.timeout, "seconds of any wait (start-up 600, step 300)")
      ->check(number(1e-3, 1e9, "a number of seconds from 0.001 to 1e9"));
  app.add_option("--progress", options.progress, "auto, terminal, plain or none")
      ->check(oneOf({"auto", "terminal", "plain", "none"}));
  app.add_flag("--rendezvous", options.rendezvous, "block until each message is received (a test)");
  app.add_option("--delays", options.delaySeed, "with --rendezvous: draw a delay before each group")
      ->check(wholeNumber(1));
  app.add_flag("--no-graphs", options.noGraphs, "GPUs: start each kernel, record no CUDA graphs");
  app.add_option("--tune", options.tune,
                 "GPUs: measure which of the libraries' kernels are the fastest; kept in DIR")
      ->check(named);
  app.add_flag("--check", options.check, "print the rows each rank holds, and end");
  app.final_callback([&options] {
    try {
      checkTogether(options);
    } catch (const Error &error) {
      throw CLI::ValidationError(error.what());
    }
  });
}

std::optional<int> parse(CLI::App &app, int argc, const char *const *argv) {
  app.failure_message([](const CLI::App *, const CLI::Error &error) {
    return std::string("error: ") + error.what() + "\nrun with --help for more information\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

std::string takeOver(Options &options, const std::map<std::string, std::string> &earlier) {
  CLI::App app;
  addDecisiveOptions(app, options);
  std::vector<std::string> words;
  std::string told;
  for (const auto &[name, text] : earlier)
    if (!options.decisive.contains(name)) {
      words.insert(words.begin(), name + "=" + text); // the last one is parsed first
      told += (told.empty() ? "" : " ") + name + " " + text;
    }
  try {
    app.parse(words);
    checkTogether(options);
  } catch (const CLI::ParseError &error) {
    throw Error(error.what());
  }
  return told;
}

std::string findBeside(const std::string &file) {
  std::error_code ignored;
  std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int up = 0; up < 3 && !folder.empty(); ++up, folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / file, ignored))
      return (folder / file).string();
    // What is above the folder that pdc wrote is not the program's.
    if (std::filesystem::exists(folder / "plan.json", ignored))
      return "";
  }
  // A program that stands elsewhere may be run in that folder.
  folder = std::filesystem::current_path(ignored);
  const bool isWritten = std::filesystem::exists(folder / "plan.json", ignored) &&
                         std::filesystem::exists(folder / file, ignored);
  return isWritten ? (folder / file).string() : "";
}

} // namespace pdc::runtime
