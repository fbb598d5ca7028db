"""What the KV cache of a model costs: bytes of tokens, and moving them against computing them again."""
