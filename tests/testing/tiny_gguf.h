#ifndef ESPALIER_TESTS_TESTING_TINY_GGUF_H_
#define ESPALIER_TESTS_TESTING_TINY_GGUF_H_

#include <string>

#include "tests/testing/gguf_writer.h"
#include "tests/testing/tiny_model.h"

namespace espalier::testing {

// Returns the tiny model that a function of tiny_model.h wrote, in the way of
// llama.cpp: `architecture` llama, qwen2, qwen3, qwen3moe, gemma2 or gemma3;
// matrices bf16, those of experts as one tensor, vectors float32; and its
// tokenizer.
GgufBytes TinyGguf(const std::string& architecture, const TinyTensors& tensors);

// Returns the metadata of a tokenizer of bytes with the ChatML marks.
std::vector<std::string> TinyTokenizerPairs(const std::string& pre);

void WriteBytes(const std::string& path, const std::string& bytes);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_TINY_GGUF_H_
