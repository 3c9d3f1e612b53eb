#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "tests/cli/cli_fixture.h"

namespace espalier::testing {

// Returns a part of a streamed answer.
v1::GenerateResponse Message(std::initializer_list<uint32_t> ids,
                             const std::string& text);

// Returns "Hello, world" in 5 tokens: 2 in the first message, 3 in the 30 ms
// after it.
FakeAnswer HelloWorld();

}  // namespace espalier::testing

namespace espalier::cli {

// `espalier generate` against a server that answers HelloWorld.
class GenerateCommand : public CliFixture {
 protected:
  GenerateCommand();
};

}  // namespace espalier::cli
