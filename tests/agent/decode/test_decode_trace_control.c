#include "tests/agent/decode/payload.h"

#define ONLY    "P4", "ImageBase ProcessId"
#define SYMBOLS "P4G4a", "ImageBase ProcessId GuidSig Age PDBFileName"

static const struct payload_row images[] = {
    {0, 2, "PP44w", "ImageBase ImageSize ProcessId TimeDateStamp OriginalFileName", "Info",
     EV_KIND_COUNT},
    {32, 2, ONLY, "None", EV_KIND_COUNT},
    {36, 2, SYMBOLS, "DbgID_RSDS", EV_KIND_COUNT},
    {37, 2, SYMBOLS, "DbgID_ILRSDS", EV_KIND_COUNT},
    {38, 2, "P4422", "ImageBase ProcessId TimeDateStamp MajorVersion MinorVersion", "DbgPPDB",
     EV_KIND_COUNT},
    {40, 1, ONLY, "DbgDeterm", EV_KIND_COUNT},
    {64, 0, "44wwwwwwwwww",
     "ImageSize TimeDateStamp OrigFileName FileDescription FileVersion BinFileVersion VerLanguage "
     "ProductName CompanyName ProductVersion FileId ProgramId",
     "FileVersion", EV_KIND_COUNT},
};

static const struct payload_row systems[] = {
    {32, 0, "Fww", "InstallDate BuildLab ProductName", "BuildInfo", EV_KIND_COUNT},
    {33, 0, "ww", "SystemDirectory SystemWindowsDirectory", "SystemPaths", EV_KIND_COUNT},
    {34, 0, "w", "Value", "UnknownVolume", EV_KIND_COUNT},
    {35, 0, "ww", "NtPath DosPath", "VolumeMapping", EV_KIND_COUNT},
    {36, 0, "84GWW4HH44444441-444G4=88888888888888888888",
     "InterfaceLuid InterfaceIndex InterfaceGuid Alias Description PhysicalAddressLength "
     "PhysicalAddress PermanentPhysicalAddress Mtu Type TunnelType MediaType PhysicalMediumType "
     "AccessType DirectionType InterfaceAndOperStatusFlags OperStatus AdminStatus "
     "MediaConnectState NetworkGuid ConnectionType TransmitLinkSpeed ReceiveLinkSpeed InOctets "
     "InUcastPkts InNUcastPkts InDiscards InErrors InUnknownProtos InUcastOctets "
     "InMulticastOctets InBroadcastOctets OutOctets OutUcastPkts OutNUcastPkts OutDiscards "
     "OutErrors OutUcastOctets OutMulticastOctets OutBroadcastOctets OutQLen",
     "NetworkInterface", EV_KIND_COUNT},
    {37, 0, "88", "FileVersion Unknown", "Opcode(37)", EV_KIND_COUNT},
};

static void every_image_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_image_id_class, images, COUNT_OF(images), NULL);
}

static void every_system_record_is_read_whole_or_refused(void **state)
{
    payload_check(&decode_sys_config_class, systems, COUNT_OF(systems), NULL);
}

static void an_interface_has_the_size_of_its_structure(void **state)
{
    struct payload p;

    payload_init(&p, &systems[4], 8);
    assert_int_equal(p.bytes.n, 1352);
    buf_fini(&p.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_image_record_is_read_whole_or_refused),
        cmocka_unit_test(every_system_record_is_read_whole_or_refused),
        cmocka_unit_test(an_interface_has_the_size_of_its_structure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
