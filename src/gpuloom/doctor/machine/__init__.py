"""Checks of the machine that this process runs on: driver, runtime, kubelet, library, files."""
