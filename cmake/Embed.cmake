# procfleet_embed(TARGET web-dir): puts a page into TARGET. Each file of web-dir is packed by `gzip -9n` and taken in by
# .incbin; a generated table (collector/console/assets.h) says where each is. `ninja console_size` prints how large each
# is and fails above the budget. Nothing generated is committed.
#
# All files but index.html are served under one address, /a/HASH/NAME, where HASH is the first 12 digits of the SHA-256 of all
# of them. So modules import each other by plain relative names (`./x.js`, `../x.js`), which hold as they are in web-dir too:
# a hash for each file would need an import map, which the page's policy (`script-src 'self'`) does not let stand in index.html.
# In index.html alone, `="./` becomes `="/a/HASH/`.
function(procfleet_embed target web)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${web} ${web}/*.html ${web}/*.js ${web}/*.css ${web}/*.svg)
  list(SORT files)
  set(pairs)
  set(paths)
  foreach(file IN LISTS files)
    list(APPEND pairs ${file}=${web}/${file})
    list(APPEND paths ${web}/${file})
  endforeach()
  find_program(GZIP gzip REQUIRED)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/web)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed-files.cmake)
  add_custom_command(OUTPUT ${out}/assets.S ${out}/assets_table.c VERBATIM DEPENDS ${paths} ${script}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DFILES=${pairs}" -DGZIP=${GZIP} -P ${script}
    COMMENT "Packing the console's page")
  target_sources(${target} PRIVATE ${out}/assets.S ${out}/assets_table.c)
  add_custom_target(console_size VERBATIM DEPENDS ${out}/assets.S
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DMAX_BYTES=150000 -P ${CMAKE_SOURCE_DIR}/cmake/embed-size.cmake)
endfunction()
