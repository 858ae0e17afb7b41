/*
 * What the stubs of NVIDIA's libraries share: the state, read afresh from a JSON file at every call, and a journal of
 * the calls. The variable GPULOOM_STUB_DRIVER names the file, or stub_use does; without it there is no driver.
 *
 *   cards    a list of cards, see nvml.c for their keys
 *   errors   what a function returns instead of working, by its name
 *   answers  what a function tells instead of the truth, by its name: a number or a text
 *   hangs    names of functions that do not return for as long as they stand there
 *   events   what nvmlEventSetWait_v2 reports, one after another
 *   wait_ms  the longest that a wait for events takes
 *
 * A card may have `errors`, `answers` and `hangs` of its own. The journal is the file's name with `.calls`: a line for
 * each call, its function, and the UUID of the card that it is about.
 */
#ifndef STUB_H
#define STUB_H

#include "json.h"

/* One call from begin_call to end_call, which hold the state's lock. */
struct call {
    const char *function;
    const struct json *state;
    const struct json *card;
};

/*
 * Begins a call about the card with this UUID, or about none. Returns 0, or what the function is to return at once:
 * then the call is over. `no_state` is what it returns without a driver, `lost` for a card that is not there.
 */
int begin_call(struct call *call, const char *function, const char *uuid, int no_state, int lost);

/*
 * The first line of a function of a library: from here on there is `call`, unless the function fails, hangs or has no
 * card; then it has returned. CALL(begin_on, device) begins with begin_on(&call, <the function's name>, device).
 */
#define CALL(how, ...)                                                                                                 \
    struct call call;                                                                                                  \
    int refusal = how(&call, __func__ __VA_OPT__(, ) __VA_ARGS__);                                                     \
    if (refusal)                                                                                                       \
        return refusal

/* Ends a call, and returns `result`. */
int end_call(struct call *call, int result);

/* What the call is to tell: the answer that is set for it, or the truth. */
double tell_number(const struct call *call, double truth);
void tell_text(const struct call *call, const char *truth, char *to, unsigned size);

/* The card with this UUID in the state of a call, NULL if there is none. */
const struct json *find_card(const struct call *call, const char *uuid);

/* Takes the state from this file from now on; there is no driver where it is not there. */
void stub_use(const char *path);

/* A number that changes when the state comes from another file. */
unsigned state_generation(void);

/* Writes a further line into the journal. */
void journal(const char *format, ...);

/* The folder in which processes leave a file for each card that they hold memory of: `<pid>.<UUID>`, bytes inside. */
int processes_folder(char *to, unsigned size);

#endif
