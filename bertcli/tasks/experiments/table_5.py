"""Table 5: pre-training without next sentences, and from left to right; each row is compared with the one above it."""

from bertcli.tasks.experiments.experiment import Experiment, Options, System, columns_of
from bertcli.tasks.paper import TABLES

BASE, NO_NSP, LTR, BILSTM = TABLES[5].rows
ONE_TEXT: Options = {"next_sentence": False}
LEFT_TO_RIGHT: Options = {"objective": "left-to-right"}
LAST_TOKEN = "Left to right: the last token is classified; the paper does not say which, and [CLS] sees only itself."
TABLE_5 = Experiment(
    "table-5",
    TABLES[5],
    (
        System(BASE, pretrain={"objective": "mlm+nsp"}),
        System(NO_NSP, BASE, {"objective": "mlm"}, ONE_TEXT),
        System(LTR, NO_NSP, LEFT_TO_RIGHT, ONE_TEXT, note=LAST_TOKEN),
        System(BILSTM, LTR, LEFT_TO_RIGHT, ONE_TEXT, {"bilstm": True}, note=LAST_TOKEN),
    ),
    columns_of(TABLES[5]),
)
