/* The first launch of a graph and the next one, timed with no interpreter in between.

       cc -O3 -shared -fPIC -o launch_pair.so benchmarks/launch_pair.c

   What launches and what waits are passed in, so that no CUDA header is needed. */

#include <stdint.h>
#include <time.h>

typedef int (*launch_function)(void *executable, void *stream);
typedef int (*wait_function)(void *stream);

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Writes ns: first launch, until it was done, next launch, until that was done. Returns the first
   status that is not 0. */
int launch_pair(launch_function launch, wait_function wait, void *executable, void *stream, int64_t *ns)
{
    int64_t begin = now();
    int launched = launch(executable, stream);
    int64_t returned = now();
    int waited = wait(stream);
    int64_t done = now();
    int64_t again = now();
    int relaunched = launch(executable, stream);
    int64_t returned_again = now();
    int rewaited = wait(stream);
    int64_t done_again = now();
    ns[0] = returned - begin;
    ns[1] = done - begin;
    ns[2] = returned_again - again;
    ns[3] = done_again - again;
    return launched ? launched : waited ? waited : relaunched ? relaunched : rewaited;
}
