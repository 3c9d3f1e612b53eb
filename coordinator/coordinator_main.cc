// espalier-coordinator: serves the client API. Drafters and the verifier are
// services of their own.
#include "coordinator/coordinator_program.h"

int main(int argc, char** argv) {
  return espalier::coordinator::CoordinatorProgram(argc, argv);
}
