/* A clock that nobody sets, in seconds, and waiting by it. */
#ifndef STUB_CLOCK_H
#define STUB_CLOCK_H

#include <time.h>

static inline double read_clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void sleep_until_s(double moment_s) {
    struct timespec moment = {(time_t)moment_s, (long)((moment_s - (double)(time_t)moment_s) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
}

#endif
