/* What a board needs before main: vectors, RAM set up, a line to the host (semihosting),
 * and a reset that is like a power cut: RAM is filled with garbage, the data flash stays. */
#include <stddef.h>
#include <stdint.h>

extern uint8_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_end[];
extern uint8_t flash_begin[];

#define FLASH_SIZE 65536u

/* The host's call `op` of the semihosting interface of ARM (SYS_WRITE0 4, SYS_EXIT 0x18). */
static int semihost(int op, const void *arg)
{
    register int r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void put(const char *text) { semihost(4, text); }

static void put_number(unsigned n)
{
    char digits[12];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do digits[--at] = (char)('0' + n % 10); while ((n /= 10) != 0);
    put(digits + at);
}

static __attribute__((noreturn)) void leave(int failed)
{
    semihost(0x18, (const void *)(uintptr_t)(failed ? 0x20023 : 0x20026));
    for (;;) {}
}

static void fault(void)
{
    put("FAIL fault: the processor stopped\n");
    leave(1);
}

/* The vector catch of a power cut: everything in RAM is lost. */
static void power_cut(void)
{
    *(volatile uint32_t *)0xe000ed0c = 0x05fa0004;   /* AIRCR: SYSRESETREQ */
    for (;;) {}
}

/* The system timer counts down at 25 MHz. With -icount shift=0 an instruction takes 1 ns. */
#define INSTRUCTIONS_A_TICK 40u

static uint32_t timer(void)
{
    volatile uint32_t *t = (volatile uint32_t *)(uintptr_t)0xe000e010;
    if (t[0] == 0) {
        t[1] = 0xffffff;
        t[2] = 0;
        t[0] = 5; /* on, with the processor's clock */
    }
    return t[2];
}

/* Instructions since the timer had a value. */
static unsigned instructions(uint32_t since)
{
    return ((since - timer()) & 0xffffff) * INSTRUCTIONS_A_TICK;
}

int main(void);

/* Before main: RAM holds garbage, as after power came back; the stack is painted, so that
 * stack_used() can see how deep it went. */
void reset(void);
void reset(void)
{
    volatile uint32_t *p = (volatile uint32_t *)(uintptr_t)0x20000000;
    uint32_t *here = (uint32_t *)__builtin_frame_address(0) - 16;
    size_t i;
    for (; p < here; ++p) *p = 0xa5a5a5a5u;
    for (i = 0; i < (size_t)(data_end - data_begin); ++i) data_begin[i] = data_load[i];
    for (i = 0; i < (size_t)(bss_end - bss_begin); ++i) bss_begin[i] = 0;
    leave(main());
}

/* Bytes of stack that were ever used. */
static unsigned stack_used(void)
{
    const uint32_t *p = (const uint32_t *)(const void *)bss_end;
    while (*p == 0xa5a5a5a5u) ++p;
    return (unsigned)((const uint8_t *)stack_end - (const uint8_t *)p);
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(void *)stack_end, reset, fault, fault, fault, fault, fault,
};

/* What a C library asks for at an assertion that fails. */
void abort(void);
void abort(void)
{
    put("FAIL abort: an assertion failed\n");
    leave(1);
}
