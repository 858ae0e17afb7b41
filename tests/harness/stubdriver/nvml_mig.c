/*
 * The functions of NVML that divide cards. Keys of a card: mig_mode (without it the card cannot be divided),
 * needs_reset (switching MIG on waits for a reset), instances [{id, profile, start, has_compute}] that are there at the
 * start, and mig_profiles [{number, id, name, memory_mib, multiprocessors, slices, count, size, starts}].
 *
 * A card's compute profiles are those of as many slices as its profiles have; they are numbered from 0.
 */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#define MOST_INSTANCES 64
#define MOST_MIG_DEVICES 7
#define MOST_SWITCHED 64

static struct nvmlGpuInstance_st instances[MOST_INSTANCES];
static struct {
    char card[96];
    unsigned mode;
} switched[MOST_SWITCHED];

static int is_used(const struct nvmlGpuInstance_st *instance) { return instance->id != 0; }

const struct json *find_profile(const struct json *card, unsigned id) {
    for (JSON_EACH(each, json_find(card, "mig_profiles")))
        if ((unsigned)json_number(each, "id", -1) == id)
            return each;
    return NULL;
}

struct nvmlGpuInstance_st *find_instance(const char *card, unsigned id) {
    for (unsigned place = 0; place < MOST_INSTANCES; ++place)
        if (instances[place].id == id && is_used(&instances[place]) && strcmp(instances[place].card, card) == 0)
            return &instances[place];
    return NULL;
}

static struct nvmlGpuInstance_st *make_instance(const char *card, unsigned id, unsigned profile, unsigned start,
                                                unsigned size) {
    for (unsigned place = 0; place < MOST_INSTANCES; ++place) {
        if (is_used(&instances[place]))
            continue;
        snprintf(instances[place].card, sizeof instances[place].card, "%s", card);
        instances[place].id = id;
        instances[place].profile = profile;
        instances[place].start = start;
        instances[place].size = size;
        instances[place].has_compute = 0;
        return &instances[place];
    }
    return NULL;
}

void make_described_instances(const struct call *call) {
    memset(instances, 0, sizeof instances);
    memset(switched, 0, sizeof switched);
    for (JSON_EACH(card, json_find(call->state, "cards"))) {
        for (JSON_EACH(each, json_find(card, "instances"))) {
            unsigned profile = (unsigned)json_number(each, "profile", 0);
            struct nvmlGpuInstance_st *made = make_instance(
                json_text(card, "uuid", ""), (unsigned)json_number(each, "id", 0), profile,
                (unsigned)json_number(each, "start", 0), (unsigned)json_number(find_profile(card, profile), "size", 1));
            if (made)
                made->has_compute = (int)json_number(each, "has_compute", 1);
        }
    }
}

static unsigned read_mode(const struct call *call, const char *card) {
    for (unsigned place = 0; place < MOST_SWITCHED; ++place)
        if (strcmp(switched[place].card, card) == 0)
            return switched[place].mode;
    return (unsigned)json_number(call->card, "mig_mode", 0);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    CALL(begin_on, device);
    if (!json_find(call.card, "mig_mode"))
        return end_call(&call, NVML_ERROR_NOT_SUPPORTED);
    *current = *pending = (unsigned)tell_number(&call, read_mode(&call, device->card));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *status) {
    CALL(begin_on, device);
    *status = NVML_SUCCESS;
    journal("switched %s %u", device->card, mode);
    for (unsigned place = 0; place < MOST_SWITCHED && !json_number(call.card, "needs_reset", 0); ++place) {
        if (switched[place].card[0] && strcmp(switched[place].card, device->card) != 0)
            continue;
        snprintf(switched[place].card, sizeof switched[place].card, "%s", device->card);
        switched[place].mode = mode;
        break;
    }
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    CALL(begin_on, device);
    *count = (unsigned)tell_number(&call, json_find(call.card, "mig_mode") ? MOST_MIG_DEVICES : 0);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *found) {
    CALL(begin_on, device);
    for (unsigned place = 0; place < MOST_INSTANCES; ++place) {
        const struct nvmlGpuInstance_st *each = &instances[place];
        if (!is_used(each) || !each->has_compute || strcmp(each->card, device->card) != 0 || index-- > 0)
            continue;
        *found = find_device(each->card, each->id);
        return end_call(&call, NVML_SUCCESS);
    }
    return end_call(&call, NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
    CALL(begin_on, device);
    *id = (unsigned)tell_number(&call, device->gpu_instance);
    return end_call(&call, device->gpu_instance ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
    CALL(begin_on, device);
    *id = (unsigned)tell_number(&call, 0);
    return end_call(&call, device->gpu_instance ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned number,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info) {
    CALL(begin_on, device);
    for (JSON_EACH(each, json_find(call.card, "mig_profiles"))) {
        if ((unsigned)json_number(each, "number", -1) != number)
            continue;
        info->id = (unsigned)json_number(each, "id", 0);
        info->sliceCount = (unsigned)json_number(each, "slices", 1);
        info->instanceCount = (unsigned)tell_number(&call, json_number(each, "count", 1));
        info->multiprocessorCount = (unsigned)json_number(each, "multiprocessors", 0);
        info->memorySizeMB = (unsigned long long)json_number(each, "memory_mib", 0);
        snprintf(info->name, sizeof info->name, "%s", json_text(each, "name", ""));
        return end_call(&call, NVML_SUCCESS);
    }
    return end_call(&call, NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned profile,
                                                           nvmlGpuInstancePlacement_t *places, unsigned *count) {
    CALL(begin_on, device);
    const struct json *found = find_profile(call.card, profile), *starts = json_find(found, "starts");
    if (!found)
        return end_call(&call, NVML_ERROR_NOT_SUPPORTED);
    unsigned room = *count;
    *count = (unsigned)tell_number(&call, json_length(starts));
    if (!places)
        return end_call(&call, NVML_SUCCESS);
    if (room < *count)
        return end_call(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned place = 0; place < json_length(starts) && place < room; ++place)
        places[place] = (nvmlGpuInstancePlacement_t){(unsigned)json_item(starts, place)->number,
                                                     (unsigned)json_number(found, "size", 1)};
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profile, nvmlGpuInstance_t *found,
                                       unsigned *count) {
    CALL(begin_on, device);
    *count = 0;
    for (unsigned place = 0; place < MOST_INSTANCES; ++place) {
        struct nvmlGpuInstance_st *each = &instances[place];
        if (is_used(each) && each->profile == profile && strcmp(each->card, device->card) == 0)
            found[(*count)++] = each;
    }
    *count = (unsigned)tell_number(&call, *count);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *found) {
    CALL(begin_on, device);
    *found = find_instance(device->card, id);
    return end_call(&call, *found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}

static int overlaps(const struct nvmlGpuInstance_st *each, const char *card, const nvmlGpuInstancePlacement_t *place) {
    return is_used(each) && strcmp(each->card, card) == 0 && each->start < place->start + place->size &&
           place->start < each->start + each->size;
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profile,
                                                      const nvmlGpuInstancePlacement_t *place,
                                                      nvmlGpuInstance_t *made) {
    CALL(begin_on, device);
    unsigned id = 1;
    for (unsigned other = 0; other < MOST_INSTANCES; ++other)
        if (overlaps(&instances[other], device->card, place))
            return end_call(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    while (find_instance(device->card, id))
        ++id;
    *made = make_instance(device->card, id, profile, place->start, place->size);
    return end_call(&call, *made ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_RESOURCES);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info) {
    CALL(begin_in, instance);
    info->device = find_device(instance->card, 0);
    info->id = (unsigned)tell_number(&call, instance->id);
    info->profileId = instance->profile;
    info->placement = (nvmlGpuInstancePlacement_t){instance->start, instance->size};
    return end_call(&call, NVML_SUCCESS);
}

/* The number of slices of the card's compute profile with this number, 0 if there is none. */
static unsigned count_slices(const struct json *card, unsigned number) {
    const struct json *profile = json_item(json_find(card, "mig_profiles"), number);
    return (unsigned)json_number(profile, "slices", 0);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned number, unsigned engine,
                                                           nvmlComputeInstanceProfileInfo_v2_t *info) {
    CALL(begin_in, instance);
    unsigned slices = count_slices(call.card, number);
    if (engine != 0 || number >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        return end_call(&call, NVML_ERROR_INVALID_ARGUMENT);
    if (!slices)
        return end_call(&call, NVML_ERROR_NOT_SUPPORTED);
    info->id = number;
    info->sliceCount = slices;
    info->instanceCount = (unsigned)tell_number(&call, MOST_MIG_DEVICES);
    return end_call(&call, NVML_SUCCESS);
}

static int is_whole(const struct json *card, const struct nvmlGpuInstance_st *instance, unsigned compute_profile) {
    return count_slices(card, compute_profile) ==
           (unsigned)json_number(find_profile(card, instance->profile), "slices", 0);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned profile,
                                                  nvmlComputeInstance_t *made) {
    CALL(begin_in, instance);
    if (instance->has_compute || !is_whole(call.card, instance, profile))
        return end_call(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
    instance->has_compute = 1;
    *made = instance;
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned profile,
                                                nvmlComputeInstance_t *found, unsigned *count) {
    CALL(begin_in, instance);
    *count = instance->has_compute && is_whole(call.card, instance, profile);
    if (*count)
        found[0] = instance;
    *count = (unsigned)tell_number(&call, *count);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
    CALL(begin_in, instance);
    instance->has_compute = 0;
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    CALL(begin_in, instance);
    if (instance->has_compute)
        return end_call(&call, NVML_ERROR_IN_USE);
    instance->id = 0;
    return end_call(&call, NVML_SUCCESS);
}
