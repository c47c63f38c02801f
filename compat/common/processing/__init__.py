"""Preprocessing of states and rewards on the host, in NumPy: one set of steps for all interfaces.

A function makes a step for one kind of array, from the step's place (for messages), its inputs and its arguments. Steps
that need no floats keep the dtype: resizing and greyscale round integer images to the nearest integer, so that uint8
images are stored as uint8 until they are divided.
"""
