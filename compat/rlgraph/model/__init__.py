"""The models of agents, run by TensorFlow or LiteRT. Loads TensorFlow."""
