#include "tests/coordinator/http/http_api_fixture.h"

#include "tests/testing/source_path.h"

namespace espalier::coordinator {

HttpApiTest::HttpApiTest() {
  auto tokenizer = Tokenizer::Load(SourcePath("deploy/models/nanogpt-char"));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  tokenizer_ = *std::move(tokenizer);
  model_ = {.name = "toy", .tokenizer = tokenizer_.get()};
  Allow({});
}

}  // namespace espalier::coordinator
