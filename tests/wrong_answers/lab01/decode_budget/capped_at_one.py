"""the share is not spent time over the target, both in one unit"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    launches = layers * kernels_per_layer
    launch_ms = launches * launch_us / 1000
    return launches, launch_ms, min(1.0, launch_ms / target_ms)
