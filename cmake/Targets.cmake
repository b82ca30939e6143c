# What our own targets have in common; dependencies keep their own flags.
function(procfleet_own target)
  set_property(GLOBAL APPEND PROPERTY procfleet_targets ${target})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  set(flags -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wformat=2)
  if(PROCFLEET_WERROR)
    list(APPEND flags -Werror)
  endif()
  if(WIN32) # distributions' compilers have it on; mingw-w64's has not
    list(APPEND flags -fstack-protector-strong -Wno-float-conversion) # isnan of mingw-w64 narrows in branches never taken
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C>:${flags}>") # not for resources
endfunction()

# procfleet_program(TARGET description): a program people install. On Windows it says who it is, asks for the system it was
# tested for, and its symbols are kept beside it in TARGET.exe.debug.
function(procfleet_program target description)
  if(NOT WIN32)
    return()
  endif()
  set(program ${target})
  set(resource ${CMAKE_CURRENT_BINARY_DIR}/${target}.rc)
  set(manifest ${CMAKE_CURRENT_BINARY_DIR}/${target}.manifest)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/program.manifest.in ${manifest} @ONLY)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/program.rc.in ${resource} @ONLY)
  set_source_files_properties(${resource} PROPERTIES OBJECT_DEPENDS ${manifest})
  target_sources(${target} PRIVATE ${resource})
  # -flto: see CMakeLists.txt. Inlined whole, NNG's ring of messages looks to the compiler as if it freed its inner buffer.
  target_link_options(${target} PRIVATE -flto -flto=auto -Wno-free-nonheap-object -Wl,--no-insert-timestamp
                                        -Wl,--major-subsystem-version=10,--minor-subsystem-version=0
                                        -Wl,--major-os-version=10,--minor-os-version=0)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${CMAKE_OBJCOPY} -p --only-keep-debug $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.debug
    COMMAND ${CMAKE_STRIP} -p --strip-all $<TARGET_FILE:${target}>
    COMMAND ${CMAKE_OBJCOPY} -p --add-gnu-debuglink=$<TARGET_FILE:${target}>.debug $<TARGET_FILE:${target}>)
endfunction()

# Sanitizers tell where; the Windows programs run in a Wine prefix of the build tree that a fixture sets up.
set(tsan_options halt_on_error=1:second_deadlock_stack=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp)
set(test_environment UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=${tsan_options})
if(WIN32)
  set(wine_environment WINEPREFIX=${CMAKE_BINARY_DIR}/wine WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=)
  list(APPEND test_environment ${wine_environment})
endif()

# What every kind of test has in common.
function(procfleet_test_properties name labels timeout)
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                                          ENVIRONMENT "${test_environment}")
endfunction()

# procfleet_busy(NAME...): tests that keep a processor busy. `scripts/test` runs five times as many at once as there are
# processors, for most wait more than they work; these count as five. The longest start first: COST, about their seconds.
function(procfleet_busy)
  foreach(name IN LISTS ARGN)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES PROCESSORS 5)
    endif()
  endforeach()
endfunction()

# What the thread sanitizer runs (the preset tsan builds nothing else): tests that start threads. Any other test is linked so
# that starting one ends it (tests/support/one_thread.c), hence none can be missing here.
add_custom_target(tests_threads)

# procfleet_threads([ALONE] NAME...): these tests start threads. ALONE: not for the thread sanitizer, since nothing runs beside
# the test but what it waits for, and it would take long.
function(procfleet_threads)
  if(WIN32)
    return()
  endif()
  cmake_parse_arguments(T "ALONE" "" "" ${ARGN})
  foreach(name IN LISTS T_UNPARSED_ARGUMENTS)
    set_target_properties(${name} PROPERTIES THREADS ON)
    if(NOT T_ALONE)
      add_dependencies(tests_threads ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS threads)
    endif()
  endforeach()
endfunction()

# procfleet_plain(NAME...): these tests look for more, or longer, where there is no sanitizer.
function(procfleet_plain)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS plain)
  set_property(GLOBAL APPEND PROPERTY procfleet_plain ${ARGN})
endfunction()

# The target tests_plain: all programs and, of the tests, only those of procfleet_plain. Called once, at the end.
function(procfleet_tests_plain)
  get_property(targets GLOBAL PROPERTY procfleet_targets)
  get_property(tests GLOBAL PROPERTY procfleet_tests)
  get_property(plain GLOBAL PROPERTY procfleet_plain)
  list(REMOVE_ITEM targets ${tests})
  foreach(made IN ITEMS packaging monitor_library) # what an installation has beside them
    if(TARGET ${made})
      list(APPEND targets ${made})
    endif()
  endforeach()
  add_custom_target(tests_plain)
  add_dependencies(tests_plain ${targets} ${plain})
endfunction()

# procfleet_test(NAME source... [LIBS lib...] [LABELS label...] [TIMEOUT s]): a cmocka program run by ctest.
function(procfleet_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  procfleet_own(${name})
  set_property(GLOBAL APPEND PROPERTY procfleet_tests ${name})
  if(NOT WIN32)
    set(one_thread $<NOT:$<BOOL:$<TARGET_PROPERTY:${name},THREADS>>>)
    target_sources(${name} PRIVATE $<${one_thread}:${CMAKE_SOURCE_DIR}/tests/support/one_thread.c>)
    target_link_options(${name} PRIVATE $<${one_thread}:-Wl,--wrap=pthread_create>)
  endif()
  target_compile_options(${name} PRIVATE -Wno-unused-parameter) # most tests have no use for their state
  target_link_libraries(${name} PRIVATE ${T_LIBS} cmocka)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(WIN32)
    list(APPEND T_LABELS wine)
  endif()
  procfleet_test_properties(${name} "${T_LABELS}" ${T_TIMEOUT})
  if(WIN32)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED wine_prefix)
  endif()
endfunction()

# procfleet_tests(path... [SOURCES source...] [LIBS lib...] [LABELS label...]): one procfleet_test for each path.c, named
# after the path's last word; SOURCES are compiled into each.
function(procfleet_tests)
  cmake_parse_arguments(T "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  foreach(path IN LISTS T_UNPARSED_ARGUMENTS)
    get_filename_component(name ${path} NAME)
    procfleet_test(${name} ${path}.c ${T_SOURCES} LIBS ${T_LIBS} LABELS ${T_LABELS})
  endforeach()
endfunction()

# procfleet_script(NAME script.py [ARGS word...] [LABELS label...] [TIMEOUT s] [COST s] [ENV X=y...] [LOCAL] [SERIAL] [LONG]): a
# Python program with real processes; PROCFLEET_BIN tells it where the binaries are. It prints "skipped: reason" and exits with
# 77 to skip. LOCAL: it starts no server. LONG: only with `ctest -C long`. COST: about how long it takes; the longest start first.
function(procfleet_script name script)
  cmake_parse_arguments(T "LOCAL;SERIAL;LONG" "TIMEOUT;COST" "LABELS;ENV;ARGS" ${ARGN})
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(WIN32 AND NOT WINE64)
    set(command ${CMAKE_CROSSCOMPILING_EMULATOR}) # says so
  elseif(Python3_FOUND)
    set(command ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${T_ARGS})
  else()
    set(command sh -c "echo 'skipped: python3 is not installed' && exit 77")
  endif()
  set(when)
  if(T_LONG)
    set(when CONFIGURATIONS long)
  endif()
  add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} ${when})
  if(NOT T_LABELS)
    set(T_LABELS e2e)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(NOT T_LOCAL)
    list(APPEND T_LABELS server)
  endif()
  set(test_environment ${test_environment} PROCFLEET_BIN=${CMAKE_BINARY_DIR}/bin ${T_ENV})
  procfleet_test_properties(${name} "${T_LABELS}" ${T_TIMEOUT})
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ${T_SERIAL})
  if(T_COST)
    set_tests_properties(${name} PROPERTIES COST ${T_COST})
  endif()
endfunction()

# procfleet_bench(NAME source... [LIBS lib...]): build/<preset>/bin/NAME, never run by ctest.
function(procfleet_bench name)
  cmake_parse_arguments(T "" "" "LIBS" ${ARGN})
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  procfleet_own(${name})
  target_link_libraries(${name} PRIVATE ${T_LIBS})
endfunction()

set(PROCFLEET_FUZZ_SECONDS 600 CACHE STRING "how long each fuzz target runs with ctest -C long")

# procfleet_fuzz(NAME source... [LIBS lib...] [RUNS n] [MAX_LEN n] [MADE]): libFuzzer with clang (preset fuzz), else the
# replaying driver. Seeds: seeds/NAME, and with MADE what tests/fuzz/make_seeds.c makes for it. ctest runs it n times
# (20,000); with clang `ctest -C long` also for ten minutes, and what it finds on the way stays in fuzz/corpus/NAME.
function(procfleet_fuzz name)
  cmake_parse_arguments(T "MADE" "RUNS;MAX_LEN" "LIBS" ${ARGN})
  if(NOT T_RUNS)
    set(T_RUNS 20000)
  endif()
  if(NOT T_MAX_LEN)
    set(T_MAX_LEN 4096)
  endif()
  set(room ${CMAKE_BINARY_DIR}/fuzz)
  set(seeds)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name})
    list(APPEND seeds ${CMAKE_CURRENT_SOURCE_DIR}/seeds/${name})
  endif()
  if(T_MADE)
    list(APPEND seeds ${room}/seeds/${name})
  endif()
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_executable(${name} ${T_UNPARSED_ARGUMENTS})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    file(MAKE_DIRECTORY ${room}/corpus/${name} ${room}/findings)
    set(arguments -max_len=${T_MAX_LEN} -timeout=20 -artifact_prefix=${room}/findings/${name}- ${room}/corpus/${name}
                  ${seeds})
    add_test(NAME ${name}_long COMMAND ${name} -max_total_time=${PROCFLEET_FUZZ_SECONDS} -print_final_stats=1
                                       ${arguments} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} CONFIGURATIONS long)
    math(EXPR limit "${PROCFLEET_FUZZ_SECONDS} + 300")
    procfleet_test_properties(${name}_long fuzz_long ${limit})
  else()
    add_executable(${name} ${T_UNPARSED_ARGUMENTS} ${CMAKE_SOURCE_DIR}/tests/fuzz/driver.c)
    set(arguments ${seeds})
  endif()
  procfleet_own(${name})
  set_property(GLOBAL APPEND PROPERTY procfleet_tests ${name})
  target_link_libraries(${name} PRIVATE ${T_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  if(T_MADE)
    add_dependencies(${name} fuzz_seeds)
  endif()
  add_dependencies(fuzz_targets ${name})
  add_test(NAME ${name} COMMAND ${name} -runs=${T_RUNS} ${arguments} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  procfleet_test_properties(${name} fuzz 120)
  procfleet_busy(${name})
endfunction()

# The first program in a new Wine prefix takes 5 to 12 s: set up once, and nothing of it left running. The server stays (-p)
# until the last test: one that is about to end because no program runs refuses the next one. It and Wine's services would
# keep ctest's pipe open. A server that a run left which was ended early goes first.
function(procfleet_wine_prefix)
  find_program(WINEBOOT NAMES wineboot wineboot-stable NO_CMAKE_FIND_ROOT_PATH)
  find_program(WINESERVER NAMES wineserver PATHS /usr/lib/wine NO_CMAKE_FIND_ROOT_PATH)
  if(NOT WINE64 OR NOT WINEBOOT OR NOT WINESERVER)
    message(WARNING "wine64 is missing (scripts/install-deps --windows): the Windows tests cannot run")
    return()
  endif()
  add_test(NAME wine_prefix
           COMMAND sh -c "exec >/dev/null 2>&1; mkdir -p ${CMAKE_BINARY_DIR}/wine; ${WINESERVER} -k && ${WINESERVER} -w
                          ${WINESERVER} -p && ${WINEBOOT} -i")
  add_test(NAME wine_prefix_end COMMAND sh -c "${WINESERVER} -k || true")
  set_tests_properties(wine_prefix wine_prefix_end PROPERTIES LABELS wine TIMEOUT 120 ENVIRONMENT "${wine_environment}")
  set_tests_properties(wine_prefix PROPERTIES FIXTURES_SETUP wine_prefix)
  set_tests_properties(wine_prefix_end PROPERTIES FIXTURES_CLEANUP wine_prefix)
endfunction()
if(WIN32)
  procfleet_wine_prefix()
endif()
