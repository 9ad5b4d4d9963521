/* slow_sync: a disk on which a sync takes a fixed time, for any program: LD_PRELOAD=slow_sync.so
 *
 * fsync and fdatasync return SLOW_SYNC_US microseconds after they were called and do nothing else,
 * so that the real disk has no part in a figure. Syncs of several threads overlap, as on a disk
 * with a queue of its own.
 *
 * The one rule: for measuring only. What was written is in the memory of the system alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int late(int fd) {
    const char *told = getenv("SLOW_SYNC_US");
    long us = told ? atol(told) : 0;
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (fcntl(fd, F_GETFD) < 0) return -1; /* EBADF, as from the real one */
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
    return 0;
}

int fsync(int fd) { return late(fd); }
int fdatasync(int fd) { return late(fd); }
