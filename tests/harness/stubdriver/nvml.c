/*
 * A stub of NVIDIA's Management Library: functions and signatures of its public reference over the cards of a file.
 *
 * Keys of a card: uuid, name, memory_bytes (without it the card cannot tell), used_bytes, reserved_bytes (what the
 * driver keeps for itself), pci_bus_id, minor, event_types, utilization {gpu, memory}, processes [{pid, used_bytes, gpu_instance}], ancestors {UUID: level},
 * links [{remote, type, state}], and those of nvml_mig.c. What processes of the stub of libcuda hold is added.
 */
#define _POSIX_C_SOURCE 200809L
#include "nvml.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_DEVICES 512
#define MOST_PROCESSES 256

static struct nvmlDevice_st devices[MOST_DEVICES];
static unsigned device_count, generation, delivered, initialised;

/* Forgets what the library knew when the state comes from another file. */
static void follow_state(const struct call *call) {
    if (generation == state_generation())
        return;
    generation = state_generation();
    delivered = initialised = 0;
    make_described_instances(call);
}

nvmlReturn_t begin(struct call *call, const char *function, const char *uuid) {
    nvmlReturn_t result = begin_call(call, function, uuid, NVML_ERROR_UNINITIALIZED, NVML_ERROR_GPU_IS_LOST);
    if (result)
        return result;
    follow_state(call);
    return initialised ? NVML_SUCCESS : end_call(call, NVML_ERROR_UNINITIALIZED);
}

nvmlReturn_t begin_on(struct call *call, const char *function, nvmlDevice_t device) {
    return device ? begin(call, function, device->card) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t begin_in(struct call *call, const char *function, nvmlGpuInstance_t instance) {
    return instance ? begin(call, function, instance->card) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlDevice_t find_device(const char *card, unsigned gpu_instance) {
    for (unsigned place = 0; place < device_count; ++place)
        if (devices[place].gpu_instance == gpu_instance && strcmp(devices[place].card, card) == 0)
            return &devices[place];
    if (device_count == MOST_DEVICES)
        abort();
    struct nvmlDevice_st *device = &devices[device_count++];
    snprintf(device->card, sizeof device->card, "%s", card);
    device->gpu_instance = gpu_instance;
    return device;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    CALL(begin_call, NULL, NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_GPU_IS_LOST);
    follow_state(&call);
    ++initialised;
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    CALL(begin, NULL);
    --initialised;
    return end_call(&call, NVML_SUCCESS);
}

const char *nvmlErrorString(nvmlReturn_t result) {
    static char text[32];
    snprintf(text, sizeof text, "error %d", result);
    return text;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    CALL(begin, NULL);
    tell_text(&call, json_text(call.state, "driver_version", "0.0"), version, length);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    CALL(begin, NULL);
    *count = (unsigned)tell_number(&call, json_length(json_find(call.state, "cards")));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    struct call call;
    char uuid[96] = "";
    /* The card is found first, because its own errors count. */
    nvmlReturn_t result = begin(&call, "(which card)", NULL);
    if (result)
        return result;
    const struct json *card = json_item(json_find(call.state, "cards"), index);
    if (card)
        snprintf(uuid, sizeof uuid, "%s", json_text(card, "uuid", ""));
    end_call(&call, NVML_SUCCESS);
    result = begin(&call, __func__, card ? uuid : NULL);
    if (result)
        return result;
    if (!card)
        return end_call(&call, NVML_ERROR_INVALID_ARGUMENT);
    *device = find_device(uuid, 0);
    return end_call(&call, NVML_SUCCESS);
}

/* Reads MIG-<card's UUID without GPU->-<id> as the card's UUID and the id; the id of a card's own UUID is 0. */
static unsigned split_uuid(const char *uuid, char *card, unsigned size) {
    const char *dash = strrchr(uuid, '-');
    if (strncmp(uuid, "MIG-", 4) != 0 || dash - uuid < 4) {
        snprintf(card, size, "%s", uuid);
        return 0;
    }
    snprintf(card, size, "GPU-%.*s", (int)(dash - uuid - 4), uuid + 4);
    return (unsigned)strtoul(dash + 1, NULL, 10);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    struct call call;
    char card[96];
    unsigned instance = split_uuid(uuid, card, sizeof card);
    nvmlReturn_t result = begin(&call, "(which card)", NULL);
    if (result)
        return result;
    int is_there = find_card(&call, card) && (!instance || find_instance(card, instance));
    end_call(&call, NVML_SUCCESS);
    result = begin(&call, __func__, is_there ? card : NULL);
    if (result)
        return result;
    if (!is_there)
        return end_call(&call, NVML_ERROR_NOT_FOUND);
    *device = find_device(card, instance);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    char name[128];
    CALL(begin_on, device);
    const char *rest = strncmp(device->card, "GPU-", 4) == 0 ? device->card + 4 : device->card;
    if (device->gpu_instance)
        snprintf(name, sizeof name, "MIG-%s-%u", rest, device->gpu_instance);
    else
        snprintf(name, sizeof name, "%s", device->card);
    tell_text(&call, name, uuid, length);
    return end_call(&call, NVML_SUCCESS);
}

/* The profile of the instance that a handle stands for, NULL for a whole card. */
static const struct json *profile_of(const struct call *call, nvmlDevice_t device) {
    struct nvmlGpuInstance_st *instance = device->gpu_instance ? find_instance(device->card, device->gpu_instance) : NULL;
    return instance ? find_profile(call->card, instance->profile) : NULL;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    char text[256];
    CALL(begin_on, device);
    const struct json *profile = profile_of(&call, device);
    snprintf(text, sizeof text, "%s%s%s", json_text(call.card, "name", ""), profile ? " " : "",
             profile ? json_text(profile, "name", "") : "");
    tell_text(&call, text, name, length);
    return end_call(&call, NVML_SUCCESS);
}

/* Calls `take` for each process that holds memory of a card through the stub of libcuda, and lives. */
static void read_holders(const char *card, void (*take)(void *to, unsigned pid, unsigned long long bytes), void *to) {
    char folder[4200], path[4600];
    DIR *entries = processes_folder(folder, sizeof folder) ? opendir(folder) : NULL;
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char *uuid = strchr(entry->d_name, '.');
        long pid = strtol(entry->d_name, NULL, 10);
        if (!uuid || pid <= 0 || strcmp(uuid + 1, card) != 0 || kill((pid_t)pid, 0) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "r");
        unsigned long long bytes = 0;
        if (file && fscanf(file, "%llu", &bytes) == 1)
            take(to, (unsigned)pid, bytes);
        if (file)
            fclose(file);
    }
    closedir(entries);
}

static void add_bytes(void *to, unsigned pid, unsigned long long bytes) {
    (void)pid;
    *(unsigned long long *)to += bytes;
}

static unsigned long long to_bytes(double number) {
    return number >= 18446744073709551615.0 ? ~0ull : (unsigned long long)number;
}

static unsigned long long subtract(unsigned long long from, unsigned long long number) {
    return from > number ? from - number : 0;
}

/* Reads total, reserved and used. */
static nvmlReturn_t read_memory(const struct call *call, nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    const struct json *profile = profile_of(call, device);
    double total = profile ? json_number(profile, "memory_mib", 0) * 1048576 : json_number(call->card, "memory_bytes", -1);
    if (total < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = to_bytes(total);
    memory->reserved = to_bytes(json_number(call->card, "reserved_bytes", 0));
    memory->used = to_bytes(json_number(call->card, "used_bytes", 0));
    read_holders(device->card, add_bytes, &memory->used);
    return NVML_SUCCESS;
}

/* Version 1 knows nothing of what is reserved, and counts it as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlMemory_v2_t read;
    CALL(begin_on, device);
    nvmlReturn_t result = read_memory(&call, device, &read);
    if (result)
        return end_call(&call, result);
    memory->total = to_bytes(tell_number(&call, (double)read.total));
    memory->used = read.used + read.reserved;
    memory->free = subtract(memory->total, memory->used);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    CALL(begin_on, device);
    if (memory->version != NVML_MEMORY_V2)
        return end_call(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    nvmlReturn_t result = read_memory(&call, device, memory);
    if (result)
        return end_call(&call, result);
    memory->used = to_bytes(tell_number(&call, (double)memory->used));
    memory->free = subtract(subtract(memory->total, memory->reserved), memory->used);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    CALL(begin_on, device);
    memset(pci, 0, sizeof *pci);
    tell_text(&call, json_text(call.card, "pci_bus_id", ""), pci->busId, sizeof pci->busId);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) {
    CALL(begin_on, device);
    *minor = (unsigned)tell_number(&call, json_number(call.card, "minor", 0));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    CALL(begin_on, device);
    const struct json *told = json_find(call.card, "utilization");
    rates->gpu = (unsigned)tell_number(&call, json_number(told, "gpu", 0));
    rates->memory = (unsigned)tell_number(&call, json_number(told, "memory", 0));
    return end_call(&call, NVML_SUCCESS);
}

struct process_list {
    nvmlProcessInfo_t found[MOST_PROCESSES];
    unsigned length;
};

static void add_process(struct process_list *list, unsigned pid, unsigned long long bytes, unsigned gpu_instance) {
    if (list->length < MOST_PROCESSES)
        list->found[list->length++] = (nvmlProcessInfo_t){pid, bytes, gpu_instance, gpu_instance == NVML_NO_INSTANCE
                                                                                        ? NVML_NO_INSTANCE
                                                                                        : 0};
}

static void add_holder(void *to, unsigned pid, unsigned long long bytes) {
    add_process(to, pid, bytes, NVML_NO_INSTANCE);
}

/* A card tells of all processes, an instance of its own. */
static void list_processes(const struct call *call, nvmlDevice_t device, struct process_list *list) {
    for (JSON_EACH(each, json_find(call->card, "processes"))) {
        double bytes = json_number(each, "used_bytes", -1);
        unsigned instance = (unsigned)json_number(each, "gpu_instance", NVML_NO_INSTANCE);
        if (!device->gpu_instance || device->gpu_instance == instance)
            add_process(list, (unsigned)json_number(each, "pid", 0),
                        bytes < 0 ? NVML_MEMORY_NOT_TOLD : (unsigned long long)bytes, instance);
    }
    if (!device->gpu_instance)
        read_holders(device->card, add_holder, list);
}

static nvmlReturn_t tell_processes(const char *function, nvmlDevice_t device, unsigned *count,
                                   nvmlProcessInfo_t *infos) {
    struct call call;
    struct process_list list = {.length = 0};
    nvmlReturn_t result = begin_on(&call, function, device);
    if (result)
        return result;
    list_processes(&call, device, &list);
    unsigned told = (unsigned)tell_number(&call, list.length), room = *count;
    *count = told;
    if (told > room || (told && !infos))
        return end_call(&call, NVML_ERROR_INSUFFICIENT_SIZE);
    for (unsigned place = 0; place < told && place < list.length; ++place)
        infos[place] = list.found[place];
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
    return tell_processes(__func__, device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) {
    return tell_processes(__func__, device, count, infos);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *level) {
    CALL(begin_on, one);
    *level = (unsigned)tell_number(&call, json_number(json_find(call.card, "ancestors"), other->card,
                                                      NVML_TOPOLOGY_SYSTEM));
    return end_call(&call, NVML_SUCCESS);
}

/* Begins a call about a link; `link` is NULL for one that the card does not have. */
static nvmlReturn_t begin_link(struct call *call, const char *function, nvmlDevice_t device, unsigned number,
                               const struct json **link) {
    nvmlReturn_t result = begin_on(call, function, device);
    if (result)
        return result;
    *link = json_item(json_find(call->card, "links"), number);
    return *link ? NVML_SUCCESS : end_call(call, NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned number, unsigned *is_active) {
    const struct json *link;
    CALL(begin_link, device, number, &link);
    *is_active = (unsigned)tell_number(&call, json_number(link, "state", 1));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned number, nvmlPciInfo_t *pci) {
    const struct json *link;
    CALL(begin_link, device, number, &link);
    memset(pci, 0, sizeof *pci);
    tell_text(&call, json_text(link, "remote", ""), pci->busId, sizeof pci->busId);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned number, unsigned *type) {
    const struct json *link;
    CALL(begin_link, device, number, &link);
    *type = (unsigned)tell_number(&call, json_number(link, "type", 0));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    CALL(begin, NULL);
    *set = malloc(1);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    CALL(begin, NULL);
    free(set);
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    CALL(begin_on, device);
    *types = (unsigned long long)tell_number(&call, json_number(call.card, "event_types", 11));
    return end_call(&call, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    CALL(begin_on, device);
    journal("registered %s %llu", device->card, types);
    return end_call(&call, set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t report_event(struct call *call, const struct json *event, nvmlEventData_t *data) {
    ++delivered;
    data->device = find_device(json_text(event, "card", ""), 0);
    data->eventType = (unsigned long long)tell_number(call, json_number(event, "type", 8));
    data->eventData = (unsigned long long)json_number(event, "data", 0);
    data->gpuInstanceId = (unsigned)json_number(event, "gpu_instance", NVML_NO_INSTANCE);
    data->computeInstanceId = (unsigned)json_number(event, "compute_instance", NVML_NO_INSTANCE);
    return end_call(call, NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
    CALL(begin, NULL);
    if (!set)
        return end_call(&call, NVML_ERROR_INVALID_ARGUMENT);
    const struct json *event = json_item(json_find(call.state, "events"), delivered);
    if (event)
        return report_event(&call, event, data);
    double wait_ms = json_number(call.state, "wait_ms", timeout_ms);
    wait_ms = wait_ms < timeout_ms ? wait_ms : timeout_ms;
    journal("waited %u", timeout_ms);
    end_call(&call, NVML_SUCCESS);
    struct timespec pause = {(time_t)(wait_ms / 1000), ((long)wait_ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
    return NVML_ERROR_TIMEOUT;
}
