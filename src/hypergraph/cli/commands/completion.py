"""`hypergraph completion`: a shell script that completes commands, options, choices and workflow ids.

Commands and options are in the script, so completing them starts no process; ids come from `hypergraph ls`.
Only ids without characters that are special in a shell are offered.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.arguments import FOR_ALL, Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.main import options_of
from hypergraph.cli.output import quoted
from hypergraph.cli.registry import COMMANDS

SHELLS = ("bash", "zsh", "fish")
completion_options = (
    Option("SHELL", "bash, zsh or fish", needed=True, choices=SHELLS),
    Option("--full", "print the whole script, which the short one loads at the first TAB"),
)

_IDS = r"""ls --limit 100 --jsonl 2>/dev/null | sed -n 's/^{"id": "\([A-Za-z0-9._@#+/-]*\)".*/\1/p'"""
_BASH = r"""# Completion for hypergraph: add this to your startup file
#   {load}
_hypergraph_ids() {{
    local db=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${{COMP_WORDS[i]}} == --db ]] && db=(--db "${{COMP_WORDS[i + 1]}}")
    done
    hypergraph "${{db[@]}}" {ids}
}}
_hypergraph() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
    local words="" ids="" command="" i word
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        if [[ $word == --db ]]; then
            ((i++))
        elif [[ $word != -* ]]; then
            if [[ $command == db ]]; then command="db $word"; break; fi
            command=$word
            [[ $word == db ]] || break
        fi
    done
    case "$command $prev" in
{choices}
    esac
    if [[ -z $words ]]; then
        case "$command" in
{commands}
        esac
    fi
    COMPREPLY=()
    for word in $words; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
    if [[ -n $ids && $cur != -* ]]; then
        while IFS= read -r word; do
            [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
        done < <(_hypergraph_ids)
    fi
}}
complete -o default -F _hypergraph hypergraph
"""
_STUB = """# Completion for hypergraph: add this to your startup file
#   eval "$(hypergraph completion {shell})"
_hypergraph() {{
    eval "$(hypergraph completion {shell} --full)"
    _hypergraph "$@"
}}
complete -o default -F _hypergraph hypergraph
"""
_STUB_FISH = """# Completion for hypergraph: add this to your startup file
#   hypergraph completion fish | source
function __hypergraph_load
    complete -e -c hypergraph
    hypergraph completion fish --full | source
    complete -C (commandline -cp)
end
complete -c hypergraph -f -a '(__hypergraph_load)'
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_FISH_IDS = """# Completion for hypergraph: add this to your startup file
#   {load}
function __hypergraph_ids
    set -l words (commandline -opc)
    set -l db
    if set -l at (contains -i -- --db $words)
        set db --db $words[(math $at + 1)]
    end
    hypergraph $db {ids}
end
function __hypergraph_is
    set -l words (string match -v -- '-*' (commandline -opc)[2..])
    test "$words[1] $words[2]" = "$argv[1]"; or test "$words[1]" = "$argv[1]"
end
"""


def completion(call: Call) -> Reply:
    """Print a script that completes commands in a shell; a short one, which loads the rest when needed.

    The whole script needs the options of every command, and so every module. At the start of each shell that
    would take too long.
    """
    shell = call.options.shell
    if call.options.full:
        script = {"bash": _bash, "zsh": lambda: _ZSH + _bash("zsh"), "fish": _fish}[shell]()
    else:
        script = (
            _STUB_FISH if shell == "fish" else (_ZSH if shell == "zsh" else "") + _STUB.format(shell=shell)
        )
    if not (call.options.json or call.options.jsonl):
        print(script, end="")
    return Reply({"schema": "hypergraph.completion/1", "shell": call.options.shell, "script": script})


def _words(name: str) -> str:
    return name.replace("-", " ") if name.startswith("db-") else name


def _takes_id(options: tuple[Option, ...]) -> bool:
    return any(option.name == "WF" or option.value == "WF" for option in options)


def _first_words() -> list[str]:
    return list(dict.fromkeys(_words(name).split(" ")[0] for name in COMMANDS))


def _bash(shell: str = "bash") -> str:
    choices, commands = [], []
    commands.append(f'            "") words="{" ".join(_first_words())} {_names(FOR_ALL)}" ;;')
    below = " ".join(_words(name).split(" ")[1] for name in COMMANDS if name.startswith("db-"))
    commands.append(f'            db) words="{below}" ;;')
    for name in COMMANDS:
        options = options_of(name)
        for option in options:
            if option.choices and not option.is_argument:
                choices.append(
                    f'        "{_words(name)} {option.name}") words="{" ".join(option.choices)}" ;;'
                )
        given = [choice for option in options if option.is_argument for choice in option.choices]
        ids = " ids=1" if _takes_id(options) else ""
        words = " ".join((*given, _names((*options, *FOR_ALL))))
        commands.append(f'            "{_words(name)}") words="{words}"{ids} ;;')
    load = f'eval "$(hypergraph completion {shell})"'
    return _BASH.format(load=load, ids=_IDS, choices="\n".join(choices), commands="\n".join(commands))


def _names(options: tuple[Option, ...]) -> str:
    return " ".join(option.name for option in options if not option.is_argument)


def _fish() -> str:
    head = _FISH_IDS.format(load="hypergraph completion fish | source", ids=_IDS)
    lines = ["complete -c hypergraph -n __fish_use_subcommand -f"]
    for name, command in COMMANDS.items():
        lines += _fish_lines(name, command.summary)
    return head + "\n".join(lines) + "\n"


def _fish_lines(name: str, summary: str) -> Iterator[str]:
    first, _, second = _words(name).partition(" ")
    if second:
        yield _complete("__fish_use_subcommand", "-a", first)
        yield _complete(f"__hypergraph_is {first}", "-f", "-a", second, "-d", summary)
    else:
        yield _complete("__fish_use_subcommand", "-a", first, "-d", summary)
    here = f"__hypergraph_is '{_words(name)}'"
    options = (*options_of(name), *FOR_ALL)
    if _takes_id(options):
        yield _complete(here, "-f", "-a", "(__hypergraph_ids)")
    for option in options:
        if option.is_argument:
            if option.choices:
                yield _complete(here, "-f", "-a", " ".join(option.choices))
            continue
        follows = (
            ("-x", "-a", " ".join(option.choices)) if option.choices else ("-r",) if option.value else ()
        )
        yield _complete(here, "-l", option.name[2:], *follows, "-d", option.help)


def _complete(condition: str, *words: str) -> str:
    return quoted("complete", "-c", "hypergraph", "-n", condition, *words)
