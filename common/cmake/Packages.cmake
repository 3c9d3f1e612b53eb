# What `cmake --install` installs beside the programs, and what deploy/package.sh
# makes packages of. A component is a Debian package: `espalier` (the command and
# the coordinator), `verifier` and `drafter`.
set(packages ${CMAKE_SOURCE_DIR}/deploy/packages)
file(READ ${packages}/systemd/sandbox.conf sandbox)

install(DIRECTORY deploy/config deploy/suites deploy/prometheus
    DESTINATION share/espalier COMPONENT espalier)
install(DIRECTORY proto/espalier DESTINATION share/espalier/proto COMPONENT espalier)
install(DIRECTORY deploy/drafters DESTINATION share/espalier COMPONENT drafter)

# Man pages and completion are made from the programs' own help. Optional: the
# target `documents` runs the programs, and a build may be without it.
set(documents ${CMAKE_BINARY_DIR}/documents)
find_program(PYTHON3_PROGRAM python3)
if(PYTHON3_PROGRAM)
  add_custom_target(documents
      COMMAND ${PYTHON3_PROGRAM} ${CMAKE_SOURCE_DIR}/deploy/lib/make_documents.py
          ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${documents}
      DEPENDS espalier espalier-coordinator espalier-verifier espalier-drafter
      VERBATIM)
endif()

# What goes to places of the system, so only into Debian packages: EXCLUDE_FROM_ALL.
function(_espalier_package component)
  cmake_parse_arguments(ARG "" "NAME;SUMMARY" "CONFIG;SYSTEMD" ${ARGN})
  # As patterns: a template's instances.
  string(REPLACE "@." "@*." units "${ARG_SYSTEMD}")
  string(REPLACE ";" "' '" units "'${units}'")
  string(TOUPPER ${component} upper)
  set(scripts ${CMAKE_BINARY_DIR}/packages/${component})
  set(control ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm)
  foreach(script IN ITEMS postinst prerm postrm)
    configure_file(${packages}/scripts/${script}.in ${scripts}/${script} @ONLY
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
            GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endforeach()
  foreach(file IN LISTS ARG_CONFIG)
    get_filename_component(folder /etc/espalier/${file} DIRECTORY)
    install(FILES ${packages}/config/${file} DESTINATION ${folder}
        COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  list(TRANSFORM ARG_CONFIG PREPEND /etc/espalier/ OUTPUT_VARIABLE conffiles)
  list(JOIN conffiles "\n" conffiles)
  file(WRITE ${scripts}/conffiles "${conffiles}\n")
  foreach(unit IN LISTS ARG_SYSTEMD)
    configure_file(${packages}/systemd/${unit}.in ${scripts}/${unit} @ONLY)
  endforeach()
  list(TRANSFORM ARG_SYSTEMD PREPEND ${scripts}/)
  install(FILES ${ARG_SYSTEMD} DESTINATION /lib/systemd/system
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES LICENSE DESTINATION /usr/share/doc/${ARG_NAME} RENAME copyright
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(DIRECTORY DESTINATION /var/lib/espalier/models
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(DIRECTORY ${documents}/${component}/ DESTINATION share
      COMPONENT ${component} OPTIONAL)
  # The licences of what is compiled in.
  if(ESPALIER_XGRAMMAR)
    install(FILES ${ESPALIER_XGRAMMAR}/LICENSE ${ESPALIER_XGRAMMAR}/NOTICE
        DESTINATION share/doc/${ARG_NAME}/xgrammar COMPONENT ${component} OPTIONAL)
  endif()
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${ARG_NAME} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION ${ARG_SUMMARY} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control} ${scripts}/conffiles
      PARENT_SCOPE)
endfunction()

_espalier_package(espalier
    NAME espalier
    SUMMARY "lossless speculative decoding: command and coordinator"
    CONFIG serve.textproto coordinator.textproto
    SYSTEMD espalier.service espalier-coordinator.service)
_espalier_package(verifier
    NAME espalier-verifier
    SUMMARY "lossless speculative decoding: service of the target model"
    CONFIG verifier.textproto
    SYSTEMD espalier-verifier.service)
_espalier_package(drafter
    NAME espalier-drafter
    SUMMARY "lossless speculative decoding: service of a drafter"
    CONFIG drafters/lookup.textproto drafters/grammar.textproto
    SYSTEMD espalier-drafter@.service)

# Packages are made of what is built: cpack builds nothing more.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_PACKAGE_NAME espalier)
set(CPACK_PACKAGE_VENDOR Espalier)
set(CPACK_PACKAGE_CONTACT "Espalier <espalier@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Lossless speculative decoding over gRPC")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_GENERATOR TGZ DEB)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_SYSTEM_NAME ${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_COMPONENTS_ALL espalier verifier drafter)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX "")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_PROJECT_CONFIG_FILE ${packages}/cpack.cmake)
include(CPack)
