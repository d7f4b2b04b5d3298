"""One file a kind of task: its columns, encoding, head, loss, decoding, score, file formats and mistakes."""
