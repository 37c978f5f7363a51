#include "runtime/Options.h"

#include <filesystem>

namespace pdc::runtime {

void addOptions(CLI::App &app, Options &options) {
  app.add_option("--data", options.data,
                 "INPUT=FILE[,mean=M][,std=S]: IDX, NPY or safetensors, .gz too")
      ->allow_extra_args(false);
  app.add_option("--eval-data", options.evaluationData, "the same, for evaluation after each epoch")
      ->allow_extra_args(false);
  app.add_option("--epochs", options.epochs, "passes over the data (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "updates in all, instead of --epochs")
      ->check(CLI::PositiveNumber);
  app.add_option("--transport", options.transport, "local: threads; mpi: processes")
      ->check(CLI::IsMember({"local", "mpi"}));
  app.add_option("--lr", options.learningRate, "learning rate")->check(CLI::NonNegativeNumber);
  app.add_option("--lr-schedule", options.schedule, "constant|step|cosine|linear[,warmup=N]");
  app.add_option("--clip-norm", options.clipNorm, "largest 2-norm of a gradient")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--metric", options.metric, "accuracy or perplexity")
      ->check(CLI::IsMember({"accuracy", "perplexity"}));
  app.add_option("--seed", options.seed, "of sample order and dropout (0)");
  app.add_option("--order", options.order, "of samples: shuffled or file")
      ->check(CLI::IsMember({"shuffled", "file"}));
  app.add_option("--weights", options.weights,
                 "initial weights (weights.safetensors of the model)");
  app.add_option("--save", options.save,
                 "checkpoints go to DIR/step-NNNNNN; always one at the end");
  app.add_option("--save-every", options.saveEvery, "steps between checkpoints")
      ->check(CLI::PositiveNumber);
  app.add_option("--resume", options.resume,
                 "continue from a checkpoint or the newest of a folder");
  app.add_option("--log", options.log, "one JSON object per step");
  app.add_option("--trace", options.trace, "Chrome trace of what each rank did");
  app.add_option("--record", options.record, "every operation issued, in order, for pdc's checker");
  app.add_option("--timeout", options.timeout, "seconds of any wait (start-up 600, step 300)")
      ->check(CLI::PositiveNumber);
  app.add_option("--progress", options.progress, "auto, terminal, plain or none")
      ->check(CLI::IsMember({"auto", "terminal", "plain", "none"}));
  app.add_flag("--rendezvous", options.rendezvous, "block until each message is received (a test)");
  app.add_option("--delays", options.delaySeed,
                 "with --rendezvous: draw a delay before each group");
  app.add_flag("--check", options.check, "print the rows each rank holds, and end");
}

std::string findBeside(const std::string &file) {
  std::error_code ignored;
  std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int up = 0; up < 3 && !folder.empty(); ++up, folder = folder.parent_path())
    if (std::filesystem::exists(folder / file, ignored))
      return (folder / file).string();
  return "";
}

} // namespace pdc::runtime
