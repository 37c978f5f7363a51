#include "testsuite/operators/Tape.h"

/// pdc.SelectedRows and pdc.SelectedPlaces: the first row that is selected stands for each that is
/// not.
namespace pdc::test {

static Case of(const char *op, std::vector<Tensor> inputs) {
  return {op, {}, std::move(inputs), {0}};
}

TEST(SelectedRows, OthersAreTheFirstOne) {
  Draw draw;
  const Tensor data = draw.reals({2, 3, 2});
  auto row = [&](size_t i) { return std::vector<double>{data.data[2 * i], data.data[2 * i + 1]}; };
  auto rows = [&](std::vector<size_t> chosen) {
    std::vector<double> values;
    for (size_t i : chosen)
      for (double value : row(i))
        values.push_back(value);
    return values;
  };
  const Tensor some = flags({2, 3}, {0, 1, 0, 1, 1, 0});
  const Tensor found = tapeValue(of("pdc.SelectedRows", {data, some}));
  EXPECT_EQ(found.type.shape, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(found.data, rows({1, 1, 1, 3, 4, 1}));
  const Case all = of("pdc.SelectedRows", {data, flags({2, 3}, {1, 1, 1, 1, 1, 1})});
  EXPECT_EQ(tapeValue(all).data, data.data);
  // Differences would see the copies of the first row, which have no gradient.
  checkComposedGradient(all);
  // A mask of fewer dimensions, and one of all.
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows", {data, flags({2}, {0, 1})})).data,
            rows({3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(tapeValue(of("pdc.SelectedRows",
                         {found, flags({6, 2}, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1})}))
                .type.shape,
            (std::vector<int64_t>{12}));
  EXPECT_THROW(tapeValue(of("pdc.SelectedRows", {data, flags({3}, {0, 1, 0})})), Error);
}

TEST(SelectedRows, PlacesAreThoseOfElements) {
  const Tensor found =
      tapeValue(Case{"pdc.SelectedPlaces", {}, {flags({2, 3}, {0, 0, 1, 0, 1, 0})}, {}});
  EXPECT_EQ(found.type, (TensorType{ElementType::i64, {2, 6}}));
  EXPECT_EQ(found.data, (std::vector<double>{0, 0, 0, 0, 1, 0, 2, 2, 2, 2, 1, 2}));
}

} // namespace pdc::test
