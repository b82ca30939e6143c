# Every library in one version, from a tarball pinned by its hash (deps.lock), built with the preset's own flags.
include(FetchContent)
set(DEPS_DIR "$ENV{DEPS_DIR}" CACHE PATH "directory with the dependency tarballs (scripts/install-deps fills it)")
if(NOT DEPS_DIR)
  set(DEPS_DIR "${CMAKE_SOURCE_DIR}/.cache/deps")
endif()

file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/deps.lock lock_lines REGEX "^[a-z]")
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/deps.lock)

# Declares the dependency `name` from its rows in deps.lock: the first whose file is in DEPS_DIR, else the first upstream.
function(dep name)
  set(source)
  foreach(line IN LISTS lock_lines)
    string(REPLACE " " ";" row "${line}")
    list(GET row 0 row_name)
    list(GET row 2 file)
    if(NOT row_name STREQUAL name)
      continue()
    endif()
    list(GET row 5 url)
    if(EXISTS "${DEPS_DIR}/${file}")
      set(source "${DEPS_DIR}/${file}")
      list(GET row 3 hash)
      break()
    endif()
    if(NOT source AND NOT url STREQUAL "-")
      set(source ${url})
      list(GET row 3 hash)
    endif()
  endforeach()
  if(NOT source)
    message(FATAL_ERROR "cmake/deps.lock has no way to get ${name}")
  endif()
  if(source MATCHES "^http")
    message(STATUS "${name} is not in ${DEPS_DIR} (scripts/install-deps puts it there): downloading ${source}")
  endif()
  FetchContent_Declare(${name} URL ${source} URL_HASH SHA256=${hash} DOWNLOAD_EXTRACT_TIMESTAMP OFF ${ARGN})
endfunction()

# A library whose own build is not used: the sources that match, with one include directory.
function(source_lib name include)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  add_library(${name} STATIC ${files})
  target_include_directories(${name} SYSTEM PUBLIC ${include})
endfunction()

set(apply_patches ${CMAKE_SOURCE_DIR}/cmake/apply-patches.cmake)

# A dependency that we change: unpacked afresh when the changes in cmake/patches/NAME do.
function(dep_patched name)
  set(dir ${CMAKE_SOURCE_DIR}/cmake/patches/${name})
  file(GLOB files CONFIGURE_DEPENDS ${dir}/*.patch)
  set(all "")
  foreach(file ${files} ${apply_patches})
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(SHA256 ${file} hash)
    string(APPEND all ${hash})
  endforeach()
  string(SHA256 all "${all}")
  string(SUBSTRING ${all} 0 8 all)
  dep(${name} PATCH_COMMAND ${CMAKE_COMMAND} -DPATCHES=${dir} -P ${apply_patches}
      SOURCE_DIR ${CMAKE_BINARY_DIR}/_deps/${name}-${all}-src ${ARGN})
endfunction()

dep_patched(mbedtls)
dep_patched(nng)
dep(jansson)
dep(protobufc SOURCE_SUBDIR none) # no such folder: fetched, not configured
dep(zstd SOURCE_SUBDIR none)
dep(libyaml SOURCE_SUBDIR none)
dep_patched(libmicrohttpd SOURCE_SUBDIR none)
if(NOT WIN32) # its AES-GCM; on Windows mbedTLS's own serves
  dep(libsodium SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(libsodium)
endif()

foreach(v ENABLE_PROGRAMS ENABLE_TESTING USE_SHARED_MBEDTLS_LIBRARY MBEDTLS_FATAL_WARNINGS BUILD_SHARED_LIBS NNG_TESTS
          NNG_TOOLS DISABLE_PACKAGE_CONFIG_AND_INSTALL JANSSON_EXAMPLES JANSSON_BUILD_DOCS JANSSON_INSTALL)
  set(${v} OFF CACHE BOOL "" FORCE)
endforeach()
set(NNG_ENABLE_TLS ON CACHE BOOL "" FORCE)
set(NNG_TLS_ENGINE mbed CACHE STRING "" FORCE)
set(JANSSON_WITHOUT_TESTS ON CACHE BOOL "" FORCE)
# We speak TLS over TCP only; NNG links every transport that is on, 76 KB of them.
foreach(v NNG_TRANSPORT_INPROC NNG_TRANSPORT_IPC NNG_TRANSPORT_WS NNG_TRANSPORT_WSS NNG_ENABLE_HTTP)
  set(${v} OFF CACHE BOOL "" FORCE)
endforeach()

FetchContent_MakeAvailable(mbedtls nng jansson protobufc zstd libyaml libmicrohttpd) # order matters: NNG finds the mbedTLS targets
foreach(dir ${mbedtls_SOURCE_DIR} ${nng_SOURCE_DIR} ${jansson_SOURCE_DIR}) # they are in our programs: not installed
  set_property(DIRECTORY ${dir} PROPERTY EXCLUDE_FROM_ALL ON)
endforeach()
foreach(lib mbedtls mbedx509 mbedcrypto) # its headers ask for macros that its own configuration takes away
  get_target_property(dirs ${lib} INTERFACE_INCLUDE_DIRECTORIES)
  set_property(TARGET ${lib} PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${dirs})
endforeach()
target_compile_definitions(mbedcrypto PUBLIC MBEDTLS_USER_CONFIG_FILE="cmake/mbedtls_user_config.h")
target_include_directories(mbedcrypto PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                             $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/cmake>) # gcm_alt.h, threading_alt.h
target_sources(mbedcrypto PRIVATE ${CMAKE_SOURCE_DIR}/common/tls/mbedtls_random.c)
target_include_directories(mbedcrypto PRIVATE ${mbedtls_SOURCE_DIR}/library) # what our files in it need
if(NOT WIN32)
  set(s ${libsodium_SOURCE_DIR}/src/libsodium)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${s}/*.c)
  list(FILTER files EXCLUDE REGEX "/version\\.c$") # its header is made by the library's own build
  source_lib(sodium ${s}/include ${files})
  target_include_directories(sodium PRIVATE ${s}/include/sodium)
  target_compile_definitions(sodium PUBLIC SODIUM_STATIC=1 PRIVATE
    _GNU_SOURCE=1 HAVE_PTHREAD=1 HAVE_TI_MODE=1 HAVE_C_VARARRAYS=1 HAVE_ATOMIC_OPS=1 HAVE_WEAK_SYMBOLS=1
    HAVE_SYS_MMAN_H=1 HAVE_MMAP=1 HAVE_MLOCK=1 HAVE_MADVISE=1 HAVE_MPROTECT=1 HAVE_POSIX_MEMALIGN=1 HAVE_GETPID=1
    HAVE_NANOSLEEP=1 HAVE_EXPLICIT_BZERO=1 HAVE_SYS_RANDOM_H=1 HAVE_GETRANDOM=1 HAVE_SYS_AUXV_H=1 HAVE_GETAUXVAL=1)
  if(CMAKE_C_BYTE_ORDER STREQUAL LITTLE_ENDIAN)
    target_compile_definitions(sodium PRIVATE NATIVE_LITTLE_ENDIAN=1)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_compile_definitions(sodium PRIVATE HAVE_CPUID=1 HAVE_EMMINTRIN_H=1 HAVE_PMMINTRIN_H=1 HAVE_TMMINTRIN_H=1
                                              HAVE_SMMINTRIN_H=1 HAVE_AVXINTRIN_H=1 HAVE_WMMINTRIN_H=1)
    # How it asks whether the system keeps AVX registers; elsewhere the macro asks for its assembler files.
    set_source_files_properties(${s}/sodium/runtime.c PROPERTIES COMPILE_DEFINITIONS HAVE_AVX_ASM=1)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
    target_compile_definitions(sodium PRIVATE HAVE_ARMCRYPTO=1)
  endif()
  # mbedTLS calls libsodium's AES-GCM where the processor has the instructions, its own code otherwise; and its X25519.
  set(dir ${CMAKE_SOURCE_DIR}/common/tls)
  target_sources(mbedcrypto PRIVATE ${dir}/mbedtls_gcm.c ${dir}/mbedtls_gcm_plain.c ${dir}/mbedtls_x25519.c
                                    ${dir}/mbedtls_clock.c $<TARGET_OBJECTS:sodium>)
  target_include_directories(mbedcrypto PRIVATE ${s}/include)
  target_compile_definitions(mbedcrypto PUBLIC PROCFLEET_FAST_GCM=1 PRIVATE PROCFLEET_FAST_X25519=1 SODIUM_STATIC=1)
endif()
target_include_directories(jansson SYSTEM PUBLIC ${jansson_BINARY_DIR}/include)

source_lib(protobuf-c ${protobufc_SOURCE_DIR} ${protobufc_SOURCE_DIR}/protobuf-c/protobuf-c.c)

set(z ${zstd_SOURCE_DIR}/lib)
source_lib(zstd ${z} ${z}/common/*.c ${z}/compress/*.c ${z}/decompress/*.c)
target_compile_definitions(zstd PRIVATE ZSTD_DISABLE_ASM=1)
if(WIN32) # batches are some 100 KiB each: a smaller program is worth more than speed here
  target_compile_definitions(zstd PRIVATE ZSTD_NO_INLINE=1 HUF_FORCE_DECOMPRESS_X1=1
                                          ZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT=1)
endif()

source_lib(yaml ${libyaml_SOURCE_DIR}/include ${libyaml_SOURCE_DIR}/src/*.c)
target_compile_definitions(yaml PUBLIC YAML_DECLARE_STATIC PRIVATE YAML_VERSION_MAJOR=0 YAML_VERSION_MINOR=2
                                YAML_VERSION_PATCH=5 YAML_VERSION_STRING="0.2.5")

set(m ${libmicrohttpd_SOURCE_DIR}/src)
set(files)
foreach(name connection daemon internal memorypool mhd_compat mhd_itc mhd_mono_clock mhd_send mhd_sockets mhd_str mhd_threads
             reason_phrase response sysfdsetsize tsearch)
  list(APPEND files ${m}/microhttpd/${name}.c)
endforeach()
source_lib(microhttpd ${m}/include ${files})
target_include_directories(microhttpd PRIVATE ${CMAKE_SOURCE_DIR}/cmake) # MHD_config.h
if(WIN32)
  target_compile_definitions(microhttpd PRIVATE WINDOWS=1 MINGW=1 HAVE_WINSOCK2_H=1 HAVE_WS2TCPIP_H=1 MHD_USE_W32_THREADS=1
                                                _MHD_ITC_SOCKETPAIR=1 FD_SETSIZE=256 _WIN32_WINNT=0x0A00)
  target_link_libraries(microhttpd PUBLIC ws2_32)
else()
  target_compile_definitions(microhttpd PRIVATE
    _GNU_SOURCE=1 LINUX=1 HAVE_ACCEPT4=1 HAVE_ARPA_INET_H=1 HAVE_ENDIAN_H=1
    HAVE_LISTEN_SHUTDOWN=1 HAVE_NETDB_H=1 HAVE_NETINET_IN_H=1 HAVE_NETINET_IP_H=1 HAVE_NETINET_TCP_H=1 HAVE_NET_IF_H=1
    HAVE_POLL=1 HAVE_POLL_H=1 HAVE_PTHREAD_H=1 HAVE_SEARCH_H=1 HAVE_SENDMSG=1 HAVE_SIGNAL_H=1 HAVE_SOCK_NONBLOCK=1
    HAVE_STRINGS_H=1 HAVE_SYSCONF=1 HAVE_SYS_EVENTFD_H=1 HAVE_SYS_IOCTL_H=1 HAVE_SYS_SELECT_H=1 HAVE_SYS_SOCKET_H=1
    HAVE_SYS_STAT_H=1 HAVE_SYS_TIME_H=1 HAVE_UNISTD_H=1 HAVE_WRITEV=1 HAVE_TSEARCH=1 MHD_USE_POSIX_THREADS=1
    _MHD_ITC_EVENTFD=1)
endif()

if(WIN32) # on Linux the package serves
  dep(cmocka SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(cmocka)
  source_lib(cmocka ${cmocka_SOURCE_DIR}/include ${cmocka_SOURCE_DIR}/src/cmocka.c)
  include_directories(SYSTEM ${DEPS_DIR}/include) # xxHash, uthash
endif()

foreach(lib protobuf-c zstd yaml jansson microhttpd sodium)
  if(TARGET ${lib})
    target_compile_options(${lib} PRIVATE -w)
  endif()
endforeach()
# protobuf-c shifts bytes into the sign bit, and copies nothing from NULL and adds nothing to it; none does harm.
target_compile_options(protobuf-c PRIVATE -fno-sanitize=shift,nonnull-attribute,pointer-overflow)
# zstd adds offsets of a dictionary to NULL, for addresses it only prefetches.
target_compile_options(zstd PRIVATE -fno-sanitize=pointer-overflow)
# libmicrohttpd asks another thread to stop by a plain flag.
target_compile_options(microhttpd PRIVATE -fno-sanitize=thread)
