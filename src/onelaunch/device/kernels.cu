// The kernels that the package times on a live GPU. x[0] counts launches, x[1] says for how many clock cycles a launch
// keeps its thread busy (0: the shortest kernel there is); from x[4] on, `work_stamped` leaves begin and end (ns).

__device__ __forceinline__ long long globaltimer() {
    long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

__device__ __forceinline__ void stay_busy(long long cycles) {
    if (cycles) {
        long long start = clock64();
        while (clock64() - start < cycles) {
        }
    }
}

extern "C" __global__ void work(long long* x) {
    long long cycles = x[1];
    x[0] += 1;
    stay_busy(cycles);
}

extern "C" __global__ void work_stamped(long long* x) {
    long long begin = globaltimer();
    long long cycles = x[1];
    long long i = x[0];
    x[0] = i + 1;
    stay_busy(cycles);
    x[4 + 2 * i] = begin;
    x[5 + 2 * i] = globaltimer();
}

// Tells the host, through pinned memory, that the device has got this far.
extern "C" __global__ void flag(volatile int* seen) { *seen = 1; }

// Answers the host, through pinned memory, and says when: for aligning the two clocks.
extern "C" __global__ void answer(volatile int* called, volatile long long* when) {
    while (!called[0]) {
    }
    *when = globaltimer();
    called[1] = 1;
}
