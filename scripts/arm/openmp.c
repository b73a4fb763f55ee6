// What kernels call of OpenMP, on one thread: for scripts/arm/kernels.py, which runs them without the rest of dynamlir.
#include <stdarg.h>
#include <stdint.h>

typedef void (*Task)(int32_t *, int32_t *, void *, void *, void *);

void __kmpc_fork_call(void *location, int32_t count, Task task, ...) {
  void *given[3] = {0};
  va_list list;
  va_start(list, task);
  for (int i = 0; i < count && i < 3; i++)
    given[i] = va_arg(list, void *);
  va_end(list);
  int32_t thread = 0;
  task(&thread, &thread, given[0], given[1], given[2]);
}

void __kmpc_for_static_init_8u(void *location, int32_t thread, int32_t schedule, int32_t *last, uint64_t *lower, uint64_t *upper,
                               int64_t *stride, int64_t step, int64_t chunk) {
  *last = 1;
}

void __kmpc_for_static_fini(void *location, int32_t thread) {}
void __kmpc_barrier(void *location, int32_t thread) {}
int32_t __kmpc_global_thread_num(void *location) { return 0; }
