"""upside down"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    launches = layers * kernels_per_layer
    launch_ms = launches * launch_us / 1000
    return launches, launch_ms, target_ms / launch_ms
