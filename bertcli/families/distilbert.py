"""DistilBERT (Sanh et al. 2019): half of BERT's layers, without token types or pooler."""

from bertcli.families.family import Family

DISTILBERT = Family("DistilBERT", ("distilbert",), is_packed=True)
