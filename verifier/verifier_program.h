#ifndef ESPALIER_VERIFIER_VERIFIER_PROGRAM_H_
#define ESPALIER_VERIFIER_VERIFIER_PROGRAM_H_

namespace espalier::verifier {

// All that main() of espalier-verifier does. Compiled with the server, whose
// headers take long to compile. Returns the exit status.
int VerifierProgram(int argc, const char* const* argv);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_VERIFIER_PROGRAM_H_
