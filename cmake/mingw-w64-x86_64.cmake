set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_VERSION 10.0)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-win32) # not -posix: no libwinpthread import
set(CMAKE_AR x86_64-w64-mingw32-gcc-ar-win32) # these two know objects of -flto
set(CMAKE_RANLIB x86_64-w64-mingw32-gcc-ranlib-win32)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER) # protoc-c is a host program
foreach(m LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${m} ONLY)
endforeach()
find_program(WINE64 NAMES wine64 PATHS /usr/lib/wine NO_CMAKE_FIND_ROOT_PATH)
if(WINE64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${WINE64}) # add_test() then runs the .exe in Wine
else()
  set(CMAKE_CROSSCOMPILING_EMULATOR sh -c "echo 'skipped: wine is not installed' && exit 77")
endif()
