"""Built-in algorithms, one module each with its ``model_fn``, over shared networks and losses.

Nothing is imported here: ``from axonrl.models import dqn`` loads TensorFlow, naming the room does not.
"""
