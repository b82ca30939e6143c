# The packages' copyright file: ours, and the text of each library whose code is in the programs, as its source has it.
set(copyright "procfleet is licensed under Apache-2.0; on Debian systems the text is in /usr/share/common-licenses/Apache-2.0.

The programs contain the libraries below. Mbed TLS, copyright The Mbed TLS Contributors, is offered under Apache-2.0 or
GPL-2.0-or-later and taken under the former. Names and layouts of the CLR's events in procfleet-etl are facts taken from
ClrEtwAll.man of PerfView, copyright .NET Foundation and Contributors, under the MIT licence.
")
function(add_licence name text)
  string(APPEND copyright "\n== ${name} ==\n\n${text}\n")
  set(copyright "${copyright}" PARENT_SCOPE)
endfunction()

# The first comment of a header of a package.
function(add_header_licence name)
  file(READ /usr/include/${name}.h text LIMIT 8000)
  string(FIND "${text}" "/*" from)
  string(FIND "${text}" "*/" to)
  math(EXPR from "${from} + 2")
  math(EXPR n "${to} - ${from}")
  string(SUBSTRING "${text}" ${from} ${n} text)
  string(REGEX REPLACE "\n ?\\*?" "\n" text "${text}")
  add_licence(${name} "${text}")
  set(copyright "${copyright}" PARENT_SCOPE)
endfunction()

foreach(pair IN ITEMS nng:LICENSE.txt protobufc:LICENSE zstd:LICENSE libyaml:License jansson:LICENSE libmicrohttpd:COPYING
             libsodium:LICENSE)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${${name}_SOURCE_DIR}/${file} text)
  add_licence(${name} "${text}")
endforeach()
add_header_licence(xxhash)
add_header_licence(uthash)
file(CONFIGURE OUTPUT debian/copyright CONTENT "@copyright@" @ONLY)
