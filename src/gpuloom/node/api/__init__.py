"""The kubelet's device plugin API v1beta1: ``deviceplugin.proto`` and the code generated from it.

Nothing here is written by hand except the proto; ``tools/grpc/generate.py`` makes the rest.
Source: device plugin 3.
"""
