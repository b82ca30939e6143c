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

dep(mbedtls)
# NNG is unpacked afresh when the changes to it change.
set(nng_patches ${CMAKE_SOURCE_DIR}/cmake/patches/nng)
set(apply_patches ${CMAKE_SOURCE_DIR}/cmake/apply-patches.cmake)
file(GLOB nng_patch_files CONFIGURE_DEPENDS ${nng_patches}/*.patch)
set(nng_patch_hash "")
foreach(file ${nng_patch_files} ${apply_patches})
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(SHA256 ${file} hash)
  string(APPEND nng_patch_hash ${hash})
endforeach()
string(SHA256 nng_patch_hash "${nng_patch_hash}")
string(SUBSTRING ${nng_patch_hash} 0 8 nng_patch_hash)
dep(nng PATCH_COMMAND ${CMAKE_COMMAND} -DPATCHES=${nng_patches} -P ${apply_patches}
    SOURCE_DIR ${CMAKE_BINARY_DIR}/_deps/nng-${nng_patch_hash}-src)
dep(jansson)
dep(protobufc SOURCE_SUBDIR none) # no such folder: fetched, not configured
dep(zstd SOURCE_SUBDIR none)
dep(libyaml SOURCE_SUBDIR none)

foreach(v ENABLE_PROGRAMS ENABLE_TESTING USE_SHARED_MBEDTLS_LIBRARY MBEDTLS_FATAL_WARNINGS BUILD_SHARED_LIBS NNG_TESTS
          NNG_TOOLS DISABLE_PACKAGE_CONFIG_AND_INSTALL JANSSON_EXAMPLES JANSSON_BUILD_DOCS JANSSON_INSTALL)
  set(${v} OFF CACHE BOOL "" FORCE)
endforeach()
set(NNG_ENABLE_TLS ON CACHE BOOL "" FORCE)
set(NNG_TLS_ENGINE mbed CACHE STRING "" FORCE)
set(JANSSON_WITHOUT_TESTS ON CACHE BOOL "" FORCE)
if(WIN32) # agent and command line speak TLS over TCP only; NNG links every transport that is on, 76 KB of them
  foreach(v NNG_TRANSPORT_INPROC NNG_TRANSPORT_IPC NNG_TRANSPORT_WS NNG_TRANSPORT_WSS NNG_ENABLE_HTTP)
    set(${v} OFF CACHE BOOL "" FORCE)
  endforeach()
endif()

FetchContent_MakeAvailable(mbedtls nng jansson protobufc zstd libyaml) # order matters: NNG finds the mbedTLS targets
foreach(dir ${mbedtls_SOURCE_DIR} ${nng_SOURCE_DIR} ${jansson_SOURCE_DIR}) # they are in our programs: not installed
  set_property(DIRECTORY ${dir} PROPERTY EXCLUDE_FROM_ALL ON)
endforeach()
foreach(lib mbedtls mbedx509 mbedcrypto) # its headers ask for macros that its own configuration takes away
  get_target_property(dirs ${lib} INTERFACE_INCLUDE_DIRECTORIES)
  set_property(TARGET ${lib} PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${dirs})
endforeach()
target_compile_definitions(mbedcrypto PUBLIC MBEDTLS_USER_CONFIG_FILE="cmake/mbedtls_user_config.h")
target_include_directories(mbedcrypto PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
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

if(WIN32) # on Linux the package serves
  dep(cmocka SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(cmocka)
  source_lib(cmocka ${cmocka_SOURCE_DIR}/include ${cmocka_SOURCE_DIR}/src/cmocka.c)
  include_directories(SYSTEM ${DEPS_DIR}/include) # xxHash, uthash
endif()

foreach(lib protobuf-c zstd yaml jansson)
  target_compile_options(${lib} PRIVATE -w)
endforeach()
# protobuf-c shifts bytes into the sign bit, and copies nothing from NULL and adds nothing to it; none does harm.
target_compile_options(protobuf-c PRIVATE -fno-sanitize=shift,nonnull-attribute,pointer-overflow)
# zstd adds offsets of a dictionary to NULL, for addresses it only prefetches.
target_compile_options(zstd PRIVATE -fno-sanitize=pointer-overflow)
