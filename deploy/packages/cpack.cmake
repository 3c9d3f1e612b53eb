# Read by cpack once for each generator: the archive is unpacked anywhere, Debian
# packages belong to /usr.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
endif()
