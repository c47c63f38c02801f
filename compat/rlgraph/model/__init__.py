"""The models of agents, which TensorFlow runs or LiteRT. They load TensorFlow."""
