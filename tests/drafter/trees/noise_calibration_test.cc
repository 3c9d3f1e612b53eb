#include "drafter/trees/noise_calibration.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::noise_calibration_test {
namespace {

constexpr int64_t kVocab = 30;

// log-probabilities of normal logits.
std::vector<Candidate> RandomDistribution(std::mt19937_64& random,
                                          double spread) {
  std::normal_distribution<double> logit(0, spread);
  std::vector<Candidate> distribution;
  double sum = 0;
  for (TokenId token = 0; token < kVocab; ++token) {
    distribution.push_back({token, logit(random)});
    sum += std::exp(distribution.back().log_prob);
  }
  for (Candidate& c : distribution) c.log_prob -= std::log(sum);
  return distribution;
}

// Shows 400 tokens of a target whose distribution is the drafter's with an
// error.
NoiseCalibration Learned(const SamplingParams& sampling, double error) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> noise(0, error);
  NoiseCalibration calibration(std::nullopt);
  for (int64_t position = 1; position <= 400; ++position) {
    std::vector<Candidate> drafter = RandomDistribution(random, 2),
                           target = drafter;
    for (Candidate& c : target) c.log_prob += noise(random);
    const TokenId emitted = EmittedToken(sampling, position, target);
    std::sort(drafter.begin(), drafter.end(), [](const auto& a, const auto& b) {
      return a.log_prob > b.log_prob;
    });
    drafter.resize(10);
    calibration.Observe(sampling, /*depth=*/1, position, drafter, emitted);
  }
  return calibration;
}

TEST(NoiseCalibrationTest, AWeakDrafterTrustsTheNoiseLess) {
  const SamplingParams sampling = {.temperature = 1, .seed = 5};
  const auto scale = [&](double error) {
    const auto belief = Learned(sampling, error).BeliefAt(sampling, 1);
    EXPECT_FALSE(belief.sampling.greedy()) << error;
    return belief.noise_scale;
  };
  EXPECT_LT(scale(0.1), 0.5);
  EXPECT_LT(scale(0.5), scale(2.0));
}

TEST(NoiseCalibrationTest, NoiseThatSaysNothingIsLeftOut) {
  // The target draws with other noise than the drafter thinks.
  const SamplingParams sampling = {.temperature = 1, .seed = 5};
  std::mt19937_64 random(6);
  NoiseCalibration calibration(std::nullopt);
  for (int64_t position = 1; position <= 400; ++position) {
    const std::vector<Candidate> distribution = RandomDistribution(random, 2);
    calibration.Observe(
        sampling, 0, position, distribution,
        EmittedToken({.temperature = 1, .seed = 99}, position, distribution));
  }
  EXPECT_TRUE(calibration.BeliefAt(sampling, 0).sampling.greedy());
}

TEST(NoiseCalibrationTest, TemperaturesAndDepthsAreLearnedApart) {
  const SamplingParams sampling = {.temperature = 1, .seed = 5};
  const NoiseCalibration calibration = Learned(sampling, 0.1);
  EXPECT_EQ(calibration.BeliefAt(sampling, 0).noise_scale, 1);
  EXPECT_EQ(calibration.BeliefAt({.temperature = 0.5f}, 1).noise_scale, 1);
  EXPECT_NE(calibration.BeliefAt({.temperature = 1.05f}, 1).noise_scale, 1);
}

TEST(NoiseCalibrationTest, AFixedScaleStays) {
  const SamplingParams sampling = {.temperature = 1, .seed = 5};
  NoiseCalibration calibration(2.5);
  for (int64_t position = 1; position < 50; ++position) {
    calibration.Observe(sampling, 0, position, {{1, -0.1}}, 2);
  }
  EXPECT_EQ(calibration.BeliefAt(sampling, 0).noise_scale, 2.5);
}

TEST(NoiseCalibrationTest, TheOptionIsANumberAutoOrNone) {
  const auto read = [](const std::string& text) {
    const std::map<std::string, std::string> options = {{"noise_scale", text}};
    OptionReader reader("test", options);
    const std::optional<double> fixed = ReadNoiseScale(reader);
    EXPECT_EQ(reader.Finish().ok(), text != "some");
    return NoiseCalibration(fixed).BeliefAt({.temperature = 1}, 0);
  };
  EXPECT_EQ(read("0.25").noise_scale, 0.25);
  EXPECT_EQ(read("auto").noise_scale, 1);
  EXPECT_TRUE(read("none").sampling.greedy());
  read("some");
}

TEST(NoiseCalibrationTest, GreedyNeedsNone) {
  NoiseCalibration calibration(std::nullopt);
  calibration.Observe({}, 0, 3, {{1, -0.1}}, 1);
  EXPECT_TRUE(calibration.BeliefAt({}, 0).sampling.greedy());
}

}  // namespace
}  // namespace espalier::drafter::noise_calibration_test
