# Run by CPack between installing and packing: the changelog and the copyright that Debian wants, and its compression.
file(GLOB directories ${CPACK_TEMPORARY_DIRECTORY}/*${CPACK_PACKAGING_INSTALL_PREFIX}/share/doc/procfleet*)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  string(TIMESTAMP when "%a, %d %b %Y %H:%M:%S +0000" UTC)
else()
  set(when "Thu, 01 Jan 2026 00:00:00 +0000")
endif()
foreach(directory IN LISTS directories)
  get_filename_component(package ${directory} NAME)
  file(REMOVE ${directory}/LICENSE)
  file(COPY_FILE ${CPACK_PROCFLEET_COPYRIGHT} ${directory}/copyright)
  file(WRITE ${directory}/changelog
       "procfleet (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Release ${CPACK_PACKAGE_VERSION}.\n\n"
       " -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${when}\n")
  # One version of each library, with the preset's own flags: see cmake/deps.lock.
  file(WRITE ${directory}/../../lintian/overrides/${package} "${package}: embedded-library libyaml [usr/bin/${package}]\n")
  file(GLOB manuals ${directory}/../../man/man*/*.[0-9])
  execute_process(COMMAND gzip -9n -f ${directory}/changelog ${manuals} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
