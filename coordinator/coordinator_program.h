#ifndef ESPALIER_COORDINATOR_COORDINATOR_PROGRAM_H_
#define ESPALIER_COORDINATOR_COORDINATOR_PROGRAM_H_

namespace espalier::coordinator {

// All that main() of espalier-coordinator does. Compiled with the server, whose
// headers take long to compile. Returns the exit status.
int CoordinatorProgram(int argc, const char* const* argv);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_COORDINATOR_PROGRAM_H_
