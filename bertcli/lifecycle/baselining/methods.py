"""All methods, by their names."""

from bertcli.lifecycle.baselining.bag_of_words import BAG_OF_WORDS
from bertcli.lifecycle.baselining.majority import MAJORITY
from bertcli.lifecycle.baselining.method import Method

METHODS: dict[str, Method] = {method.name: method for method in (MAJORITY, BAG_OF_WORDS)}
