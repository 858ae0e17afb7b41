/* What the two halves of the stub of NVML share. */
#ifndef STUB_NVML_H
#define STUB_NVML_H

#include "nvml_types.h"
#include "stub.h"

/* A card, or an instance on a card: then `gpu_instance` is its id, otherwise 0. Handles are never given back. */
struct nvmlDevice_st {
    char card[96];
    unsigned gpu_instance;
};

/* A GPU instance; `has_compute` says that its compute instance was made. */
struct nvmlGpuInstance_st {
    char card[96];
    unsigned id, profile, start, size;
    int has_compute;
};

/* Begins a call of an initialised library; `uuid` is NULL for a call about no card. */
nvmlReturn_t begin(struct call *call, const char *function, const char *uuid);

/* The same about a card or an instance on it, and about a GPU instance; no handle is an invalid argument. */
nvmlReturn_t begin_on(struct call *call, const char *function, nvmlDevice_t device);
nvmlReturn_t begin_in(struct call *call, const char *function, nvmlGpuInstance_t instance);

/* The handle of a card, or of an instance on it. */
nvmlDevice_t find_device(const char *card, unsigned gpu_instance);

/* Makes the instances that the state describes; once for each state. */
void make_described_instances(const struct call *call);

/* The instance with this id on a card, NULL if it is not there. */
struct nvmlGpuInstance_st *find_instance(const char *card, unsigned id);

/* The profile of an instance in the card's list of profiles, NULL if the card has none with this id. */
const struct json *find_profile(const struct json *card, unsigned id);

#endif
