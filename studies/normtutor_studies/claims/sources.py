"""Where readers have met several of the claims. MyST markdown."""

EXPLANATION = "a popular explanation of why Transformers use LayerNorm"
ASSISTANT = "a chat assistant's answer about LayerNorm that is passed around as a tutorial"
GUIDE = "the quick guide of {cite:t}`vu2023` and its translations"
NOTES = "study notes on normalization that are copied from site to site"
REVIEW = "a popular review of the PowerNorm paper"
TUTORIALS = "many tutorials"
