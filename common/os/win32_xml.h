/* Windows' reader of XML (xmllite), and what of COM it needs. */
#ifndef PROCFLEET_COMMON_OS_WIN32_XML_H
#define PROCFLEET_COMMON_OS_WIN32_XML_H

#define COBJMACROS

#include "common/os/win32.h"

#include <xmllite.h>

#endif
