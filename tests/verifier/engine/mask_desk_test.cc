#include "verifier/engine/mask_desk.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A masker whose answers the test gives.
class HeldMasker final : public TreeMasker {
 public:
  void Mask(Request request, Done<MaskedTree> done) override {
    requests.push_back(std::move(request));
    answers.push_back(std::move(done));
  }
  void Forget(SequenceId sequence) override { forgotten.push_back(sequence); }
  void Stop() override { stopped = true; }

  std::vector<Request> requests;
  std::vector<Done<MaskedTree>> answers;
  std::vector<SequenceId> forgotten;
  bool stopped = false;
};

class MaskDeskTest : public ::testing::Test {
 protected:
  MaskDeskTest() {
    Registry<VerificationRule> registry("rule");
    RegisterVerificationRules(registry);
    rules_[kDefaultRule] = *registry.Create(kDefaultRule);
  }

  // Asks for the masks of a request of sequence 1, which adds `added` to the
  // tokens from `base` on.
  std::shared_ptr<absl::Status> Ask(std::vector<TokenId> held, int64_t base,
                                    std::vector<TokenId> added,
                                    int64_t prompt) {
    auto status = std::make_shared<absl::Status>();
    auto job = std::make_unique<Job>();
    job->request.update = {
        .sequence = {1, 1}, .base_length = base, .new_tokens = added};
    job->request.tree = TokenTree::RootOnly(added.back());
    job->request.adjustments.prompt_length = prompt;
    job->rule = &*rules_.begin();
    job->done = [status](absl::StatusOr<VerifyResult> result) {
      *status = result.status();
    };
    desk_.Ask(std::move(job), held);
    return status;
  }
  void AnswerMasks(size_t i) {
    std::move(masker_->answers[i])(
        MaskedTree{.tree = masker_->requests[i].tree, .nodes = {0}});
    executor_.RunUntilIdle();
  }

  FakeExecutor executor_;
  Rules rules_;
  std::shared_ptr<HeldMasker> masker_ = std::make_shared<HeldMasker>();
  std::vector<std::unique_ptr<Job>> masked_;
  MaskDesk desk_{masker_, executor_, [this](std::unique_ptr<Job> job) {
                   masked_.push_back(std::move(job));
                 }};
};

TEST_F(MaskDeskTest, TheMaskerSeesWhatFollowsThePrompt) {
  Ask({1, 2, 3, 4}, 3, {8, 9}, 2);
  Ask({}, 0, {1, 2}, 2);
  EXPECT_THAT(masker_->requests[0].output, ElementsAre(3, 8, 9));
  EXPECT_THAT(masker_->requests[1].output, IsEmpty());
}

TEST_F(MaskDeskTest, ARequestComesBackWithItsMasks) {
  Ask({}, 0, {1}, 1);
  AnswerMasks(0);
  ASSERT_EQ(masked_.size(), 1);
  EXPECT_TRUE(masked_[0]->masked.has_value());
}

TEST_F(MaskDeskTest, ALaterRequestReplacesTheWaitingOne) {
  const auto first = Ask({}, 0, {1}, 1);
  Ask({}, 0, {1}, 1);
  AnswerMasks(0);
  EXPECT_TRUE(absl::IsCancelled(*first));
  EXPECT_THAT(masked_, IsEmpty());
  AnswerMasks(1);
  EXPECT_EQ(masked_.size(), 1);
}

// The masker made a place for it after it was told to forget.
TEST_F(MaskDeskTest, ASequenceThatEndsMeanwhileIsForgottenAgain) {
  const auto reply = Ask({}, 0, {1}, 1);
  desk_.Forget({1, 1});
  AnswerMasks(0);
  EXPECT_TRUE(absl::IsCancelled(*reply));
  EXPECT_THAT(masker_->forgotten,
              ElementsAre(SequenceId{1, 1}, SequenceId{1, 1}));
}

TEST_F(MaskDeskTest, AnErrorIsTheAnswer) {
  const auto reply = Ask({}, 0, {1}, 1);
  std::move(masker_->answers[0])(absl::InvalidArgumentError("no grammar"));
  executor_.RunUntilIdle();
  EXPECT_EQ(reply->message(), "no grammar");
  EXPECT_THAT(masked_, IsEmpty());
}

TEST(EmptyMaskDeskTest, WithoutAMaskerThereAreNoGrammars) {
  FakeExecutor executor;
  MaskDesk desk(nullptr, executor, [](std::unique_ptr<Job>) {});
  EXPECT_FALSE(desk.has_grammars());
  desk.Forget({1, 1});
  desk.Stop();
}

}  // namespace
}  // namespace espalier::verifier
