/*
 * A stub of CUDA's driver library, with those functions of its public reference that gpuloom's programs call. Memory of
 * a card is memory of the process. Two kernels are known by their names: gpuloom_fill, and gpuloom_spin, which takes
 * 100 ns for each turn whatever else is on the card. One that comes late, because the machine is busy, counts as begun
 * when the last one ended: the card has no pauses of the machine's making.
 *
 * The variable CUDA_VISIBLE_DEVICES names cards by UUID, with commas; without it all are seen. What a process holds
 * stands in a file for NVML, see processes_folder. The driver knows processes in containers by the machine's numbers:
 * STUB_HOST_PROC names a folder where they see the machine's /proc.
 */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"
#include "stub.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int CUresult;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100 };

#define MOST_CARDS 64
#define LATE_S 0.25

static char visible[MOST_CARDS][96];
static int visible_count;
static unsigned long long held;
static const char *kernels[] = {"gpuloom_fill", "gpuloom_spin"};

static CUresult begin(struct call *call, const char *function) {
    const char *card = visible_count ? visible[0] : NULL;
    return begin_call(call, function, card, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
}

static int is_wanted(const char *uuid) {
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    const char *found = wanted ? strstr(wanted, uuid) : NULL;
    return !wanted || (found && (found[strlen(uuid)] == 0 || found[strlen(uuid)] == ','));
}

CUresult cuInit(unsigned flags) {
    (void)flags;
    CALL(begin_call, NULL, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
    visible_count = 0;
    for (JSON_EACH(card, json_find(call.state, "cards")))
        if (visible_count < MOST_CARDS && is_wanted(json_text(card, "uuid", "")))
            snprintf(visible[visible_count++], sizeof visible[0], "%s", json_text(card, "uuid", ""));
    return end_call(&call, visible_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}

CUresult cuDeviceGetCount(int *count) {
    CALL(begin);
    *count = (int)tell_number(&call, visible_count);
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuDeviceGet(int *device, int ordinal) {
    CALL(begin);
    *device = ordinal;
    return end_call(&call, ordinal < visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceGetUuid(unsigned char uuid[16], int device) {
    CALL(begin);
    const char *at = visible[device] + 4; /* after GPU- */
    for (unsigned place = 0; place < 16; ++place, at += 2) {
        unsigned byte = 0;
        at += *at == '-';
        sscanf(at, "%2x", &byte);
        uuid[place] = (unsigned char)byte;
    }
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL(begin);
    *context = visible[device];
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(void *context) {
    CALL(begin);
    return end_call(&call, context == visible[0] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CALL(begin);
    *total = (size_t)tell_number(&call, json_number(call.card, "memory_bytes", 0));
    *free_bytes = *total > held ? *total - held : 0;
    return end_call(&call, CUDA_SUCCESS);
}

static long read_pid(void) {
    const char *proc = getenv("STUB_HOST_PROC");
    char path[4200], number[32] = "";
    snprintf(path, sizeof path, "%s/self", proc ? proc : "/proc");
    return readlink(path, number, sizeof number - 1) > 0 ? atol(number) : (long)getpid();
}

static void note_held(void) {
    char folder[4200], path[4600];
    if (!processes_folder(folder, sizeof folder))
        return;
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%ld.%s", folder, read_pid(), visible[0]);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%llu", held);
        fclose(file);
    }
}

CUresult cuMemAlloc_v2(unsigned long long *place, size_t size) {
    CALL(begin);
    if (held + size > json_number(call.card, "memory_bytes", 0))
        return end_call(&call, CUDA_ERROR_OUT_OF_MEMORY);
    void *memory = malloc(size);
    if (!memory)
        return end_call(&call, CUDA_ERROR_OUT_OF_MEMORY);
    *place = (unsigned long long)(uintptr_t)memory;
    held += size;
    note_held();
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuModuleLoadData(void **module, const void *image) {
    CALL(begin);
    *module = visible;
    return end_call(&call, strstr(image, ".entry gpuloom_fill(") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuModuleGetFunction(const void **function, void *module, const char *name) {
    CALL(begin);
    (void)module;
    for (unsigned place = 0; place < sizeof kernels / sizeof *kernels; ++place)
        if (strcmp(name, kernels[place]) == 0) {
            *function = &kernels[place];
            return end_call(&call, CUDA_SUCCESS);
        }
    return end_call(&call, CUDA_ERROR_INVALID_VALUE);
}

static double spun_s;

/* How long the last gpuloom_spin had the card; for the stub of HAMi-core, which cannot look at a card's use. */
double stub_spun_s(void) { return spun_s; }

static void spin(uint32_t turns) {
    static double end_s;
    double now_s = read_clock_s();
    spun_s = turns / 1e7;
    end_s = (now_s - end_s < LATE_S ? end_s : now_s) + spun_s;
    sleep_until_s(end_s);
}

CUresult cuLaunchKernel(const void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **arguments,
                        void **extra) {
    CALL(begin);
    (void)grid_y, (void)grid_z, (void)block_y, (void)block_z, (void)shared, (void)stream, (void)extra;
    uint32_t *numbers = (uint32_t *)(uintptr_t)*(unsigned long long *)arguments[0];
    uint32_t count = *(uint32_t *)arguments[1], factor = (uint32_t)tell_number(&call, 3);
    if (function == &kernels[1]) {
        end_call(&call, CUDA_SUCCESS);
        spin(count);
        return CUDA_SUCCESS;
    }
    for (uint32_t number = 0; number < count && number < grid_x * block_x; ++number)
        numbers[number] = factor * number + 1;
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void) {
    CALL(begin);
    return end_call(&call, CUDA_SUCCESS);
}

CUresult cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
    CALL(begin);
    memcpy(to, (const void *)(uintptr_t)from, size);
    return end_call(&call, CUDA_SUCCESS);
}
