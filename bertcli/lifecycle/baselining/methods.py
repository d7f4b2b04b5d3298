"""All methods, by their names."""

from bertcli.lifecycle.baselining.bag_of_words import BAG_OF_WORDS
from bertcli.lifecycle.baselining.lstm import BILSTM, LSTM
from bertcli.lifecycle.baselining.majority import MAJORITY
from bertcli.lifecycle.baselining.method import Method
from bertcli.lifecycle.baselining.static_vectors import STATIC_VECTORS

ALL = (MAJORITY, BAG_OF_WORDS, STATIC_VECTORS, LSTM, BILSTM)
METHODS: dict[str, Method] = {method.name: method for method in ALL}
