"""Any other model of transformers: its batches are padded."""

from bertcli.families.family import Family, starts_after_padding

OTHER = Family("other", first_position=starts_after_padding)
