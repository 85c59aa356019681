"""Score records: what was scored, by which signature, on which machine; writing, reading, verifying."""
