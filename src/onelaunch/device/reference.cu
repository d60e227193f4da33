// The C++ reference: the same launches from C++, timed in C++, as a yardstick for what the Python APIs cost.
#include <chrono>
#include <cuda_runtime.h>

#include "kernels.cu"

#ifdef _WIN32
#define API extern "C" __declspec(dllexport)
#else
#define API extern "C"
#endif

static double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Launches `work` n times, round robin over `streams` (each with its own x).
static void launch(int n, int width, void** streams, long long** x) {
    for (int i = 0; i < n; i++) work<<<1, 1, 0, (cudaStream_t)streams[i % width]>>>(x[i % width]);
}

API int issue(int n, int width, void** streams, long long** x) {
    launch(n, width, streams, x);
    return (int)cudaGetLastError();
}

// out: host µs (all calls returned), total µs (all streams idle).
API int run(int n, int width, void** streams, long long** x, double* out) {
    double start = now_us();
    launch(n, width, streams, x);
    out[0] = now_us() - start;
    for (int k = 0; k < width; k++) cudaStreamSynchronize((cudaStream_t)streams[k]);
    out[1] = now_us() - start;
    return (int)cudaGetLastError();
}

// The stamped kernel, n times on one stream: begin and end of each launch call, µs on the clock that clock_us reads.
API double clock_us() { return now_us(); }

API int run_stamped(int n, void* stream, long long* x, double* begin, double* end) {
    for (int i = 0; i < n; i++) {
        begin[i] = now_us();
        work_stamped<<<1, 1, 0, (cudaStream_t)stream>>>(x);
        end[i] = now_us();
    }
    return (int)cudaGetLastError();
}

API int issue_stamped(int n, void* stream, long long* x) {
    for (int i = 0; i < n; i++) work_stamped<<<1, 1, 0, (cudaStream_t)stream>>>(x);
    return (int)cudaGetLastError();
}

// Replays of an executable graph, queued behind each other. out: host µs, total µs.
API int replay(void* executable, void* stream, int replays, double* out) {
    double start = now_us();
    for (int i = 0; i < replays; i++) cudaGraphLaunch((cudaGraphExec_t)executable, (cudaStream_t)stream);
    out[0] = now_us() - start;
    cudaStreamSynchronize((cudaStream_t)stream);
    out[1] = now_us() - start;
    return (int)cudaGetLastError();
}

__global__ void empty() {}

__global__ void latch(volatile int* open, long long timeout_ns) {
    long long start = globaltimer();
    while (!*open && globaltimer() - start < timeout_ns) {
    }
}

// A captured chain of `length` empty kernels, measured as NVIDIA's sample cudaGraphsPerfScaling defines its columns.
// out: capture, instantiation, first launch host, first launch total, replay host, replay total, replay device (µs). The
// latch holds the stream while the replay is submitted, so the device time has no host time in it.
API int sample_chain(int length, double* out) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t before, after;
    int* open;
    float ms = 0;
    cudaStreamCreate(&stream);
    cudaEventCreate(&before);
    cudaEventCreate(&after);
    cudaMallocHost(&open, sizeof(int));
    *(volatile int*)open = 0;
    empty<<<1, 1, 0, stream>>>();
    cudaStreamSynchronize(stream);

    double start = now_us();
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < length; i++) empty<<<1, 1, 0, stream>>>();
    cudaStreamEndCapture(stream, &graph);
    out[0] = now_us() - start;

    start = now_us();
    cudaGraphInstantiate(&executable, graph, 0);
    out[1] = now_us() - start;

    for (int k = 0; k < 2; k++) {
        start = now_us();
        cudaGraphLaunch(executable, stream);
        out[2 + 2 * k] = now_us() - start;
        cudaStreamSynchronize(stream);
        out[3 + 2 * k] = now_us() - start;
    }

    latch<<<1, 1, 0, stream>>>(open, 100000000LL);
    cudaEventRecord(before, stream);
    cudaGraphLaunch(executable, stream);
    cudaEventRecord(after, stream);
    *(volatile int*)open = 1;
    cudaStreamSynchronize(stream);
    cudaEventElapsedTime(&ms, before, after);
    out[6] = 1e3 * ms;

    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaEventDestroy(before);
    cudaEventDestroy(after);
    cudaFreeHost(open);
    cudaStreamDestroy(stream);
    return (int)cudaGetLastError();
}
