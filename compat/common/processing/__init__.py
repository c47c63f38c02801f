"""Preprocessing of states and rewards on the host, in NumPy: one set of steps for all interfaces.

A function makes a step for arrays of one kind, from the step's place (for messages), from what goes in and from the
step's arguments. What needs no floats keeps its dtype. Images of integers stay what they are where they are resized or
made grey, with values rounded to the nearest; so images of bytes are stored as bytes until they are divided.
"""
