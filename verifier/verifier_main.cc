// espalier-verifier: runs the target model behind the Verifier service.
#include "verifier/verifier_program.h"

int main(int argc, char** argv) {
  return espalier::verifier::VerifierProgram(argc, argv);
}
