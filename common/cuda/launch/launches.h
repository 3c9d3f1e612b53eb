// The table of launches: one for each kernel's arguments. The files beside this
// define them, once for each compiler.
#ifndef ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHES_H_
#define ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHES_H_

#include <variant>

#include "common/cuda/kernel_args.h"
#include "common/cuda/launch/launcher.h"

namespace espalier::cuda {

void Launch(const Launcher& launcher, const EmbedArgs& args);
void Launch(const Launcher& launcher, const ResidualNormArgs& args);
void Launch(const Launcher& launcher, const TakeRowsArgs& args);
void Launch(const Launcher& launcher, const ProductArgs& args);
void Launch(const Launcher& launcher, const PrepareArgs& args);
void Launch(const Launcher& launcher, const AttendArgs& args);
void Launch(const Launcher& launcher, const KeepArgs& args);
void Launch(const Launcher& launcher, const GatherTapsArgs& args);
void Launch(const Launcher& launcher, const DrawArgs& args);
void Launch(const Launcher& launcher, const FilterArgs& args);
void Launch(const Launcher& launcher, const PerturbArgs& args);
void Launch(const Launcher& launcher, const RankArgs& args);
void Launch(const Launcher& launcher, const GatherArgs& args);
void Launch(const Launcher& launcher, const RandomWeightsArgs& args);
void Launch(const Launcher& launcher, const ReadArgs& args);
void Launch(const Launcher& launcher, const RouteArgs& args);
void Launch(const Launcher& launcher, const GroupRowsArgs& args);
void Launch(const Launcher& launcher, const PlaceRowsArgs& args);
void Launch(const Launcher& launcher, const ExpertProductArgs& args);
void Launch(const Launcher& launcher, const ChainArgs& args);
void Launch(const Launcher& launcher, const MailArgs& args);
void Launch(const Launcher& launcher, const LayerChainArgs& args);

inline void LaunchKernel(const Launcher& launcher, const KernelArgs& args) {
  std::visit([&](const auto& of_kernel) { Launch(launcher, of_kernel); }, args);
}

}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_LAUNCH_LAUNCHES_H_
