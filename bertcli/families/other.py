"""All other models of transformers: their batches are padded, and what differs is read off the model."""

from bertcli.families.family import Family, starts_after_padding

OTHER = Family("other", first_position=starts_after_padding)
