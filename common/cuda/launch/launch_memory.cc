// Launches of what makes, reads or copies memory.
#include "common/cuda/kernels/carry_mail.h"
#include "common/cuda/kernels/random_weights.h"
#include "common/cuda/kernels/read.h"
#include "common/cuda/launch/launches.h"

namespace espalier::cuda {

void Launch(const Launcher& launcher, const RandomWeightsArgs& args) {
  launcher.Run<&RandomWeights>({.kernel = "RandomWeights",
                                .grid_x = static_cast<unsigned>(args.outputs),
                                .threads = kRandomThreads},
                               args);
}

void Launch(const Launcher& launcher, const ReadArgs& args) {
  launcher.Run<&Read>({.kernel = "Read",
                       .grid_x = kReadSums / kReadThreads,
                       .threads = kReadThreads},
                      args);
}

void Launch(const Launcher& launcher, const MailArgs& args) {
  launcher.Run<&CarryMail>({.kernel = "CarryMail", .threads = kMailThreads},
                           args);
}

}  // namespace espalier::cuda
