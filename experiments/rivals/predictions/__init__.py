"""What changes with the camera, the width and the environment of an agent, and with its loss."""
