"""not three values"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    return layers * kernels_per_layer * launch_us / 1000 / target_ms
