"""ELECTRA (Clark et al. 2020), whose embeddings are narrower than its layers."""

from bertcli.families.family import Family

ELECTRA = Family(
    "ELECTRA",
    ("electra",),
    is_packed=True,
    predict_tokens=lambda model, hidden: model.generator_lm_head(model.generator_predictions(hidden)),
)
