# Five Debian packages. The scripts beside this file are the packages' own; @NAME@ in them is filled in here.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME procfleet)
set(CPACK_PACKAGE_VENDOR procfleet)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL agent collector cli forward notify)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${PROCFLEET_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/debian/documents.cmake)

# What scripts share: user, state directory and unit of a service, and what a purge keeps of its state.
function(scripts name user keep)
  set(UNIT procfleet-${name}.service)
  set(USER_NAME ${user})
  set(STATE_DIR /var/lib/procfleet-${name})
  set(KEEP ${keep})
  set(GECOS "procfleet ${name}")
  set(files)
  foreach(script IN ITEMS postinst prerm postrm)
    configure_file(debian/${script}.in debian/${name}/${script} @ONLY
                   FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    list(APPEND files ${CMAKE_CURRENT_BINARY_DIR}/debian/${name}/${script})
  endforeach()
  file(CONFIGURE OUTPUT debian/${name}/conffiles CONTENT "@PROCFLEET_CONF_DIR@/${name}.yaml\n" @ONLY)
  list(APPEND files ${CMAKE_CURRENT_BINARY_DIR}/debian/${name}/conffiles)
  string(TOUPPER ${name} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${files} PARENT_SCOPE)
endfunction()
scripts(agent procfleet-agent "")
scripts(collector procfleet pki)
scripts(forward procfleet-forward "")
scripts(notify procfleet-notify "")

set(CPACK_DEBIAN_AGENT_PACKAGE_NAME procfleet-agent)
set(CPACK_DEBIAN_COLLECTOR_PACKAGE_NAME procfleet-collector)
set(CPACK_DEBIAN_CLI_PACKAGE_NAME procfleet)
set(CPACK_DEBIAN_FORWARD_PACKAGE_NAME procfleet-forward)
set(CPACK_DEBIAN_NOTIFY_PACKAGE_NAME procfleet-notify)
set(CPACK_COMPONENT_AGENT_DESCRIPTION "process telemetry of a fleet: agent
Watches every process of this host, with exact totals and lifecycle events,
and sends what it sees to a procfleet collector over mutual TLS.")
set(CPACK_COMPONENT_COLLECTOR_DESCRIPTION "process telemetry of a fleet: collector
Takes what the agents of many hosts report, keeps it in rolling stores, and
answers questions and subscriptions. It holds the authority that enrols hosts.")
set(CPACK_COMPONENT_CLI_DESCRIPTION "process telemetry of a fleet: command line
Asks a procfleet collector which process used what, when, and on which host.")
set(CPACK_COMPONENT_FORWARD_DESCRIPTION "process telemetry of a fleet: to other systems
Sends the events and the metrics of programs and hosts that a procfleet
collector receives to any server that takes OTLP over HTTP.")
set(CPACK_COMPONENT_NOTIFY_DESCRIPTION "process telemetry of a fleet: notices
Sends the notices of a procfleet collector's rules to webhooks, in its own form
or Alertmanager's, and to programs.")
foreach(upper IN ITEMS AGENT COLLECTOR CLI FORWARD NOTIFY)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION admin)
  set(CPACK_DEBIAN_${upper}_PACKAGE_PRIORITY optional)
endforeach()
foreach(upper IN ITEMS AGENT COLLECTOR FORWARD NOTIFY)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54~)")
endforeach()
set(CPACK_DEBIAN_COLLECTOR_PACKAGE_SUGGESTS procfleet)
include(debian/copyright.cmake)
set(CPACK_PROCFLEET_COPYRIGHT ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright)
include(CPack)
