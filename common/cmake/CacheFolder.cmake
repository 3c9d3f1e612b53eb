# ESPALIER_CACHE_FOLDER: where deploy/setup.sh puts what it downloads. The rule
# is that of deploy/lib/paths.sh: keep them the same.
if(NOT "$ENV{ESPALIER_CACHE}" STREQUAL "")
  set(ESPALIER_CACHE_FOLDER $ENV{ESPALIER_CACHE})
elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(ESPALIER_CACHE_FOLDER $ENV{XDG_CACHE_HOME}/espalier)
else()
  set(ESPALIER_CACHE_FOLDER $ENV{HOME}/.cache/espalier)
endif()
