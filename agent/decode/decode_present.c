/* Providers Microsoft-Windows-DXGI and Microsoft-Windows-D3D9: frames that a process hands to the
 * display system. They are written by the process itself, so the owner is the header's.
 *
 *   DXGI 42   Present, 55 PresentMultiplaneOverlay: P swap chain, u32 flags, u32 sync interval;
 *             55 appends u32 planes and more
 *   D3D9 1    Present: P swap chain, u32 flags
 *
 * Their ends (43, 56; 2) say u32 result. A present of DXGI with the flag DXGI_PRESENT_TEST hands
 * over nothing: it asks whether the program can be seen. */
#include <string.h>

#include "agent/decode/decode_class.h"
#include "agent/source/etw_guid.h"
#include "common/base/cur.h"

#define FLAG_TEST 0x1u

static enum err decode_present(struct event *out, enum event_kind kind, const struct raw_event *raw,
                               struct decode_text *text)
{
    static const uint8_t dxgi[16] = ETW_PROVIDER_DXGI;
    struct cur c = cur_make(raw->payload, raw->payload_n);
    bool is_dxgi = memcmp(raw->guid, dxgi, sizeof dxgi) == 0;
    uint32_t flags;

    (void)kind;
    (void)text;
    (void)cur_uptr(&c, raw->pointer_size);
    flags = cur_u32le(&c);
    cur_skip(&c, is_dxgi ? raw->id == 55 ? 12 : 4 : 0);
    if (c.bad) {
        return ERR_CORRUPT;
    }
    if (is_dxgi && (flags & FLAG_TEST)) {
        return ERR_NOTFOUND;
    }
    out->u.present = (struct ev_present){.flags = flags};
    return ERR_OK;
}

static const struct decode_op dxgi_ops[] = {
    {42, 0, EV_PRESENT, decode_present},
    {55, 0, EV_PRESENT, decode_present},
};
static const struct decode_op d3d9_ops[] = {{1, 0, EV_PRESENT, decode_present}};

#define END \
    {       \
        0   \
    }

static const struct layout_field present[] = {{"pIDXGISwapChain", LAYOUT_PTR, 0, 0, 0},
                                              {"Flags", LAYOUT_HEX32, 0, 0, 0},
                                              {"SyncInterval", LAYOUT_U32, 0, 0, 0},
                                              END};
static const struct layout_field planes[] = {
    {"pIDXGISwapChain", LAYOUT_PTR, 0, 0, 0}, {"Flags", LAYOUT_HEX32, 0, 0, 0},
    {"SyncInterval", LAYOUT_U32, 0, 0, 0},    {"NumPlanes", LAYOUT_U32, 0, 0, 0},
    {"LayerMask", LAYOUT_U32, 0, 0, 0},       END};
static const struct layout_field d3d9[] = {
    {"pSwapchain", LAYOUT_PTR, 0, 0, 0}, {"Flags", LAYOUT_HEX32, 0, 0, 0}, END};
static const struct layout_field result[] = {{"Result", LAYOUT_HEX32, 0, 0, 0}, END};

static const struct layout dxgi_layouts[] = {
    {42, 0, 0, "PresentStart", present},
    {43, 0, 0, "PresentStop", result},
    {55, 0, 0, "PresentMultiplaneOverlayStart", planes},
    {56, 0, 0, "PresentMultiplaneOverlayStop", result},
};
static const struct layout d3d9_layouts[] = {
    {1, 0, 0, "PresentStart", d3d9},
    {2, 0, 0, "PresentStop", result},
};

const struct decode_class decode_dxgi_class = {
    .guid = ETW_PROVIDER_DXGI,
    .form = RAW_MANIFEST,
    .ops = dxgi_ops,
    .n_ops = sizeof dxgi_ops / sizeof dxgi_ops[0],
    .name = "Microsoft-Windows-DXGI",
    .layouts = dxgi_layouts,
    .n_layouts = sizeof dxgi_layouts / sizeof dxgi_layouts[0],
};

const struct decode_class decode_d3d9_class = {
    .guid = ETW_PROVIDER_D3D9,
    .form = RAW_MANIFEST,
    .ops = d3d9_ops,
    .n_ops = sizeof d3d9_ops / sizeof d3d9_ops[0],
    .name = "Microsoft-Windows-D3D9",
    .layouts = d3d9_layouts,
    .n_layouts = sizeof d3d9_layouts / sizeof d3d9_layouts[0],
};
