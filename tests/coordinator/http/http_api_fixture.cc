#include "tests/coordinator/http/http_api_fixture.h"

namespace espalier::coordinator {

HttpApiTest::HttpApiTest() {
  auto tokenizer =
      Tokenizer::Load(ESPALIER_SOURCE_DIR "/deploy/models/nanogpt-char");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  tokenizer_ = *std::move(tokenizer);
  model_ = {.name = "toy", .tokenizer = tokenizer_.get()};
  Allow({});
}

}  // namespace espalier::coordinator
