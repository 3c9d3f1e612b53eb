// check and info.
#include <string>

#include "gmock/gmock.h"
#include "tests/coordinator/cli/cli_fixture.h"

namespace espalier::cli {
namespace {

using ::testing::HasSubstr;

class CheckCommand : public CliFixture {};
class InfoCommand : public CliFixture {};

TEST_F(CheckCommand, ServingIsExit0) {
  const CliResult result = Run({"check", server_.address()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "SERVING\n");
  EXPECT_EQ(Run({"check"}).code, 0);  // the default address
}

TEST_F(CheckCommand, NotServingIsExit1) {
  server_.SetServing(false);
  const CliResult result = Run({"check", server_.address()});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("NOT_SERVING at " + server_.address()));
}

TEST_F(CheckCommand, AsksForTheServiceByName) {
  EXPECT_EQ(Run({"check", "--service", "espalier.v1.Inference"}).code, 0);
  const CliResult result = Run({"check", "--service", "espalier.v1.Nothing"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("NOT_FOUND"));
}

TEST_F(CheckCommand, NobodyThereIsExit1) {
  const std::string address = "unix:" + (folder_ / "nobody.sock").string();
  EXPECT_EQ(Run({"check", address, "--timeout", "1"}).code, 1);
}

TEST_F(CheckCommand, WhatIsNoAddressIsExit2) {
  const CliResult result = Run({"check", "nowhere"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("\"nowhere\" is not an address"));
}

TEST_F(InfoCommand, PrintsServerPeersLoadAndModel) {
  const CliResult result = Run({"info"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* line : {
           "version     9.8.7, protocol 0, since ",
           "verifier    ready (cpu)\n",
           "drafter     bigram refused (another tokenizer) at "
           "unix:/run/bigram\n",
           "forward     ms by rows: 8: 6.40\n",
           "memory      K/V of 320 of 8192 tokens in use, 64 cached; 71.5 of "
           "80.0 GiB of the GPU in use\n",
           "load        3 of 16 running, 0 of 64 queued\n",
           "model       toy\n",
           "vocabulary  300 tokens, fingerprint 0000000000000abc\n",
           "context     64 tokens\n",
           "drafters    lookup, bigram\n",
       }) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

TEST_F(InfoCommand, SaysWhoIsMissingWhenThereIsNoModelYet) {
  server_.SetModelInfoStatus({grpc::StatusCode::UNAVAILABLE, "no verifier"});
  const CliResult result = Run({"info", "--address", server_.address()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("load "));
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE: no verifier"));
}

}  // namespace
}  // namespace espalier::cli
