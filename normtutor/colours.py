"""The colours that norms wear in drawings: on a light and on a dark page.

Relatives share a colour and differ in dashes. Style sheets know them as ``--norm-batchnorm`` and so
on; the book's figures take them from here.
"""

COLOURS: dict[str, tuple[str, str]] = {
    "BatchNorm": ("#0a4a86", "#8cc4ee"),
    "LayerNorm": ("#cc4a00", "#fa8e2e"),
    "InstanceNorm": ("#6e4212", "#c59e5e"),
    "GroupNorm": ("#0f8563", "#2ee09a"),
    "RMSNorm": ("#b338bd", "#b980fb"),
    "pRMSNorm": ("#b338bd", "#b980fb"),
    "PowerNorm-V": ("#222222", "#e6e6e6"),
    "PowerNorm": ("#222222", "#e6e6e6"),
    "WeightNorm": ("#6e4212", "#c59e5e"),
}

# A network without a norm; its lines are dashed.
NO_NORM = ("#6a6a6a", "#a8a8a8")
