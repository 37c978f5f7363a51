#pragma once

#include "compiler/cost/Device.h"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pdc {

/// More than a century; sums and products of as many as a plan has stay finite.
inline constexpr double kMostSeconds = 4.4e9;

/// A JSON object of a user's file, read field by field. Each refusal names file and field. With a
/// fallback a field may be left out, but not null: some programs write that where they have no
/// number.
class Fields {
public:
  Fields(nlohmann::json value, std::string where);

  [[noreturn]] void refuse(const std::string &field, const std::string &text) const;

  bool has(const std::string &field) const { return find(field) != nullptr; }
  /// Refuses when the field is not there: lists may be left out otherwise.
  void expect(const std::string &field) const;
  /// Refuses any other: a word that is misspelt would count for nothing.
  void expectOnly(std::initializer_list<std::string_view> fields) const;
  double number(const std::string &field, std::optional<double> fallback = {}) const;
  double seconds(const std::string &field, double fallback) const;
  int64_t integer(const std::string &field, int64_t least, int64_t most,
                  std::optional<int64_t> fallback = {}) const;
  bool boolean(const std::string &field, bool fallback) const;
  std::string string(const std::string &field, std::optional<std::string> fallback = {}) const;
  Fields object(const std::string &field) const;
  std::vector<Fields> list(const std::string &field) const;
  std::vector<std::string> strings(const std::string &field) const;
  std::vector<int> integers(const std::string &field, int64_t least, int64_t most) const;
  std::vector<int64_t> wholeNumbers(const std::string &field, int64_t least, int64_t most) const;

  const nlohmann::json &json() const { return value; }

private:
  const nlohmann::json *find(const std::string &field) const;
  const nlohmann::json &array(const std::string &field) const;

  nlohmann::json value;
  std::string where; ///< file and path, such as "plan.json: stages[1]."
};

/// A field by which seconds grow, such as `slowdown`: 1 where it is left out.
double toSlowdown(const Fields &fields, const char *name);

/// A device with a row in the table of peaks; "" stands for none.
std::string toDevice(const Fields &fields, std::optional<std::string> fallback = {});

/// One that kernels of the device compute in; fp32 where there is none.
Precision toPrecision(const Fields &fields, const std::string &field, const std::string &device);

struct Topology;
/// The topology that an object describes, in a file of its own or inside of another.
Topology toTopology(const Fields &fields);

/// Throws pdc::Error unless the text is one JSON object, nested no deeper than any file of pdc's.
Fields parseFields(std::string_view text, const std::string &file);

} // namespace pdc
