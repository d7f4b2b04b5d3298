"""RoBERTa (Liu et al. 2019) and the models with its architecture: XLM-R, CamemBERT, data2vec and others."""

from bertcli.families.family import Family, starts_after_padding

TYPES = ("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text")
ROBERTA = Family(
    "RoBERTa",
    TYPES,
    is_packed=True,
    first_position=starts_after_padding,
    predict_tokens=lambda model, hidden: model.lm_head(hidden),
)
