"""Models, and layers between an encoder and its head, for which transformers has no class."""
