/*
 * A stub of HAMi-core: preloaded, it stands before cuMemAlloc_v2 and cuMemGetInfo_v2 of whoever looks them up with dlsym,
 * and holds a process to CUDA_DEVICE_MEMORY_LIMIT_0 (such as 1024m).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long taken;

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

static int limited_alloc(unsigned long long *place, size_t size) {
    int (*real)(unsigned long long *, size_t);
    *(void **)&real = find_real("cuMemAlloc_v2");
    if (taken + size > read_limit())
        return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    taken += size;
    return real(place, size);
}

static int limited_info(size_t *free_bytes, size_t *total) {
    *total = (size_t)read_limit();
    *free_bytes = *total - (size_t)taken;
    return 0;
}

void *dlsym(void *restrict handle, const char *restrict name) {
    if (strcmp(name, "cuMemAlloc_v2") == 0)
        return (void *)limited_alloc;
    if (strcmp(name, "cuMemGetInfo_v2") == 0)
        return (void *)limited_info;
    return look_up(handle, name);
}
