#include "agent/privacy/redact_rules.h"

enum {
    REST = REDACT_REST,
    COLON = REDACT_COLON,
    ANY = REDACT_ANY_CASE,
    CLUSTER = REDACT_CLUSTER,
    PREFIX = REDACT_PREFIX,
    NAMED = REDACT_NAMED,
    ASSIGNED = REDACT_ASSIGNED,
    SLASH = REDACT_SLASH,
};

const struct redact_rule redact_rules[] = {
    /* data bases and directories */
    {"mysql|mysqldump|mysqladmin|mysqlimport|mysqlshow|mysqlbinlog|mysqlpump|mysqlcheck|mariadb|"
     "mariadb-dump|mariadb-admin",
     "-p", REST, 0, 0},
    {"sqlcmd|osql|isql|bcp|tsql", "-P", REST, 1, 0},
    {"isql", NULL, 0, 3, 0},
    {"mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport", "-p", REST, 1, 0},
    {"sqlplus|expdp|impdp|sqlldr|rman", NULL, SLASH, 0, 0},
    {"identified", "by", ANY, 1, 0}, /* SQL */
    {"redis-cli", "-a", 0, 1, 0},
    {"rabbitmqctl", "add_user|change_password|authenticate_user", 0, 2, 0},
    {"ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd|ldapcompare", "-w", REST, 1,
     0},
    {"ldappasswd", "-s|-a", REST, 1, 0},
    /* remote machines */
    {"sshpass", "-p", REST, 1, 0},
    {"ssh-keygen", "-N|-P", REST, 1, 0},
    {"psexec|psexec64|pskill|pslist|psservice|psshutdown|psloglist|psinfo|certutil|ncftpput|"
     "ncftpget|rdesktop|twine|xmrig",
     "-p", 0, 1, 0},
    {"login", "-p", REST, 1, 0}, /* docker login, az login */
    {"smbclient|rpcclient|smbmap", "-U", REST | COLON, 1, 0},
    {"smbclient", NULL, 0, 2, 0},
    {"xfreerdp|wfreerdp|sdl-freerdp|freerdp", "/p:|/gp:", REST, 0, 0},
    {"lftp|open", "-u", 0, 1, 0},
    {"ipmitool|mosquitto_pub|mosquitto_sub", "-P", REST, 1, 0},
    {"snmpwalk|snmpget|snmpset|snmpbulkwalk|snmpgetnext|snmptable|snmptrap", "-c|-A|-X", 0, 1, 0},
    {"rasdial", NULL, 0, 3, 0},
    {"wpa_passphrase", NULL, 0, 2, 0},
    /* the web */
    {"curl|wget|http|https", "-u", REST | COLON | ANY | CLUSTER, 1, 0},
    {"curl|wget", "--user|--proxy-user|--cert|--proxy-cert", REST | COLON, 1, 0},
    {"curl", "-E", REST | COLON, 1, 0},
    {"curl", "-b", REST | CLUSTER, 1, 0},
    {"htpasswd", "-nb|-bn|-nbB|-Bbn|-nBb|-bnB|-nbs|-nbm", 0, 2, 0},
    {"htpasswd", "-b|-bc|-cb|-bB|-Bb|-cbB|-bcB|-cBb|-Bbc|-bs|-bm|-bd", 0, 3, 0},
    /* archives, keys, signatures */
    {"7z|7za|7zz|rar|unrar|winrar", "-p", REST, 0, 0},
    {"rar|winrar", "-hp", REST, 0, 0},
    {"zip|unzip", "-P", REST, 1, 0},
    {"qpdf", "--encrypt", 0, 1, 1},
    {"veracrypt|truecrypt", "/p", ANY, 1, 0},
    {"openssl", "-k", ANY, 1, 0},
    {"signtool", "/p|-p", ANY, 1, 0},
    {"pvk2pfx", "-pi|-po|/pi|/po", ANY, 1, 0},
    /* Windows */
    {"net|net1", "user", ANY, 2, 0},
    {"netdom", "/pd:|/po:|/ps:", REST | ANY, 0, 0},
    {"schtasks|taskkill|tasklist|systeminfo|driverquery|getmac|openfiles|eventcreate|waitfor|"
     "gpresult",
     "/p", ANY, 1, 0},
    {"bitsadmin", "/setcredentials", ANY, 5, 0},
    {"reg", "/d", NAMED | ANY, 1, 0},
    {"slmgr|slmgr.vbs", "/ipk|-ipk", ANY, 1, 0},
    {"powershell|pwsh", "-encodedcommand", PREFIX | ANY, 1, 0},
    {"powershell|pwsh", "-ec", ANY, 1, 0},
    {"convertto-securestring", NULL, 0, 1, 0},
    {"convertto-securestring", "-string", ANY, 1, 0},
    /* Unix accounts */
    {"useradd|usermod|adduser", "-p", REST, 1, 0},
    /* services of others */
    {"kubectl|oc", "--from-literal", REST, 1, 0},
    {"put-parameter", "--value", REST, 1, 0},
    {"nuget", "push", ANY, 2, 0},
    {"nuget", "-k", REST, 1, 0},
    {"user-secrets", "set", 0, 2, 0},
    {"vault", "login|unseal", 0, 1, 0},
    {"vault", "put|patch|write", ASSIGNED, 0, 0},
    {"heroku", "config:set|config:add", ASSIGNED, 0, 0},
    {"cargo", "login", 0, 1, 0},
};

const size_t redact_n_rules = sizeof redact_rules / sizeof *redact_rules;
_Static_assert(sizeof redact_rules / sizeof *redact_rules <= REDACT_RULES_MAX, "a flag for each");

const char *const redact_marks[] = {
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "glptt-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "xoxr-",
    "xapp-",
    "AKIA",
    "ASIA",
    "eyJ",
    "AIza",
    "sk_live_",
    "rk_live_",
    "sk_test_",
    "dop_v1_",
    "shpat_",
    "shpss_",
    "ya29.",
    "dckr_pat_",
    "hvs.",
    "sq0csp-",
    "AGE-SECRET-KEY-",
    "?sk-",
    "?SG.",
    "?npm_",
    "?pypi-",
    "?hf_",
};
const size_t redact_n_marks = sizeof redact_marks / sizeof *redact_marks;
