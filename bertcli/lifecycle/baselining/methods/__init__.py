"""The methods of `bert baseline`, one file each: what is fitted for each kind of task."""

from bertcli.lifecycle.baselining.methods.bag_of_words import BAG_OF_WORDS
from bertcli.lifecycle.baselining.methods.lstm import BILSTM, LSTM
from bertcli.lifecycle.baselining.methods.majority import MAJORITY
from bertcli.lifecycle.baselining.methods.method import Method
from bertcli.lifecycle.baselining.methods.static_vectors import STATIC_VECTORS

ALL = (MAJORITY, BAG_OF_WORDS, STATIC_VECTORS, LSTM, BILSTM)
METHODS: dict[str, Method] = {method.name: method for method in ALL}
