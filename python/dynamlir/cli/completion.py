"""``completion``: prints a script that completes the commands and options of ``dynamlir`` in a shell.

The words come from the parser. This is so little that a library for it would be the larger dependency; a program that
completes itself (as argcomplete makes them) would start Python at each press of the tab key.
"""

from __future__ import annotations

import argparse
import shlex

HELP = "print a completion script for bash, zsh or fish"
DESCRIPTION = """\
Prints a script that completes commands and options of `dynamlir`, the
program that is installed with the package; it is the same as
`python -m dynamlir`."""
EXAMPLES = """\
  eval "$(dynamlir completion bash)"     # in ~/.bashrc
  eval "$(dynamlir completion zsh)"      # in ~/.zshrc, after compinit
  dynamlir completion fish | source      # in ~/.config/fish/config.fish"""
SHELLS = ("bash", "zsh", "fish")

# In bash and zsh, a case for each command; words that are no options are completed as files.
_BASH = """\
_dynamlir() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=
    if [ "$COMP_CWORD" = 1 ]; then
        words={commands}
    else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dynamlir dynamlir
"""
_ZSH = """\
#compdef dynamlir
_dynamlir() {{
    local -a found
    if (( CURRENT == 2 )); then
        found=({commands})
        _describe command found
        return
    fi
    case ${{words[2]}} in
{cases}
    esac
    [[ $PREFIX == -* || ${{words[2]}} == completion ]] && _describe option found || _files
}}
compdef _dynamlir dynamlir
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns true."""
    return True


def main(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    words: dict[str, tuple[str, dict[str, str]]] = arguments.words
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](words), end="")
    return 0


def words_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Returns the words that may follow a command, with their descriptions."""
    found: dict[str, str] = {}
    for action in parser._actions:  # argparse has no public list of them
        text = (action.help or "").partition(";")[0].replace("%(prog)s", "")
        for word in action.option_strings:
            if word.startswith("--"):
                found[word] = text
        if not action.option_strings and action.choices is not None and action.metavar is None:
            found.update((str(choice), "") for choice in action.choices)
    return found


def _bash(words: dict[str, tuple[str, dict[str, str]]]) -> str:
    cases = [f"            {name}) words={shlex.quote(' '.join(own))} ;;" for name, (_, own) in words.items()]
    return _BASH.format(commands=shlex.quote(" ".join([*words, "--help", "--version"])), cases="\n".join(cases))


def _zsh(words: dict[str, tuple[str, dict[str, str]]]) -> str:
    def described(own: dict[str, str]) -> str:
        return " ".join(shlex.quote(f"{word}:{text}" if text else word) for word, text in own.items())

    cases = [f"        {name}) found=({described(own)}) ;;" for name, (_, own) in words.items()]
    return _ZSH.format(commands=described({name: text for name, (text, _) in words.items()}), cases="\n".join(cases))


def _fish(words: dict[str, tuple[str, dict[str, str]]]) -> str:
    lines = []
    for name, (text, own) in words.items():
        lines.append(f"complete -c dynamlir -n __fish_use_subcommand -f -a {name} -d {shlex.quote(text)}")
        for word, meaning in own.items():
            form = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            after = f"-d {shlex.quote(meaning)}" if meaning else ""
            lines.append(f"complete -c dynamlir -n '__fish_seen_subcommand_from {name}' {form} {after}".rstrip())
    return "\n".join(lines) + "\n"
