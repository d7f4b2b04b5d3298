"""BigBird (Zaheer et al. 2020), whose attention is sparse, so that its batches are padded."""

from bertcli.families.family import Family

# Its pooler is a linear layer without activation, which the next-sentence head does not expect.
BIG_BIRD = Family("BigBird", ("big_bird",), can_pretrain=lambda model: False)
