"""in another order"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    launches = layers * kernels_per_layer
    launch_ms = launches * launch_us / 1000
    return launch_ms, launches, launch_ms / target_ms
