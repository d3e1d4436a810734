"""What _config.yml says, for programs that know Sphinx alone: `make live` runs one."""

from pathlib import Path

from jupyter_book.config import get_final_config

ROOT = Path(__file__).parent
_options = {"external_toc_path": str(ROOT / "_toc.yml"), "latex_individualpages": False}
_settings, _ = get_final_config(
    user_yaml=ROOT / "_config.yml", cli_config=_options, sourcedir=ROOT, use_external_toc=True
)
globals().update(_settings)
extensions = [*_settings["extensions"], "sphinx_multitoc_numbering"]
nb_execution_cache_path = str(ROOT / "_build" / ".jupyter_cache")
