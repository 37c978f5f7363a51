#include "runtime/NamedNumbers.h"

#include "runtime/Error.h"

#include <charconv>

namespace pdc::runtime {

std::string namedNumber(const std::string &name, int64_t number) {
  return name + '\0' + std::to_string(number) + '\0';
}

std::vector<std::pair<std::string, int64_t>> namedNumbers(const std::string &text, int rank) {
  std::vector<std::pair<std::string, int64_t>> result;
  std::istringstream fields(text);
  for (std::string name, number; std::getline(fields, name, '\0');) {
    int64_t value = -1;
    number.clear();
    std::getline(fields, number, '\0');
    auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (problem != std::errc() || end != number.data() + number.size() || value < 0)
      throw Error("rank ", rank, " tells '", number, "' of '", name,
                  "', expected a number; start all ranks from the same build");
    result.emplace_back(std::move(name), value);
  }
  return result;
}

std::map<std::string, int64_t>
gatherAlike(Control &control, const std::map<std::string, int64_t> &mine,
            const std::function<void(const std::string &, int, int)> &differ) {
  std::string text;
  for (const auto &[name, number] : mine)
    text += namedNumber(name, number);
  std::vector<std::string> all;
  control.gather(text, all);
  std::map<std::string, int64_t> numbers;
  std::map<std::string, int> firstRanks;
  for (int rank = 0; rank < int(all.size()); ++rank)
    for (const auto &[name, number] : namedNumbers(all[rank], rank)) {
      firstRanks.try_emplace(name, rank);
      if (numbers.try_emplace(name, number).first->second != number)
        differ(name, firstRanks[name], rank);
    }
  return numbers;
}

} // namespace pdc::runtime
