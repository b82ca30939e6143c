#include "tests/support/t.h"

#include <stdio.h>
#include <string.h>

#include "agent/privacy/privacy.h"
#include "agent/privacy/redact.h"

static const char *const words[] = {"password", "passwd", "pwd",       "secret",
                                    "token",    "key",    "credential"};

static void check(const char *in, const char *want)
{
    char out[512];
    struct redact r = {
        .words = words, .n_words = COUNT_OF(words), .out = out, .room = sizeof out - 1};

    redact_line(&r, str_make(in));
    out[r.n] = '\0';
    assert_string_equal(out, want);
}

/* As people and installers write them; every one holds a secret, which must be gone. */
static const struct {
    const char *in, *want;
} secrets[] = {
    /* options by name */
    {"app --password=hunter2 --user=x", "app --password=*** --user=x"},
    {"app --password hunter2 --user x", "app --password *** --user x"},
    {"app --password=\"my pass\" x", "app --password=*** x"},
    {"app --password \"my pass\" x", "app --password *** x"},
    {"app --password 'my pass' x", "app --password *** x"},
    {"app \"--password=my pass\" x", "app \"--password=***\" x"},
    {"app --DB-Password hunter2", "app --DB-Password ***"},
    {"app --password \"a \\\"b\\\" c\" x", "app --password *** x"},
    {"app /password:abc /quiet", "app /password:*** /quiet"},
    {"app /password abc", "app /password ***"},
    {"setup.exe /S /v\"PASSWORD=a b /qn\"", "setup.exe /S /v\"PASSWORD=***\""},
    {"msiexec /i a.msi SVC_PASSWORD=\"p w\" /qn", "msiexec /i a.msi SVC_PASSWORD=*** /qn"},
    {"java -Djavax.net.ssl.keyStorePassword=abc -jar a.jar",
     "java -Djavax.net.ssl.keyStorePassword=*** -jar a.jar"},
    {"keytool -list -storepass changeit -v", "keytool -list -storepass *** -v"},
    {"ssh-keygen -t rsa --passphrase 'a b' -f x", "ssh-keygen -t rsa --passphrase *** -f x"},
    {"vault login --token s.1234567890", "vault login --token ***"},
    {"tool -token abc def", "tool -token *** def"},
    {"az storage blob list --account-key A/b+c== -c x",
     "az storage blob list --account-key *** -c x"},
    {"aws configure set aws_secret_access_key=wJalr/K7 x",
     "aws configure set aws_secret_access_key=*** x"},
    {"kubectl config set-credentials joe --token=ab.cd", "kubectl config set-credentials joe "
                                                         "--token=***"},
    {"helm install x --set auth.password=a,b=c", "helm install x --set auth.password=***"},
    {"docker run -e POSTGRES_PASSWORD=x -p 80:80 pg", "docker run -e POSTGRES_PASSWORD=*** "
                                                      "-p 80:80 pg"},
    {"docker run -e \"DB_PASS=a b\" pg", "docker run -e \"DB_PASS=***\" pg"},
    {"ansible-playbook -e ansible_become_pass=x y.yml",
     "ansible-playbook -e ansible_become_pass=*** y.yml"},
    {"cmdkey /add:srv /user:joe /pass:s3cret", "cmdkey /add:srv /user:joe /pass:***"},
    {"wmic /node:x /user:y /password:z os", "wmic /node:x /user:y /password:*** os"},
    {"schtasks /create /ru joe /rp s3cret /tn x", "schtasks /create /ru joe /rp *** /tn x"},
    {"msbuild a.proj /p:Password=x;Mode=y", "msbuild a.proj /p:Password=***"},
    /* environment */
    {"env PGPASSWORD=s psql -h db", "env PGPASSWORD=*** psql -h db"},
    {"PGPASSWORD='a b' psql", "PGPASSWORD=*** psql"},
    {"cmd /c set API_KEY=abc&& run.bat", "cmd /c set API_KEY=*** run.bat"},
    {"sh -c \"export SECRET_KEY=abc; run\"", "sh -c \"export SECRET_KEY=***\""},
    {"systemd-run -E TOKEN=abc sh", "systemd-run -E TOKEN=*** sh"},
    /* -p and its like, by program */
    {"mysql -u root -phunter2 db", "mysql -u root -p*** db"},
    {"/usr/bin/mysqldump -p'a b' db", "/usr/bin/mysqldump -p*** db"},
    {"\"C:\\Program Files\\MySQL\\bin\\mysql.exe\" -uroot -ps3c",
     "\"C:\\Program Files\\MySQL\\bin\\mysql.exe\" -uroot -p***"},
    {"sudo mysql -psecret1 db", "sudo mysql -p*** db"},
    {"bash -c 'mysql -phunter2 db'", "bash -c 'mysql -p***'"},
    {"sshpass -p hunter2 ssh host", "sshpass -p *** ssh host"},
    {"sshpass -phunter2 ssh -p 22 host", "sshpass -p*** ssh -p *** host"},
    {"7z x a.7z -pS3cret -oout", "7z x a.7z -p*** -oout"},
    {"rar a -hpS3cret x.rar d", "rar a -hp*** x.rar d"},
    {"unzip -P s3cret a.zip", "unzip -P *** a.zip"},
    {"sqlcmd -S srv -U sa -P \"p w\" -Q x", "sqlcmd -S srv -U sa -P *** -Q x"},
    {"bcp db.t out f -Usa -Psecret -c", "bcp db.t out f -Usa -P*** -c"},
    {"ldapsearch -D cn=x -w s3cret -b dc=y", "ldapsearch -D cn=x -w *** -b dc=y"},
    {"redis-cli -h db -a s3cret PING", "redis-cli -h db -a *** PING"},
    {"psexec \\\\srv -u joe -p s3cret cmd", "psexec \\\\srv -u joe -p *** cmd"},
    {"docker login -u joe -p s3cret reg", "docker login -u joe -p *** reg"},
    {"plink -ssh -pw s3cret joe@srv", "plink -ssh -pw *** joe@srv"},
    {"smbclient //srv/x -U joe%s3cret", "smbclient //srv/x -U joe%***"},
    {"curl -u joe:s3cret https://h/x", "curl -u joe:*** https://h/x"},
    {"curl -ujoe:s3cret https://h/x", "curl -ujoe:*** https://h/x"},
    {"curl --user \"joe:a b\" https://h/x", "curl --user \"joe:***\" https://h/x"},
    {"curl --proxy-user joe:s3cret https://h", "curl --proxy-user joe:*** https://h"},
    {"htpasswd -b /etc/htpasswd joe s3cret", "htpasswd -b /etc/htpasswd joe ***"},
    {"net use Z: \\\\srv\\share s3cret /user:dom\\joe",
     "net use Z: \\\\srv\\share *** /user:dom\\joe"},
    {"net user joe s3cret /add", "net user joe *** /add"},
    {"openssl rsa -in a.pem -passin pass:s3cret", "openssl rsa -in a.pem -passin ***"},
    {"openssl enc -aes-256-cbc -k s3cret", "openssl enc -aes-256-cbc -k ***"},
    {"signtool sign /f a.pfx /p s3cret a.exe", "signtool sign /f a.pfx /p *** a.exe"},
    /* URLs and connection strings */
    {"curl https://joe:pw@host/x?a=1", "curl https://joe:***@host/x?a=1"},
    {"curl https://joe:p@w@host", "curl https://joe:***@host"},
    {"curl 'https://h/x?user=a&token=1&b=2'", "curl 'https://h/x?user=a&token=***'"},
    {"psql postgresql://joe:s3cret@db:5432/x", "psql postgresql://joe:***@db:5432/x"},
    {"git clone https://oauth2:abc@git.example/x", "git clone https://oauth2:***@git.example/x"},
    {"app \"Server=s;Password=a b;X=1\" y", "app \"Server=s;Password=***\" y"},
    {"app --conn=Server=s;Uid=sa;Pwd=x;", "app --conn=Server=s;Uid=sa;Pwd=***"},
    {"app DefaultEndpointsProtocol=https;AccountKey=a+b/c==;X=y",
     "app DefaultEndpointsProtocol=https;AccountKey=***"},
    {"azcopy cp a https://x.example/c?sv=2020&sig=a%2Bb", "azcopy cp a https://x.example/c?sv="
                                                          "2020&sig=***"},
    /* headers, JSON, scripts */
    {"curl -H \"Authorization: Bearer abc.def\" u", "curl -H \"Authorization:***\" u"},
    {"curl -H Authorization: Bearer abc.def u", "curl -H Authorization: Bearer *** u"},
    {"curl -H 'X-Api-Key: abc' u", "curl -H 'X-Api-Key:***' u"},
    {"curl -d '{\"user\":\"x\",\"password\":\"a b\"}' u",
     "curl -d '{\"user\":\"x\",\"password\":***}' u"},
    {"curl -d \"{\\\"password\\\":\\\"a b\\\",\\\"x\\\":1}\" u",
     "curl -d \"{\\\"password\\\":***\" u"},
    {"app {\"client_secret\":\"abc\",\"x\":1}", "app {\"client_secret\":***"},
    {"app { \"secret\" : \"a b\" }", "app { \"secret\" : *** }"},
    {"powershell -c $password = 'a b'; x", "powershell -c $password = *** x"},
    {"powershell -NoProfile -EncodedCommand SQBFAFgA x",
     "powershell -NoProfile -EncodedCommand *** x"},
    {"pwsh.exe -enc SQBFAFgA", "pwsh.exe -enc ***"},
    {"powershell ConvertTo-SecureString 'P@ss w' -AsPlainText",
     "powershell ConvertTo-SecureString *** -AsPlainText"},
    /* tokens by their look */
    {"git push x ghp_0123456789abcdefABCDEF", "git push x ***"},
    {"run --id AKIAIOSFODNN7EXAMPLE y", "run --id *** y"},
    {"app eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc-_ y", "app *** y"},
    {"slack \"xoxb-1234567890-abcdef\" y", "slack \"***\" y"},
    /* names with something about them */
    {"app --password = hunter2 x", "app --password = *** x"},
    {"app --token = -hunter2 x", "app --token = *** x"},
    {"curl -d user[password]=x u", "curl -d user[password]=*** u"},
    {"curl -d 'user[password]=a b' u", "curl -d 'user[password]=***' u"},
    {"curl -d user%5Bpassword%5d=x u", "curl -d user%5Bpassword%5d=*** u"},
    {"app $a[\"password\"]=\"a b\" u", "app $a[\"password\"]=*** u"},
    {"PASSWORD+=x y", "PASSWORD+=*** y"},
    {"make DB_PASSWORD?=x y", "make DB_PASSWORD?=*** y"},
    {"app --\xd0\xbf-password=x y", "app --\xd0\xbf-password=*** y"},
    {"app --password-\xd0\xbf=x y", "app --password-\xd0\xbf=*** y"},
    /* values in several quotes, or in one that does not end */
    {"app --password=a\"b c\" y", "app --password=*** y"},
    {"sh PASSWORD='a'\"'\"'b c' y", "sh PASSWORD=*** y"},
    {"curl -H Authorization:\\ Bearer\\ abc u", "curl -H Authorization:*** u"},
    {"sh -c PASSWORD=a\\ b y", "sh -c PASSWORD=*** y"},
    {"app --password \"my pass", "app --password ***"},
    {"app --password='my pass", "app --password=***"},
    {"app \"--password=my pass", "app \"--password=***"},
    {"app {\\\"password\\\":\\\"a b\\\"} y", "app {\\\"password\\\":*** y"},
    {"app <password>a b</password> y", "app <password>***</password> y"},
};

static void real_life_secrets_are_hidden(void **state)
{
    assert_true(COUNT_OF(secrets) >= 60);
    for (size_t i = 0; i < COUNT_OF(secrets); i++) {
        check(secrets[i].in, secrets[i].want);
    }
}

/* Whoever read the line has left its end out: what a secret has there is one all the same. */
static void a_secret_that_is_cut_is_hidden_too(void **state)
{
    static const char *const rows[][2] = {
        {"app \"--password=my pa", "app \"--password=***"},
        {"sh -c \"app --password my pa", "sh -c \"app --password ***"},
        {"sh -c \"app --password 'my pa", "sh -c \"app --password ***"},
        {"app --password=a\"b c", "app --password=***"},
        {"app --password 'it'\\''s my pa", "app --password ***"},
        {"psql postgresql://joe:s3c", "psql postgresql://joe:***"},
        {"git clone https://s3cret", "git clone https://***"},
        {"git push x ghp_01", "git push x ***"},
        {"app --user joe", "app --user joe"},
        {"curl https://host:80/x", "curl https://host:80/x"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char out[128];
        struct redact r = {.words = words,
                           .n_words = COUNT_OF(words),
                           .out = out,
                           .room = sizeof out - 1,
                           .open_end = true};

        redact_line(&r, str_make(rows[i][0]));
        out[r.n] = '\0';
        assert_string_equal(out, rows[i][1]);
    }
}

static void a_word_in_any_writing_is_found(void **state)
{
    static const char *const word = "\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c";
    char in[64], want[64], out[64];
    struct redact r = {.words = &word, .n_words = 1, .out = out, .room = sizeof out - 1};

    (void)snprintf(in, sizeof in, "app --%s=x /%s:x --my-%s x", word, word, word);
    (void)snprintf(want, sizeof want, "app --%s=*** /%s:*** --my-%s ***", word, word, word);
    redact_line(&r, str_make(in));
    out[r.n] = '\0';
    assert_string_equal(out, want);
}

static void a_word_that_fits_no_name_is_none(void **state)
{
    static const struct {
        const char *word;
        bool fits;
    } rows[] = {
        {"zebra", true},
        {"user.zebra", true},
        {"a/b", true},
        {"my_zebra-2", true},
        {"", false},
        {"--zebra", false},
        {"/zebra", false},
        {"$zebra", false},
        {"zebra=", false},
        {"*zebra*", false},
        {"ze bra", false},
        {"zebra # or so", false},
        {"[zebra]", false},
        {"zebra:", false},
        {"z\xc3\xa9"
         "bra",
         true},
        {"zebra\x01", false},
        {"^zebra$", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(privacy_check_word(rows[i].word), rows[i].fits ? ERR_OK : ERR_INVALID);
    }
}

static void lines_without_secrets_stay_as_they_are(void **state)
{
    static const char *const rows[] = {
        "make -j2 all",
        "  app  ",
        "app --keyring --verbose",
        "/usr/bin/gnome-keyring-daemon start",
        "cat /etc/keys/list x",
        "app --password",
        "ssh -p 22 -i id_rsa host",
        "docker run -p 80:80 nginx",
        "mkdir -p /srv/a/b",
        "curl https://host:80/x",
        "curl -u joe https://host",
        "mysql -p db",
        "C:\\Windows\\system32\\svchost.exe -k netsvcs -p -s Schedule",
        "\"C:\\Program Files\\a b\\c.exe\" /flag:on /x=1",
        "sh -c \"echo it's 10:30; ls -l\"",
        "python3 -m http.server 8000",
        "net use",
        "sk-learn-runner",
        "7z a x.7z dir",
        "",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check(rows[i], rows[i]);
    }
}

/* No line makes it read or write out of bounds, and what it writes fits. */
static void every_beginning_and_every_room_is_survived(void **state)
{
    static const char line[] = "mysql -p'a \\\" b' \"{\\\"token\\\" : \\\"x\\\"}\" Authorization: "
                               "Bearer \xc3\xa4 net use \\\\a\\b c htpasswd -b a b c http://a:b@c";

    for (size_t n = 0; n < sizeof line; n++) {
        for (size_t room = 0; room < 160; room += 7) {
            char out[160];
            struct redact r = {
                .words = words, .n_words = COUNT_OF(words), .out = out, .room = room};

            redact_line(&r, (struct str){line, n});
            assert_true(r.n <= room);
        }
    }
}

static void the_first_argument_ends_with_its_quotes(void **state)
{
    assert_int_equal(redact_first(str_make("app --x")), 3);
    assert_int_equal(redact_first(str_make("\"C:\\a b\\c.exe\" x")), 14);
    assert_int_equal(redact_first(str_make("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_life_secrets_are_hidden),
        cmocka_unit_test(a_secret_that_is_cut_is_hidden_too),
        cmocka_unit_test(a_word_in_any_writing_is_found),
        cmocka_unit_test(a_word_that_fits_no_name_is_none),
        cmocka_unit_test(lines_without_secrets_stay_as_they_are),
        cmocka_unit_test(every_beginning_and_every_room_is_survived),
        cmocka_unit_test(the_first_argument_ends_with_its_quotes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
