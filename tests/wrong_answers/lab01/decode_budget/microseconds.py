"""not in milliseconds"""


def decode_budget(layers, kernels_per_layer, launch_us, target_ms):
    launches = layers * kernels_per_layer
    launch_us_in_all = launches * launch_us
    return launches, launch_us_in_all, launch_us_in_all / target_ms
