#include "runtime/RankPlace.h"

#include "runtime/Error.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

namespace pdc::runtime {

static std::optional<int> numberFrom(std::initializer_list<const char *> variables) {
  for (const char *variable : variables)
    if (const char *text = std::getenv(variable)) {
      int value = 0;
      const char *end = text + std::strlen(text);
      auto [rest, problem] = std::from_chars(text, end, value);
      if (problem != std::errc() || rest != end || value < 0)
        throw Error(variable, " is '", text, "', expected a number");
      return value;
    }
  return std::nullopt;
}

/// The first that is set says how many ranks there are.
static constexpr std::initializer_list<const char *> kSizes = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                                               "SLURM_NTASKS"};

bool isOneOfSeveral() {
  const auto *first =
      std::ranges::find_if(kSizes, [](const char *size) { return std::getenv(size); });
  return first != kSizes.end() && std::string_view(std::getenv(*first)) != "1";
}

std::optional<RankPlace> placeFromEnvironment() {
  std::optional<int> rank = numberFrom({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"});
  std::optional<int> ranks = numberFrom(kSizes);
  std::optional<int> local =
      numberFrom({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"});
  if (!rank || !ranks)
    return std::nullopt;
  return RankPlace{*rank, *ranks, local.value_or(*rank)};
}

} // namespace pdc::runtime
