// ESPALIER_CHECK is for broken invariants of our own code. Errors that a
// request, a file or a peer can cause are an absl::Status instead.
#ifndef ESPALIER_COMMON_BASE_CHECK_H_
#define ESPALIER_COMMON_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define ESPALIER_CHECK(condition)                                           \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, \
                   #condition);                                             \
      std::abort();                                                         \
    }                                                                       \
  } while (false)

#endif  // ESPALIER_COMMON_BASE_CHECK_H_
