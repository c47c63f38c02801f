"""The model function of all agents, on TensorFlow and Keras."""
