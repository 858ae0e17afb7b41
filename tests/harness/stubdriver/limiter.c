/*
 * A stub of HAMi-core: preloaded, it stands before three functions of whoever looks them up with dlsym, and holds a
 * process to CUDA_DEVICE_MEMORY_LIMIT_0 (such as 1024m) and CUDA_DEVICE_SM_LIMIT (per cent; it rests after each kernel).
 * What it knows stands in a region of layout 1.2 in the file CUDA_DEVICE_MEMORY_SHARED_CACHE; a recent kernel below 0
 * there lets kernels wait.
 *
 * STUB_LIMITER names promises, with commas, that it breaks: cores, region, priority.
 */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LATE_S 0.25

enum { MAGIC = 19920718, REGION_SIZE = 2008952 };

/* Where things are in a region of layout 1.2. */
enum { AT_MAJOR = 4, AT_MINOR = 8, AT_COUNT = 56, AT_UUID = 64, AT_MEMORY_LIMIT = 1600, AT_SM_LIMIT = 1728, AT_SLOT = 1856 };
enum { AT_SLOTS_USED = 2008896, AT_SWITCH = 2008900, AT_RECENT = 2008904, AT_PRIORITY = 2008908 };
enum { SLOT_PID = 0, SLOT_DATA = 8 + 16, SLOT_TOTAL = 8 + 32, SLOT_STATUS = 1928 };

static unsigned long long taken;
static char *region;

static int breaks(const char *promise) {
    const char *broken = getenv("STUB_LIMITER");
    return broken && strstr(broken, promise);
}

static void put32(unsigned at, int32_t value) { *(volatile int32_t *)(region + at) = value; }
static int32_t get32(unsigned at) { return *(volatile int32_t *)(region + at); }
static void put64(unsigned at, uint64_t value) { *(volatile uint64_t *)(region + at) = value; }

/* The real dlsym, by the versions under which C libraries of x86-64 and of Arm have it. */
static void *look_up(void *handle, const char *name) {
    static const char *versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *(*real)(void *, const char *) = NULL;
    for (unsigned place = 0; !real && place < 3; ++place)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", versions[place]);
    return real ? real(handle, name) : NULL;
}

static void *find_real(const char *name) { return look_up(dlopen("libcuda.so.1", RTLD_NOW), name); }

static unsigned long long read_limit(void) {
    const char *text = getenv("CUDA_DEVICE_MEMORY_LIMIT_0");
    return text ? strtoull(text, NULL, 10) << 20 : ~0ull;
}

static int read_number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void open_region(void) {
    const char *path = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"), *card = getenv("CUDA_VISIBLE_DEVICES");
    int file = path && !region ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file < 0)
        return;
    void *place = ftruncate(file, REGION_SIZE + 1) == 0
                      ? mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                      : MAP_FAILED;
    close(file);
    if (place == MAP_FAILED)
        return;
    region = place;
    put32(AT_MAJOR, 1);
    put32(AT_MINOR, 2);
    put64(AT_COUNT, 1);
    strncpy(region + AT_UUID, card ? card : "", 95);
    put64(AT_MEMORY_LIMIT, read_limit());
    put64(AT_SM_LIMIT, (uint64_t)read_number("CUDA_DEVICE_SM_LIMIT", 100));
    memset(region + AT_SLOT, 0, SLOT_STATUS);
    put32(AT_SLOT + SLOT_PID, (int32_t)getpid());
    put32(AT_SLOT + SLOT_STATUS, 1);
    put32(AT_SLOTS_USED, 1);
    put32(AT_SWITCH, 1);
    put32(AT_RECENT, 2);
    put32(AT_PRIORITY, read_number("CUDA_TASK_PRIORITY", 1));
    put32(0, MAGIC);
}

static int limited_alloc(unsigned long long *place, size_t size) {
    int (*real)(unsigned long long *, size_t);
    *(void **)&real = find_real("cuMemAlloc_v2");
    if (taken + size > read_limit())
        return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    int result = real(place, size);
    if (result)
        return result;
    taken += size;
    open_region();
    if (region) {
        put64(AT_SLOT + SLOT_DATA, taken);
        put64(AT_SLOT + SLOT_TOTAL, breaks("region") ? 2 * taken : taken);
    }
    return 0;
}

static int limited_info(size_t *free_bytes, size_t *total) {
    *total = (size_t)read_limit();
    *free_bytes = *total - (size_t)taken;
    return 0;
}

/* Waits for those of higher priority, and notes that there is a kernel. */
static void wait_for_turn(void) {
    while (region && get32(AT_RECENT) < 0 && !breaks("priority"))
        sleep_until_s(read_clock_s() + 0.002);
    if (region && get32(AT_RECENT) >= 0)
        put32(AT_RECENT, 2);
}

/* Waits until the card's time of all kernels so far is `limit` per cent of all time since the first one. */
static void rest(int limit) {
    static double turn_s;
    double (*spun_s)(void);
    *(void **)&spun_s = find_real("stub_spun_s");
    double now_s = read_clock_s();
    turn_s = (now_s - turn_s < LATE_S ? turn_s : now_s) + spun_s() * 100 / limit;
    sleep_until_s(turn_s);
}

static int limited_launch(const void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
    int (*real)(const void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **);
    *(void **)&real = find_real("cuLaunchKernel");
    wait_for_turn();
    int result = real(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
    int limit = read_number("CUDA_DEVICE_SM_LIMIT", 100);
    if (region && get32(AT_SWITCH) && limit > 0 && limit < 100 && !breaks("cores"))
        rest(limit);
    return result;
}

void *dlsym(void *restrict handle, const char *restrict name) {
    static const struct {
        const char *name;
        void *function;
    } limited[] = {{"cuMemAlloc_v2", (void *)limited_alloc},
                   {"cuMemGetInfo_v2", (void *)limited_info},
                   {"cuLaunchKernel", (void *)limited_launch}};
    for (unsigned place = 0; place < sizeof limited / sizeof *limited; ++place)
        if (strcmp(name, limited[place].name) == 0)
            return limited[place].function;
    return look_up(handle, name);
}
