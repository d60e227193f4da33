"""the number of launches for one token is not right"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    launch_ms = kernels_per_layer * launch_us / 1000
    return kernels_per_layer, launch_ms, launch_ms / target_ms
