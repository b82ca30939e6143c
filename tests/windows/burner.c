/* A program whose figures are known: burns 1.5 s of CPU, touches 64 MiB, says "ready" and waits for
 * end of file on standard input. With an argument it says the code page of the console instead. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clk.h"
#include "common/base/mem.h"
#include "common/os/os.h"
#include "common/os/win32.h"

#define BURN_NS     (3 * CLK_S / 2)
#define TOUCH_BYTES (64u << 20)

int main(int argc, char **argv)
{
    uint8_t *touched = mem_alloc(TOUCH_BYTES);
    volatile uint64_t x = 1;

    (void)argv;
    if (argc > 1) {
        printf("page=%u\n", GetConsoleOutputCP()); /* a blank may be a move of the cursor */
        mem_free(touched);
        return 0;
    }
    if (!touched) {
        return 1;
    }
    memset(touched, 1, TOUCH_BYTES);
    while (os_cpu_ns() < BURN_NS) {
        for (int i = 0; i < 100000; i++) {
            x = x * 6364136223846793005u + touched[x % TOUCH_BYTES];
        }
    }
    puts("ready");
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    mem_free(touched);
    return 0;
}
